// The cases on one device, and what came of each. They run in a child, which is this command again,
// so that a driver that crashes or hangs takes one case with it and not the verdict.
#ifndef KQ_TOOL_RUN_H
#define KQ_TOOL_RUN_H

#include "cases.h"
#include "fault.h"
#include "judge.h"
#include "sha256.h"

// What all devices of a run have in common. The child is told the same.
typedef struct run_options {
    const char *filter;   // as on the command line; NULL: all cases
    const char *vectors;  // a folder in place of the built-in vectors, or NULL
    bool is_full;
    uint64_t seed;
    uint64_t time_limit;  // seconds for one case
    const char *fault;    // as on the command line, or NULL
} run_options;

typedef struct case_result {
    case_status status;
    uint64_t mismatches;
    double seconds;
    char digest[SHA256_HEX_BYTES];  // of the outputs; "" where there are none
    char *reason;                   // one line, of what is no pass; else NULL
} case_result;

// What a driver says of itself, or what it has brought.
typedef struct device_property {
    char *name, *value;
} device_property;

typedef struct device_run {
    kq_device_info info;
    bool is_known;  // info is that of the device meant, though it isn't open: no other will do
    bool is_open;  // false: the device could not be opened; reason says why, and opened is the code
    bool is_other;  // it was, and was another device than is known
    bool is_judge;  // it is there to compare with, so no deliberate fault strikes it
    device_property *properties;
    size_t property_count;
    kq_result opened;
    char reason[1024];     // why the device could not be opened, or was given up; else ""
    case_result *results;  // by case of the selection
    uint64_t counts[CASE_STATUSES];
    bool has_run[KQ_OP_SELF_TEST + 1];  // a case of that operation ran
} device_run;

// The list of cases and those that were selected, in the order of the list.
typedef struct selection {
    case_list list;
    const test_case **cases;
    size_t count;
} selection;

// EXIT_DONE, or why the list can't be made, which was complained about.
int selection_make(const run_options *options, selection *selection);
void selection_free(selection *selection);

// SHA-256 of the names of the cases, each with its end, and of the files of --vectors.
void selection_digest(const selection *selection, char hex[SHA256_HEX_BYTES]);

// What is told of a run on the way: that the device is open; how many results there are so far,
// after each, and each second without one.
typedef struct run_watch {
    void (*opened)(void *user, const device_run *run);
    void (*stepped)(void *user, const device_run *run, size_t done);
    void *user;
} run_watch;

// Runs what has no result yet, until an interrupt comes; prints mismatches on stdout and progress
// on stderr. device: as in kq_device_params; run->results has as many as the selection, all zero or
// from an earlier run.
void run_device(const run_options *options, const selection *selection, const char *device,
                device_run *run, const run_watch *watch);
void device_run_add_property(device_run *run, const char *name, const char *value);
void device_run_free(device_run *run, size_t count);

// The child's part: cases first .. end - 1. Returns an exit code.
int run_worker(const run_options *options, const selection *selection, const char *device,
               size_t first, size_t end);

// One case of the fingerprint. "<op>.<variant>.<class>": two variants of one kernel must agree.
void fingerprint_add(sha256 *hash, const char *name, const char *digest);

// SHA-256 over the name, without its variant, and the output digest of each case, in hex; or
// "incomplete" where a case has not passed.
void run_fingerprint(const selection *selection, const device_run *run,
                     char text[SHA256_HEX_BYTES]);

#endif
