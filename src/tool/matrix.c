#include "matrix.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Rows

typedef struct named {
    const char *name;
    size_t row;  // where the name comes up first, then the number of its row
    const report_case *test;
    size_t column;
} named;

static int by_name(const void *a, const void *b)
{
    const named *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order != 0 ? order : (left->row > right->row) - (left->row < right->row);
}

static int by_row(const void *a, const void *b)
{
    const named *left = a, *right = b;
    return (left->row > right->row) - (left->row < right->row);
}

// digests: room for one a column, by list. Other outputs are a difference only where the inputs are
// the same, and whether they are is known within a list alone.
static row_kind kind_of(const matrix *matrix, const matrix_row *row, const char **digests)
{
    size_t passed = 0, failed = 0;
    bool differs = false;
    memset(digests, 0, matrix->column_count * sizeof digests[0]);
    for (size_t c = 0; c < matrix->column_count; c++) {
        const report_case *cell = row->cells[c];
        if (cell == NULL || cell->status == CASE_ERROR) {
            continue;
        }
        passed += cell->status == CASE_PASS;
        failed += cell->status != CASE_PASS;
        // Without outputs there is nothing that could differ, but the status.
        if (cell->digest[0] != '\0') {
            const char **digest = &digests[matrix->columns[c].list];
            differs |= *digest != NULL && strcmp(*digest, cell->digest) != 0;
            *digest = cell->digest;
        }
    }
    return differs || (passed > 0 && failed > 0) ? ROW_DIFFERS
           : failed > 0                          ? ROW_FAILS
           : passed < matrix->column_count       ? ROW_UNKNOWN
                                                 : ROW_PASSES;
}

static void count_row(matrix *matrix, const matrix_row *row)
{
    bool has[CASE_STATUSES] = {false}, is_same = row->kind == ROW_PASSES;
    for (size_t c = 0; c < matrix->column_count; c++) {
        const report_case *cell = row->cells[c];
        has[cell != NULL ? cell->status : CASE_MISSING] = true;
        is_same = is_same && strcmp(cell->digest, row->cells[0]->digest) == 0;
    }
    for (int status = 0; status < CASE_STATUSES; status++) {
        matrix->somewhere[status] += has[status];
    }
    matrix->counts[row->kind]++;
    matrix->same += is_same;
}

static void make_rows(matrix *matrix)
{
    size_t total = 0;
    for (size_t c = 0; c < matrix->column_count; c++) {
        total += matrix->columns[c].device->case_count;
    }
    named *all = allocate(total, sizeof all[0]);
    size_t n = 0;
    for (size_t c = 0; c < matrix->column_count; c++) {
        const report_device *device = matrix->columns[c].device;
        for (size_t k = 0; k < device->case_count; k++, n++) {
            all[n] = (named){device->cases[k].name, n, &device->cases[k], c};
        }
    }
    // Those of one name get the place of the first; then they stand in the order of the rows.
    qsort(all, total, sizeof all[0], by_name);
    for (size_t k = 1; k < total; k++) {
        if (strcmp(all[k].name, all[k - 1].name) == 0) {
            all[k].row = all[k - 1].row;
        }
    }
    qsort(all, total, sizeof all[0], by_row);
    matrix->rows = allocate(total, sizeof matrix->rows[0]);
    for (size_t k = 0; k < total; k++) {
        if (k == 0 || all[k].row != all[k - 1].row) {
            matrix_row *row = &matrix->rows[matrix->row_count++];
            row->name = all[k].name;
            row->cells = allocate(matrix->column_count, sizeof row->cells[0]);
        }
        matrix->rows[matrix->row_count - 1].cells[all[k].column] = all[k].test;
    }
    free(all);
    const char **digests = allocate(matrix->column_count, sizeof digests[0]);
    for (size_t k = 0; k < matrix->row_count; k++) {
        matrix->rows[k].kind = kind_of(matrix, &matrix->rows[k], digests);
        count_row(matrix, &matrix->rows[k]);
    }
    free(digests);
}

// --- Columns

// What a case's inputs follow from, besides its name.
static const char *const input_options[] = {"level", "seed", "vectors"};
enum { INPUT_OPTIONS = sizeof input_options / sizeof input_options[0] };

static const char *option_of(const run_report *report, const char *name)
{
    for (size_t k = 0; k < report->options.count; k++) {
        if (strcmp(report->options.items[k].name, name) == 0) {
            return report->options.items[k].value;
        }
    }
    return NULL;
}

