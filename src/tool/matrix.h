// The reports of several devices side by side: a row for each case, a column for each device.
#ifndef KQ_TOOL_MATRIX_H
#define KQ_TOOL_MATRIX_H

#include "report.h"
#include "text.h"

typedef enum row_kind {
    ROW_DIFFERS,  // two devices have other outputs, or one passed and one did not
    ROW_FAILS,    // it did not pass where it ran
    ROW_UNKNOWN,  // what it would be on some device is not known: an error, or it has not run
    ROW_PASSES,
    ROW_KINDS,
} row_kind;

typedef struct matrix_column {
    const run_report *report;
    const report_device *device;
} matrix_column;

typedef struct matrix_row {
    const char *name;
    row_kind kind;
    const report_case **cells;  // by column; NULL: the device has no result
} matrix_row;

typedef struct matrix {
    matrix_column *columns;
    size_t column_count;
    matrix_row *rows;  // in the order of the lists of cases
    size_t row_count;
    uint64_t counts[ROW_KINDS];
    bool is_one_list;   // all reports are of the same list of cases
    bool is_complete;   // and every device is
    bool is_one_print;  // all devices have the same fingerprint
} matrix;

// The reports must outlive it.
void matrix_make(const run_report *reports, size_t count, matrix *matrix);
void matrix_free(matrix *matrix);

// What they say together, in one sentence.
void matrix_describe(const matrix *matrix, char *sentence, size_t bytes);

int matrix_exit(const matrix *matrix);

// All of it as JSON, for the page.
void matrix_write(const matrix *matrix, text *text);

#endif
