// Going on with a run from the report that it left.
#ifndef KQ_TOOL_RESUME_H
#define KQ_TOOL_RESUME_H

#include "report.h"

// Gives runs[0 .. count) the results of `old` that are no errors, and what it knows of the devices.
// now: the report of these runs, so far. EXIT_DONE, or EXIT_USAGE where old is of another run:
// what differs was complained about.
int resume_from(const char *path, const run_report *old, const run_report *now,
                const selection *selection, device_run *runs, size_t count);

#endif
