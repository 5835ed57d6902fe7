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

static row_kind kind_of(const matrix *matrix, const matrix_row *row)
{
    const char *digest = NULL;
    size_t passed = 0, failed = 0;
    bool differs = false;
    for (size_t c = 0; c < matrix->column_count; c++) {
        const report_case *cell = row->cells[c];
        if (cell == NULL || cell->status == CASE_ERROR) {
            continue;
        }
        passed += cell->status == CASE_PASS;
        failed += cell->status != CASE_PASS;
        // Without outputs there is nothing that could differ, but the status.
        if (cell->digest[0] != '\0') {
            differs |= digest != NULL && strcmp(digest, cell->digest) != 0;
            digest = cell->digest;
        }
    }
    return differs || (passed > 0 && failed > 0) ? ROW_DIFFERS
           : failed > 0                          ? ROW_FAILS
           : passed < matrix->column_count       ? ROW_UNKNOWN
                                                 : ROW_PASSES;
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
    for (size_t k = 0; k < matrix->row_count; k++) {
        matrix->rows[k].kind = kind_of(matrix, &matrix->rows[k]);
        matrix->counts[matrix->rows[k].kind]++;
    }
}

// --- The matrix

void matrix_make(const run_report *reports, size_t count, matrix *matrix)
{
    memset(matrix, 0, sizeof *matrix);
    for (size_t r = 0; r < count; r++) {
        matrix->column_count += reports[r].device_count;
    }
    matrix->columns = allocate(matrix->column_count, sizeof matrix->columns[0]);
    matrix->is_one_list = true;
    matrix->is_complete = matrix->column_count > 0;
    matrix->is_one_print = matrix->column_count > 0;
    size_t c = 0;
    for (size_t r = 0; r < count; r++) {
        matrix->is_one_list &= strcmp(reports[r].case_digest, reports[0].case_digest) == 0;
        for (size_t d = 0; d < reports[r].device_count; d++, c++) {
            const report_device *device = &reports[r].devices[d];
            matrix->columns[c] = (matrix_column){&reports[r], device};
            matrix->is_complete &=
                device->status == DEVICE_COMPLETE && device->counts[CASE_ERROR] == 0;
            matrix->is_one_print &=
                strcmp(device->fingerprint, "incomplete") != 0 &&
                strcmp(device->fingerprint, matrix->columns[0].device->fingerprint) == 0;
        }
    }
    make_rows(matrix);
}

void matrix_free(matrix *matrix)
{
    for (size_t k = 0; k < matrix->row_count; k++) {
        free(matrix->rows[k].cells);
    }
    free(matrix->rows);
    free(matrix->columns);
    memset(matrix, 0, sizeof *matrix);
}

int matrix_exit(const matrix *matrix)
{
    bool is_whole = matrix->is_complete && matrix->is_one_list && matrix->is_one_print;
    int code = is_whole && matrix->row_count > 0 ? EXIT_DONE : EXIT_UNDECIDED;
    if (matrix->counts[ROW_DIFFERS] > 0) {
        return EXIT_FAILED;
    }
    for (size_t c = 0; c < matrix->column_count; c++) {
        const report_device *device = matrix->columns[c].device;
        if (device->counts[CASE_FAIL] > 0 || device->counts[CASE_UNSUPPORTED] > 0) {
            return EXIT_FAILED;
        }
    }
    return code;
}

void matrix_describe(const matrix *matrix, char *sentence, size_t bytes)
{
    static const char *const kinds[ROW_PASSES] = {"different between devices", "failed",
                                                  "not known on every device"};
    text text = {0};
    size_t undone = 0;
    for (size_t c = 0; c < matrix->column_count; c++) {
        undone += matrix->columns[c].device->status != DEVICE_COMPLETE;
    }
    text_add(&text, "%zu device%s, %zu cases: ", matrix->column_count,
             matrix->column_count == 1 ? "" : "s", matrix->row_count);
    if (matrix_exit(matrix) == EXIT_DONE) {
        text_add(&text, "all passed%s",
                 matrix->column_count == 1 ? "" : ", with the same bits everywhere");
    } else {
        const char *comma = "";
        for (int kind = 0; kind < ROW_PASSES; kind++) {
            if (matrix->counts[kind] > 0) {
                text_add(&text, "%s%" PRIu64 " %s", comma, matrix->counts[kind], kinds[kind]);
                comma = ", ";
            }
        }
        if (undone > 0) {
            text_add(&text, "%s%zu device%s not complete", comma, undone,
                     undone == 1 ? " is" : "s are");
            comma = ", ";
        }
        if (!matrix->is_one_list) {
            text_add(&text, "%sthe reports are of different lists of cases", comma);
        } else if (matrix->row_count == 0) {
            text_add(&text, "%snothing has run", comma);
        }
    }
    snprintf(sentence, bytes, "%.*s", (int)text.count, text.bytes);
    free(text.bytes);
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
    add_member(text, "id", device->id);
    add_member(text, "name", device->name);
    add_member(text, "driver", device->driver);
    add_member(text, "status", device_status_name(device->status));
    add_member(text, "reason", device->reason);
    add_member(text, "fingerprint", device->fingerprint);
    text_add(text, "\"missing\":%" PRIu64 ",\"counts\":[0",
             report->case_count - device->case_count);
    for (int status = CASE_PASS; status < CASE_STATUSES; status++) {
        text_add(text, ",%" PRIu64, device->counts[status]);
    }
    text_add(text, "],\"facts\":[");
    add_fact(text, "device", "fingerprint", device->fingerprint);
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
    char sentence[256];
    matrix_describe(matrix, sentence, sizeof sentence);
    text_add(text, "{");
    add_member(text, "sentence", sentence);
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