static bool is_same_option(const run_report *a, const run_report *b, const char *name)
{
    const char *left = option_of(a, name), *right = option_of(b, name);
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

static bool is_same_list(const run_report *a, const run_report *b)
{
    bool is_same = strcmp(a->case_digest, b->case_digest) == 0;
    for (size_t k = 0; k < INPUT_OPTIONS; k++) {
        is_same = is_same && is_same_option(a, b, input_options[k]);
    }
    return is_same;
}

// Whether all reports have it as the first has.
static bool is_common_option(const matrix *matrix, const char *name)
{
    bool is_common = true;
    for (size_t c = 1; c < matrix->column_count; c++) {
        is_common =
            is_common && is_same_option(matrix->columns[0].report, matrix->columns[c].report, name);
    }
    return is_common;
}

// A fault, a filter and other vectors are always told, level and seed where they are not the same.
static void add_marks(matrix *matrix)
{
    static const struct {
        const char *name;
        bool is_always_told;
    } options[MATRIX_MARKS] = {
        {"fault", true}, {"filter", true}, {"vectors", true}, {"level", false}, {"seed", false}};
    for (size_t k = 0; k < MATRIX_MARKS; k++) {
        const char *name = options[k].name;
        if (!options[k].is_always_told && is_common_option(matrix, name)) {
            continue;
        }
        for (size_t c = 0; c < matrix->column_count; c++) {
            matrix_column *column = &matrix->columns[c];
            const char *value = option_of(column->report, name);
            if (value != NULL) {
                column->marks[column->mark_count++] = (matrix_mark){name, value};
                matrix->faults += strcmp(name, "fault") == 0;
            }
        }
    }
}

// Where the last parts of a path begin that no other path ends in: its file name, if that will do.
static const char *short_name(char *const *paths, size_t count, const char *path)
{
    const char *tail = path + strlen(path);
    bool is_unique = false;
    while (tail > path && !is_unique) {
        do {
            tail--;
        } while (tail > path && tail[-1] != '/');
        is_unique = true;
        size_t bytes = strlen(tail);
        for (size_t k = 0; k < count; k++) {
            size_t length = strlen(paths[k]);
            is_unique &= strcmp(paths[k], path) == 0 || length < bytes ||
                         strcmp(&paths[k][length - bytes], tail) != 0;
        }
    }
    return tail;
}

static void make_columns(const run_report *reports, const char *const *paths, size_t count,
                         matrix *matrix)
{
    char **files = allocate(count, sizeof files[0]);
    for (size_t r = 0; r < count; r++) {
        matrix->column_count += reports[r].device_count;
        files[r] = copy_without_home(paths[r]);
    }
    matrix->columns = allocate(matrix->column_count, sizeof matrix->columns[0]);
    size_t c = 0;
    for (size_t r = 0; r < count; r++) {
        for (size_t d = 0; d < reports[r].device_count; d++, c++) {
            size_t list = 0;
            while (list < c && !is_same_list(&reports[r], matrix->columns[list].report)) {
                list++;
            }
            matrix->columns[c] =
                (matrix_column){.report = &reports[r],
                                .device = &reports[r].devices[d],
                                .file = copy_text(short_name(files, count, files[r])),
                                .list = list};
        }
    }
    for (size_t r = 0; r < count; r++) {
        free(files[r]);
    }
    free(files);
    add_marks(matrix);
}

// --- The matrix

static bool has_print(const report_device *device)
{
    return strcmp(device->fingerprint, "incomplete") != 0;
}

const char *matrix_fingerprint(const report_device *device)
{
    return has_print(device) ? device->fingerprint : "none";
}

void matrix_make(const run_report *reports, const char *const *paths, size_t count, size_t unread,
                 matrix *matrix)
{
    memset(matrix, 0, sizeof *matrix);
    matrix->unread = unread;
    make_columns(reports, paths, count, matrix);
    bool is_same_inputs = true, is_same_cases = true;
    matrix->is_complete = matrix->is_one_print = matrix->column_count > 0;
    for (size_t c = 0; c < matrix->column_count; c++) {
        const report_device *device = matrix->columns[c].device, *first = matrix->columns[0].device;
        matrix->is_complete &= device->status == DEVICE_COMPLETE && device->counts[CASE_ERROR] == 0;
        matrix->is_one_print &=
            has_print(device) && strcmp(device->fingerprint, first->fingerprint) == 0;
        is_same_inputs &= matrix->columns[c].list == 0;
    }
    for (size_t r = 0; r < count; r++) {
        is_same_cases &= strcmp(reports[r].case_digest, reports[0].case_digest) == 0;
    }
    // The same bits everywhere are those of the same inputs, whatever the options were.
    matrix->is_one_list = is_same_cases && (is_same_inputs || matrix->is_one_print);
    make_rows(matrix);
}

void matrix_free(matrix *matrix)
{
    for (size_t k = 0; k < matrix->row_count; k++) {
        free(matrix->rows[k].cells);
    }
    for (size_t c = 0; c < matrix->column_count; c++) {
        free(matrix->columns[c].file);
    }
    free(matrix->rows);
    free(matrix->columns);
    memset(matrix, 0, sizeof *matrix);
}

int matrix_exit(const matrix *matrix)
{
    bool is_whole = matrix->is_complete && matrix->is_one_list && matrix->is_one_print &&
                    matrix->unread == 0 && matrix->counts[ROW_UNKNOWN] == 0;
    bool has_failed = matrix->counts[ROW_DIFFERS] > 0 || matrix->counts[ROW_FAILS] > 0;
    return has_failed                          ? EXIT_FAILED
           : is_whole && matrix->row_count > 0 ? EXIT_DONE
                                               : EXIT_UNDECIDED;
}

// --- In words

void matrix_describe_mark(const matrix_mark *mark, text *words)
{
    text_add(words, strcmp(mark->name, "fault") == 0 ? "a deliberate %s: %s" : "%s: %s", mark->name,
             mark->value);
}

// Which options are not the same in all reports, for their lists are not.
static void describe_lists(const matrix *matrix, text *text)
{
    static const char *const names[] = {"level", "filter", "seed", "vectors"};
    text_add(text, "the reports are of different lists of cases");
    const char *before = " (";
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        if (!is_common_option(matrix, names[k])) {
            text_add(text, "%s--%s", before, names[k]);
            before = ", ";
        }
    }
    text_add(text, before[0] == ',' ? ")" : "");
}

