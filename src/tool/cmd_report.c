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
    for (int k = 0; text[k] != '\0' && k < bytes; k++) {
        putchar((unsigned char)text[k] < ' ' || text[k] == 0x7F ? '?' : text[k]);
    }
}

// The first cases that are not the same everywhere, or pass nowhere.
static void print_rows(const matrix *matrix)
{
    static const char *const words[ROW_KINDS] = {[ROW_DIFFERS] = "DIFFER", [ROW_FAILS] = "FAIL  "};
    unsigned lines = 0;
    for (size_t k = 0; k < matrix->row_count && lines < DIFFERENCES; k++) {
        const matrix_row *row = &matrix->rows[k];
        if (words[row->kind] == NULL) {
            continue;
        }
        lines++;
        printf("%s ", words[row->kind]);
        print_text(row->name, INT_MAX);
        printf(":");
        for (size_t c = 0; c < matrix->column_count; c++) {
            const report_case *cell = row->cells[c];
            printf("%s %s %.16s", c == 0 ? "" : ",",
                   cell != NULL ? case_status_name(cell->status) : "not run",
                   cell != NULL ? cell->digest : "");
        }
        printf("\n");
    }
    uint64_t all = matrix->counts[ROW_DIFFERS] + matrix->counts[ROW_FAILS];
    if (all > lines) {
        printf("       and %" PRIu64 " cases more\n", all - lines);
    }
}

static void print_summary(const matrix *matrix)
{
    printf("%-10s  %-10s", "device", "status");
    for (int status = CASE_PASS; status < CASE_STATUSES; status++) {
        printf("  %11s", case_status_name((case_status)status));
    }
    printf("  %-16s  name\n", "fingerprint");
    for (size_t c = 0; c < matrix->column_count; c++) {
        const report_device *device = matrix->columns[c].device;
        print_text(device->id, 32);
        printf("%*s  %-10s", strlen(device->id) < 10 ? (int)(10 - strlen(device->id)) : 0, "",
               device_status_name(device->status));
        for (int status = CASE_PASS; status < CASE_STATUSES; status++) {
            printf("  %11" PRIu64, device->counts[status]);
        }
        printf("  %-16.16s  ", device->fingerprint);
        print_text(device->name, INT_MAX);
        printf("\n");
    }
    print_rows(matrix);
    char sentence[256];
    matrix_describe(matrix, sentence, sizeof sentence);
    printf("%s\n", sentence);
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
    "on.\n\n"
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
    int code = EXIT_DONE;
    switch (options_parse(&usage, argc, argv, paths)) {
    case OPTIONS_HELP: free(paths); return EXIT_DONE;
    case OPTIONS_WRONG: free(paths); return EXIT_USAGE;
    case OPTIONS_RUN: break;
    }

    run_report *reports = allocate(given, sizeof reports[0]);
    size_t count = 0, devices = 0;
    for (size_t k = 0; k < given; k++) {
        if (!report_read(paths[k], &reports[count])) {
            code = EXIT_UNDECIDED;
        } else if (devices + reports[count].device_count > REPORT_MAX_DEVICES) {
            complain("%s: is left out, for there are more than %d devices with it", paths[k],
                     REPORT_MAX_DEVICES);
            report_free(&reports[count]);
            code = EXIT_UNDECIDED;
        } else {
            devices += reports[count++].device_count;
        }
    }
    if (count > 0) {
        matrix matrix;
        matrix_make(reports, count, &matrix);
        print_summary(&matrix);
        code = worst_exit(code, matrix_exit(&matrix));
        if (output != NULL && !write_page(&matrix, output)) {
            code = worst_exit(code, EXIT_UNDECIDED);
        }
        matrix_free(&matrix);
    }
    for (size_t k = 0; k < count; k++) {
        report_free(&reports[k]);
    }
    free(reports);
    free(paths);
    return code;
}
