// kquant report: the reports of several runs as one page.

#include "files.h"
#include "matrix.h"
#include "options.h"
#include "text.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const unsigned char kq_report_page[];
extern const size_t kq_report_page_bytes;

enum { DIFFERENCES = 20 };

// A text from a report must not steer a terminal.
static void print_text(const char *text, int bytes)
{
    for (int k = 0; k < bytes && text[k] != '\0'; k++) {
        putchar((unsigned char)text[k] < ' ' || text[k] == 0x7F ? '?' : text[k]);
    }
}

static bool is_same_cell(const report_case *a, const report_case *b)
{
    return a == NULL || b == NULL ? a == b
                                  : a->status == b->status && strcmp(a->digest, b->digest) == 0;
}

// The answers of a row, each with the numbers of the devices that gave it: "1-3, 5 pass 01234567; 4
// fail 89abcdef".
static void print_answers(const matrix *matrix, const matrix_row *row)
{
    for (size_t c = 0; c < matrix->column_count; c++) {
        const report_case *cell = row->cells[c];
        size_t first = 0;
        while (!is_same_cell(row->cells[first], cell)) {
            first++;
        }
        if (first < c) {
            continue;
        }
        const char *before = c == 0 ? " " : "; ";
        for (size_t from = c, to; from < matrix->column_count; from = to + 1) {
            to = from;
            if (!is_same_cell(row->cells[from], cell)) {
                continue;
            }
            while (to + 1 < matrix->column_count && is_same_cell(row->cells[to + 1], cell)) {
                to++;
            }
            printf("%s%zu", before, from + 1);
            if (to > from) {
                printf("-%zu", to + 1);
            }
            before = ", ";
        }
        printf(" %s", cell != NULL ? case_status_name(cell->status) : "not run");
        if (cell != NULL && cell->digest[0] != '\0') {
            printf(" %.16s", cell->digest);
        }
    }
    printf("\n");
}

static bool has_failed(const matrix *matrix, const matrix_row *row)
{
    bool has_failed = false;
    for (size_t c = 0; c < matrix->column_count; c++) {
        has_failed |= row->cells[c] != NULL && row->cells[c]->status == CASE_FAIL;
    }
    return has_failed;
}

// The first cases that are not the same everywhere, or pass nowhere.
static void print_rows(const matrix *matrix)
{
    unsigned lines = 0;
    for (size_t k = 0; k < matrix->row_count && lines < DIFFERENCES; k++) {
        const matrix_row *row = &matrix->rows[k];
        if (row->kind != ROW_DIFFERS && row->kind != ROW_FAILS) {
            continue;
        }
        lines++;
        printf("%s ", row->kind == ROW_DIFFERS  ? "DIFFER"
                      : has_failed(matrix, row) ? "FAIL  "
                                                : "UNSUPPORTED");
        print_text(row->name, INT_MAX);
        printf(":");
        print_answers(matrix, row);
    }
    uint64_t all = matrix->counts[ROW_DIFFERS] + matrix->counts[ROW_FAILS];
    if (all > lines) {
        printf("       and %" PRIu64 " cases more\n", all - lines);
    }
}

static void print_devices(const matrix *matrix)
{
    printf("%3s  %-10s  %-10s", "", "device", "status");
    for (int status = CASE_PASS; status < CASE_STATUSES; status++) {
        printf("  %11s", case_status_name((case_status)status));
    }
    printf("  %-16s  file: name\n", "fingerprint");
    for (size_t c = 0; c < matrix->column_count; c++) {
        const matrix_column *column = &matrix->columns[c];
        const report_device *device = column->device;
        printf("%3zu  ", c + 1);
        print_text(device->id, 32);
        printf("%*s  %-10s", strlen(device->id) < 10 ? (int)(10 - strlen(device->id)) : 0, "",
               device_status_name(device->status));
        for (int status = CASE_PASS; status < CASE_STATUSES; status++) {
            printf("  %11" PRIu64, device->counts[status]);
        }
        printf("  %-16.16s  ", matrix_fingerprint(device));
        print_text(column->file, INT_MAX);
        printf(": ");
        print_text(device->name, INT_MAX);
        for (size_t k = 0; k < column->mark_count; k++) {
            text words = {0};
            matrix_describe_mark(&column->marks[k], &words);
            text_add_bytes(&words, "", 1);
            printf("; ");
            print_text(words.bytes, INT_MAX);
            free(words.bytes);
        }
        printf("\n");
    }
}

