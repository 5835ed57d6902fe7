// Was a trial passed, and if not, what exactly is wrong?
#ifndef KQ_TOOL_JUDGE_H
#define KQ_TOOL_JUDGE_H

#include "trial.h"

typedef enum case_status {
    CASE_MISSING,  // it has not run
    CASE_PASS,
    CASE_FAIL,
    CASE_UNSUPPORTED,  // the device or the library stops at a limit
    CASE_ERROR,        // the driver, or memory: nobody knows what the result would have been
    CASE_STATUSES,
} case_status;

// "pass", "fail", ...
const char *case_status_name(case_status status);

enum { REPORT_LINES = 20, CASE_LINES = 5 };

// What is said about one device.
typedef struct report {
    target *device;
    target *reference;        // NULL where the device is the reference itself
    uint64_t mismatch_count;  // of all cases
    unsigned lines;           // printed of them, up to REPORT_LINES
    unsigned case_lines;      // and of this case, up to CASE_LINES
} report;

// The status of what could not be run, with a line that says why.
case_status judge_error(report *report, const char *name, kq_result result);

// Prints, on stdout, each mismatch between what the trial of case `name` expects and its outcome.
case_status judge(report *report, const char *name, const trial *trial, const outcome *outcome);

// Counts a mismatch, or whatever else is worth a line of its own beside them. True: print it.
bool report_counts(report *report);

#endif
