// The reports of several devices side by side: a row for each case, a column for each device.
#ifndef KQ_TOOL_MATRIX_H
#define KQ_TOOL_MATRIX_H

#include "report.h"
#include "text.h"

typedef enum row_kind {
    ROW_DIFFERS,  // one passed and one did not, or two have other outputs of the same inputs
    ROW_FAILS,    // it failed, or was unsupported, where it ran
    ROW_UNKNOWN,  // what it would be on some device is not known: an error, or it has not run
    ROW_PASSES,
    ROW_KINDS,
} row_kind;

// What a pass of this device has to be read with.
typedef struct matrix_mark {
    const char *name;   // of the option: fault, filter, ...
    const char *value;  // as it was on the command line
} matrix_mark;

enum { MATRIX_MARKS = 5 };

typedef struct matrix_column {
    const run_report *report;
    const report_device *device;
    char *file;   // the report's, with as many folders as tell it from the others
    size_t list;  // the first column that has the same list of cases, of the same inputs
    matrix_mark marks[MATRIX_MARKS];
    size_t mark_count;
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
    uint64_t somewhere[CASE_STATUSES];  // rows by a status that some device has; missing: not run
    uint64_t same;                      // rows that passed everywhere with the same bits
    size_t faults;                      // devices that ran with a deliberate fault
    size_t unread;                      // files that should be in it and could not be read
    bool is_one_list;                   // all reports are of the same list of cases and inputs
    bool is_complete;                   // and every device is
    bool is_one_print;                  // all devices have the same fingerprint
} matrix;

// paths: of the reports; unread: how many more there should be. The reports must outlive it.
void matrix_make(const run_report *reports, const char *const *paths, size_t count, size_t unread,
                 matrix *matrix);
void matrix_free(matrix *matrix);

// What they say together, in one sentence.
void matrix_describe(const matrix *matrix, text *sentence);

// A mark in words: "filter: *.zeros", "a deliberate fault: crash".
void matrix_describe_mark(const matrix_mark *mark, text *words);

// Its fingerprint, or "none".
const char *matrix_fingerprint(const report_device *device);

int matrix_exit(const matrix *matrix);

// All of it as JSON, for the page.
void matrix_write(const matrix *matrix, text *text);

#endif
