// What a wrong result comes from: the steps that lead to it, each asked for alone on the device.
#ifndef KQ_TOOL_DIAGNOSE_H
#define KQ_TOOL_DIAGNOSE_H

#include "target.h"

// Each prints one line, after `indent`, with the first step that is wrong alone, or that none is;
// and the same for the parent of a worker, after "@diagnosis".

// Of the term of a pair of records.
void diagnose_term(target *target, const char *indent, const uint8_t *lhs, const uint8_t *rhs);

// Of the sum of G terms.
void diagnose_sum(target *target, const char *indent, kq_order order, const uint32_t *terms,
                  uint32_t G);

// Of the quantization of a block, whose values are packed.
void diagnose_block(target *target, const char *indent, const uint8_t *block);

#endif