// What is not as it should be, one after the other.
static void describe_faults(const matrix *matrix, text *text)
{
    static const char *const statuses[CASE_STATUSES] = {[CASE_FAIL] = "failed",
                                                        [CASE_UNSUPPORTED] = "unsupported",
                                                        [CASE_ERROR] = "in error",
                                                        [CASE_MISSING] = "not run"};
    static const int order[] = {CASE_FAIL, CASE_UNSUPPORTED, CASE_ERROR, CASE_MISSING};
    const char *comma = "", *where = matrix->column_count > 1 ? " somewhere" : "";
    size_t undone = 0;
    for (size_t c = 0; c < matrix->column_count; c++) {
        undone += matrix->columns[c].device->status != DEVICE_COMPLETE;
    }
    if (!matrix->is_one_list) {
        describe_lists(matrix, text);
        comma = ", ";
    } else if (matrix->row_count == 0 && matrix->unread == 0) {
        text_add(text, "nothing has run");
        comma = ", ";
    }
    if (matrix->counts[ROW_DIFFERS] > 0) {
        text_add(text, "%s%" PRIu64 " different between devices", comma,
                 matrix->counts[ROW_DIFFERS]);
        comma = ", ";
    }
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
        if (matrix->somewhere[order[k]] > 0) {
            text_add(text, "%s%" PRIu64 " %s%s", comma, matrix->somewhere[order[k]],
                     statuses[order[k]], where);
            comma = ", ";
        }
    }
    if (undone > 0) {
        text_add(text, "%s%zu device%s not complete", comma, undone, undone == 1 ? " is" : "s are");
        comma = ", ";
    }
    if (matrix->counts[ROW_PASSES] > 0) {
        text_add(text, "%s%" PRIu64 " passed%s", comma, matrix->counts[ROW_PASSES],
                 matrix->column_count > 1 ? " everywhere" : "");
        comma = ", ";
        if (matrix->column_count > 1 && matrix->same == matrix->counts[ROW_PASSES]) {
            text_add(text, " with the same bits");
        } else if (matrix->column_count > 1) {
            text_add(text, ", %" PRIu64 " of them with the same bits", matrix->same);
        }
    }
    if (matrix->unread > 0) {
        text_add(text, "%s%zu file%s could not be read", comma, matrix->unread,
                 matrix->unread == 1 ? "" : "s");
    }
}

void matrix_describe(const matrix *matrix, text *sentence)
{
    text_add(sentence, "%zu device%s", matrix->column_count, matrix->column_count == 1 ? "" : "s");
    if (matrix->faults > 0 && matrix->column_count == 1) {
        text_add(sentence, " with a deliberate fault");
    } else if (matrix->faults > 0) {
        text_add(sentence, ", %zu with a deliberate fault", matrix->faults);
    }
    text_add(sentence, ", %zu case%s: ", matrix->row_count, matrix->row_count == 1 ? "" : "s");
    if (matrix_exit(matrix) == EXIT_DONE) {
        text_add(sentence, "all passed%s",
                 matrix->column_count == 1 ? "" : ", with the same bits everywhere");
    } else {
        describe_faults(matrix, sentence);
    }
}

// --- The page's data

