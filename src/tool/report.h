// What a run leaves behind: of each device every case's status and digest, and what it takes to
// know where they come from. `docs/report.schema.json` describes the file.
#ifndef KQ_TOOL_REPORT_H
#define KQ_TOOL_REPORT_H

#include "run.h"
#include "text.h"

enum { REPORT_FORMAT = 1, REPORT_MAX_DEVICES = 256, REPORT_MAX_CASES = 100000 };

// Names and what they stand for, in order.
typedef struct report_values {
    struct {
        const char *name, *value;
    } * items;
    size_t count;
} report_values;

typedef struct report_module {
    const char *name, *api;
    const char *form;    // "SPIR-V", "SPIR-V 32", "SPIR-V 64", "source"
    const char *sha256;  // of its bytes
} report_module;

typedef struct report_case {
    const char *name;
    case_status status;  // never CASE_MISSING
    const char *digest;  // "" where there are no outputs
    uint64_t mismatches;
    double seconds;
    const char *reason;  // "" where it passed
} report_case;

typedef enum device_status {
    DEVICE_COMPLETE,    // every case has a result
    DEVICE_INCOMPLETE,  // the run was interrupted, or is going on
    DEVICE_GIVEN_UP,    // the rest of its cases are errors
    DEVICE_NOT_OPENED,
    DEVICE_STATUSES,
} device_status;

// "complete", "given up", ...
const char *device_status_name(device_status status);

typedef struct report_device {
    const char *id, *api, *kind, *name, *driver, *uuid;
    report_values properties;  // what else the driver says of itself
    device_status status;
    const char *reason;       // why it was given up or not opened, or ""
    const char *fingerprint;  // as of run_fingerprint
    uint64_t counts[CASE_STATUSES];
    report_case *cases;
    size_t case_count;
} report_device;

// The texts lie in `kept`, or in what the report was made of.
typedef struct run_report {
    const char *version, *commit;  // of the tool; "unknown" where that was not built from git
    bool is_dirty;
    report_values system, environment, options;
    uint64_t case_count;      // of the selection
    const char *case_digest;  // SHA-256 of their names, each with its end
    report_module *modules;
    size_t module_count;
    report_device *devices;
    size_t device_count;
    struct kept *kept;
} run_report;

// Of the devices that are to run, whether they have or not. device, against: as on the command
// line, or NULL. What it is made of must outlive it.
void report_make(const run_options *options, const selection *selection, const char *device,
                 const char *against, const device_run *runs, size_t count, run_report *report);
void report_free(run_report *report);

// The version, the system and the environment that this process is and has.
void report_add_origin(run_report *report);

// Whether every device is done with.
bool report_is_complete(const run_report *report);

// Adds the file's text.
void report_text_json(text *text, const run_report *report);

// Whole or not at all. False: the reason was complained about.
bool report_write_json(const run_report *report, const char *path);
bool report_write_junit(const run_report *report, const char *path);

// Members "tool", "system" and "environment" of a JSON object, for other files that tell their
// origin.
void report_text_origin(text *text, const run_report *report);

// Any file may be given. False: what is wrong with it was complained about.
bool report_read(const char *path, run_report *report);

// The same of a file's bytes. path: for messages.
bool report_read_bytes(const char *path, const void *bytes, size_t count, run_report *report);

// A copy of a text, or of its first bytes, that lives as long as the report; a pair of texts more.
const char *report_keep(run_report *report, const char *text);
const char *report_keep_bytes(run_report *report, const char *text, size_t count);
void report_add_value(report_values *values, const char *name, const char *value);

#endif
