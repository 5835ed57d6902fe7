// A trial many times over, on one device or on two at the same time: every run must give the same.
#ifndef KQ_TOOL_REPLAY_H
#define KQ_TOOL_REPLAY_H

#include "fault.h"
#include "judge.h"

// Judges `runs` runs of a trial on the report's device, and, if has_twin, as many on its twin
// meanwhile, in another thread. The digest is that of the first.
case_status replay(report *report, const char *name, const trial *trial, uint32_t runs,
                   bool has_twin, fault_kind fault, char digest[SHA256_HEX_BYTES]);

#endif