static void print_summary(const matrix *matrix)
{
    if (matrix->column_count > 0) {
        print_devices(matrix);
        print_rows(matrix);
    }
    text sentence = {0};
    matrix_describe(matrix, &sentence);
    printf("%.*s\n", (int)sentence.count, sentence.bytes);
    free(sentence.bytes);
}

// The page is a template with its data in it once.
static bool write_page(const matrix *matrix, const char *path)
{
    static const char mark[] = "@DATA@";
    const char *page = (const char *)kq_report_page;
    const char *at = strstr(page, mark);
    text text = {0};
    text_add_bytes(&text, page, (size_t)(at - page));
    matrix_write(matrix, &text);
    at += strlen(mark);
    text_add_bytes(&text, at, kq_report_page_bytes - (size_t)(at - page));
    bool is_good = write_file(path, (const uint8_t *)text.bytes, text.count);
    free(text.bytes);
    return is_good;
}

static const char about[] =
    "Puts devices side by side, from any number of files that kquant check --json=F has written, "
    "on\n"
    "any machines: which cases have other outputs on one than on another, and which pass nowhere.\n"
    "--output writes one page that needs nothing else, no network either, to look at or to send "
    "on.\n"
    "Outputs are compared where lists of cases, level and seed are the same; a filter, a fault "
    "and\n"
    "what else a pass has to be read with is said of each device.\n\n"
    "Exit 0 means that every device in every file is complete and passed all cases, with the same\n"
    "bits. Exit 1: a case failed or differs. 99: a file is no report, a device is incomplete, was\n"
    "given up or not opened, or the reports are of different lists of cases. The page is written "
    "from\n"
    "what could be read.\n";

static const char examples[] = "  kquant check --device=all --level=full --json=mine.json\n"
                               "  kquant report mine.json theirs.json --output=matrix.html\n";

int cmd_report(int argc, char **argv)
{
    const char *output = NULL;
    size_t given = 0;
    static const char *const operands[] = {"REPORT.json"};
    const option options[] = {
        {.name = "output",
         .letter = 'o',
         .value = "F",
         .kind = OPTION_TEXT,
         .text = &output,
         .help = "write the page to this file; -o F is the same"},
    };
    const usage usage = {
        .name = "report",
        .summary = "REPORT.json ... [--output=F]",
        .about = about,
        .examples = examples,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands = operands,
        .operand_count = 1,
        .given = &given,
    };
    const char **paths = allocate((size_t)argc, sizeof paths[0]);
    switch (options_parse(&usage, argc, argv, paths)) {
    case OPTIONS_HELP: free(paths); return EXIT_DONE;
    case OPTIONS_WRONG: free(paths); return EXIT_USAGE;
    case OPTIONS_RUN: break;
    }

    for (size_t k = 0; k < given && output != NULL; k++) {
        if (is_same_file(output, paths[k])) {
            complain("report: the output must not be one of the reports, %s", paths[k]);
            free(paths);
            return EXIT_USAGE;
        }
    }

    for (size_t k = 1; k < given; k++) {
        for (size_t before = 0; before < k; before++) {
            if (is_same_file(paths[before], paths[k])) {
                complain("report: %s and %s are one file", paths[before], paths[k]);
                free(paths);
                return EXIT_USAGE;
            }
        }
    }

    run_report *reports = allocate(given, sizeof reports[0]);
    size_t count = 0, devices = 0;
    for (size_t k = 0; k < given; k++) {
        if (!report_read(paths[k], &reports[count])) {
            continue;
        }
        if (devices + reports[count].device_count > REPORT_MAX_DEVICES) {
            complain("%s: is not read, for there are more than %d devices with it", paths[k],
                     REPORT_MAX_DEVICES);
            report_free(&reports[count]);
            continue;
        }
        devices += reports[count].device_count;
        paths[count++] = paths[k];
    }
    matrix matrix;
    matrix_make(reports, paths, count, given - count, &matrix);
    print_summary(&matrix);
    int code = matrix_exit(&matrix);
    if (count > 0 && output != NULL && !write_page(&matrix, output)) {
        code = worst_exit(code, EXIT_UNDECIDED);
    }
    matrix_free(&matrix);
    for (size_t k = 0; k < count; k++) {
        report_free(&reports[k]);
    }
    free(reports);
    free(paths);
    return code;
}
