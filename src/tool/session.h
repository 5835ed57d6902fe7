// What the parent of a run makes of the lines of a child, as worker.c has them. Drivers print in
// the child too, so any line may come.
#ifndef KQ_TOOL_SESSION_H
#define KQ_TOOL_SESSION_H

#include "progress.h"
#include "run.h"
#include "text.h"

typedef struct session {
    const run_options *options;
    const selection *selection;
    device_run *run;
    kq_device_info info;  // as the child tells it
    progress progress;
    const run_watch *watch;
    size_t done;
    uint64_t mismatches;  // of all cases
    unsigned lines;       // of them shown
    unsigned errors;      // in a row
    bool is_shown;        // of the latest line that is not indented
    bool has_ended;       // the child said so
    bool is_in_case;      // a case has begun and not ended
    bool is_diagnosed;    // it was found out what its first mismatch comes from
    size_t test;          // which
    double deadline;      // of the case, or of opening the device
    char *reason;         // of the case so far
    text fallback;        // its first mismatch, and what was found out about it
} session;

// line is changed.
void session_read(session *s, char *line);

// The case that the child did not come back from.
void session_lose(session *s, const char *reason);

#endif
