// Deliberate faults: what a broken driver would do, to see that the verdict is never "passed".
#ifndef KQ_TOOL_FAULT_H
#define KQ_TOOL_FAULT_H

#include "primitives.h"
#include "trial.h"

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_EMPTY,  // kernels do nothing: every output is what it was before
    FAULT_FLIP,   // one bit of the outputs is wrong
    FAULT_STRAY,  // a byte beside them is written
    FAULT_LOST,   // the device is lost on the way
    FAULT_CRASH,
    FAULT_HANG,
    FAULT_KINDS,
} fault_kind;

// "empty|flip|...", for a command line.
#define FAULT_NAMES "empty|flip|stray|lost|crash|hang"

// Reads "KIND" or "KIND:GLOB", and says whether it strikes the case of that name. NULL: none.
fault_kind fault_of(const char *text, const char *case_name);

// False: text names no fault.
bool fault_is_known(const char *text);

// Before a case runs: the faults that end the process.
void fault_strike(fault_kind kind);

// After it ran: the others.
void fault_alter(fault_kind kind, const trial *trial, target *target, outcome *outcome);

// The fault of one of many runs of a case: outputs are wrong now and then, and all else always.
fault_kind fault_of_run(fault_kind kind, uint32_t run);

// The same of primitives; returns their result code.
kq_result fault_alter_items(fault_kind kind, item *items, uint32_t count, kq_result result);

#endif
