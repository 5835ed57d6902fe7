// src/tool/report_json.c, and what goes on from a report: matrix.c and resume.c. What is accepted
// is written and read again as the same text. Behind a NUL there may be a second report.
#include "fuzz.h"

#include "matrix.h"
#include "resume.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

static void check_written(const run_report *report, text *out)
{
    run_report again;
    text same = {0};
    report_text_json(out, report);
    REQUIRE(report_read_bytes("written", out->bytes, out->count, &again));
    report_text_json(&same, &again);
    REQUIRE(out->count == same.count && memcmp(out->bytes, same.bytes, out->count) == 0);
    free(same.bytes);
    report_free(&again);
}

static void check_matrix(const run_report *reports, size_t count)
{
    static const char *const paths[] = {"a/report.json", "b/report.json"};
    matrix matrix;
    text words = {0};
    matrix_make(reports, paths, count, 0, &matrix);
    uint64_t rows = 0;
    size_t columns = 0;
    for (int kind = 0; kind < ROW_KINDS; kind++) {
        rows += matrix.counts[kind];
    }
    for (size_t k = 0; k < count; k++) {
        columns += reports[k].device_count;
    }
    REQUIRE(rows == matrix.row_count && columns == matrix.column_count);
    for (size_t c = 0; c < matrix.column_count; c++) {
        REQUIRE(matrix.columns[c].mark_count <= MATRIX_MARKS);
        for (size_t k = 0; k < matrix.columns[c].mark_count; k++) {
            matrix_describe_mark(&matrix.columns[c].marks[k], &words);
        }
    }
    matrix_describe(&matrix, &words);
    matrix_write(&matrix, &words);
    int code = matrix_exit(&matrix);
    REQUIRE(code == EXIT_DONE || code == EXIT_FAILED || code == EXIT_UNDECIDED ||
            code == EXIT_NOTHING);
    free(words.bytes);
    matrix_free(&matrix);
}

// Of the cases that `now` has on its first device.
static void check_resume(const run_report *old, const run_report *now)
{
    const report_device *device = &now->devices[0];
    size_t count = device->case_count;
    selection selection = {.count = count};
    test_case *cases = allocate(count, sizeof cases[0]);
    selection.cases = allocate(count, sizeof selection.cases[0]);
    for (size_t k = 0; k < count; k++) {
        cases[k].name = (char *)device->cases[k].name;
        selection.cases[k] = &cases[k];
    }
    device_run runs[2] = {0};
    for (size_t d = 0; d < 2; d++) {
        runs[d].results = allocate(count, sizeof runs[d].results[0]);
    }
    int code = resume_from("old", old, now, &selection, runs, 2);
    REQUIRE(code == EXIT_DONE || code == EXIT_USAGE);
    for (size_t d = 0; d < 2; d++) {
        REQUIRE(memchr(runs[d].info.name, '\0', sizeof runs[d].info.name) != NULL);
        for (size_t k = 0; k < count; k++) {
            REQUIRE(runs[d].results[k].status < CASE_STATUSES);
        }
        device_run_free(&runs[d], count);
    }
    free(selection.cases);
    free(cases);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run_report reports[2];
    size_t count = 0;
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t first = end != NULL ? (size_t)(end - data) : size;
    const uint8_t *const texts[] = {data, end != NULL ? end + 1 : data};
    const size_t sizes[] = {first, end != NULL ? size - first - 1 : size};
    for (int k = 0; k < 2; k++) {
        fuzz_complaints = 0;
        bool is_good = report_read_bytes("report", texts[k], sizes[k], &reports[count]);
        REQUIRE(fuzz_complaints == (is_good ? 0 : 1));
        count += is_good;
    }
    for (size_t k = 0; k < count; k++) {
        text out = {0};
        check_written(&reports[k], &out);
        free(out.bytes);
    }
    if (count > 0) {
        check_matrix(reports, count);
        check_resume(&reports[0], &reports[count - 1]);
    }
    for (size_t k = 0; k < count; k++) {
        report_free(&reports[k]);
    }
    return 0;
}