// A triple: heading, name, value.
static void add_fact(text *text, const char *heading, const char *name, const char *value)
{
    text_add(text, text->bytes[text->count - 1] == '[' ? "[" : ",[");
    text_add_json(text, heading);
    text_add(text, ",");
    text_add_json(text, name);
    text_add(text, ",");
    text_add_json(text, value);
    text_add(text, "]");
}

static void add_facts(text *text, const char *heading, const report_values *values)
{
    for (size_t k = 0; k < values->count; k++) {
        add_fact(text, heading, values->items[k].name, values->items[k].value);
    }
}

static void add_member(text *text, const char *name, const char *value)
{
    text_add(text, "\"%s\":", name);
    text_add_json(text, value);
    text_add(text, ",");
}

static void add_column(text *text, const matrix_column *column)
{
    const run_report *report = column->report;
    const report_device *device = column->device;
    text_add(text, "{");
    add_member(text, "file", column->file);
    add_member(text, "id", device->id);
    add_member(text, "name", device->name);
    add_member(text, "driver", device->driver);
    add_member(text, "status", device_status_name(device->status));
    add_member(text, "reason", device->reason);
    add_member(text, "fingerprint", matrix_fingerprint(device));
    text_add(text, "\"marks\":[");
    for (size_t k = 0; k < column->mark_count; k++) {
        struct text words = {0};
        matrix_describe_mark(&column->marks[k], &words);
        text_add_bytes(&words, "", 1);
        text_add(text, k == 0 ? "[" : ",[");
        text_add_json(text, column->marks[k].name);
        text_add(text, ",");
        text_add_json(text, words.bytes);
        text_add(text, "]");
        free(words.bytes);
    }
    text_add(text, "],");
    text_add(text, "\"missing\":%" PRIu64 ",\"counts\":[0",
             report->case_count - device->case_count);
    for (int status = CASE_PASS; status < CASE_STATUSES; status++) {
        text_add(text, ",%" PRIu64, device->counts[status]);
    }
    text_add(text, "],\"facts\":[");
    add_fact(text, "device", "fingerprint", matrix_fingerprint(device));
    add_fact(text, "device", "api", device->api);
    add_fact(text, "device", "kind", device->kind);
    add_fact(text, "device", "uuid", device->uuid);
    add_facts(text, "driver", &device->properties);
    add_facts(text, "system", &report->system);
    add_facts(text, "environment", &report->environment);
    add_facts(text, "options", &report->options);
    add_fact(text, "kquant", "version", report->version);
    add_fact(text, "kquant", "commit", report->commit);
    add_fact(text, "kquant", "changed since", report->is_dirty ? "yes" : "no");
    add_fact(text, "kquant", "case list", report->case_digest);
    for (size_t k = 0; k < report->module_count; k++) {
        const report_module *module = &report->modules[k];
        char value[128];
        snprintf(value, sizeof value, "%.40s %s", module->form, module->sha256);
        if (strcmp(module->api, device->api) == 0) {
            add_fact(text, "modules", module->name, value);
        }
    }
    text_add(text, "]}");
}

// 0, or [status, digest, mismatches, seconds, reason]; a digest is its first 16 digits.
static void add_cells(text *text, const matrix *matrix, const matrix_row *row)
{
    for (size_t c = 0; c < matrix->column_count; c++) {
        const report_case *cell = row->cells[c];
        if (cell == NULL) {
            text_add(text, ",0");
            continue;
        }
        text_add(text, ",[%d,\"%.16s\",%" PRIu64 ",%.3f", (int)cell->status, cell->digest,
                 cell->mismatches, cell->seconds);
        if (cell->reason[0] != '\0') {
            text_add(text, ",");
            text_add_json(text, cell->reason);
        }
        text_add(text, "]");
    }
}

void matrix_write(const matrix *matrix, text *text)
{
    struct text sentence = {0};
    matrix_describe(matrix, &sentence);
    text_add_bytes(&sentence, "", 1);
    text_add(text, "{");
    add_member(text, "sentence", sentence.bytes);
    free(sentence.bytes);
    text_add(text, "\"exit\":%d,\"devices\":[", matrix_exit(matrix));
    for (size_t c = 0; c < matrix->column_count; c++) {
        text_add(text, c == 0 ? "\n" : ",\n");
        add_column(text, &matrix->columns[c]);
    }
    text_add(text, "],\n\"rows\":[");
    for (size_t k = 0; k < matrix->row_count; k++) {
        text_add(text, k == 0 ? "\n[" : ",\n[");
        text_add_json(text, matrix->rows[k].name);
        text_add(text, ",%d", (int)matrix->rows[k].kind);
        add_cells(text, matrix, &matrix->rows[k]);
        text_add(text, "]");
    }
    text_add(text, "]}");
}
