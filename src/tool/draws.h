// Drawn operands, of the kinds that real data and drivers' faults are made of.
#ifndef KQ_TOOL_DRAWS_H
#define KQ_TOOL_DRAWS_H

#include <stdint.h>

// 256 values, most of them legal; each block is of one of several kinds.
void draw_block(uint64_t *state, uint8_t *block);

// A record of either side of a dot. Kinds 0 to 2 are special, any other is as in real data.
void draw_lhs(uint64_t *state, uint32_t kind, uint8_t *record);
void draw_rhs(uint64_t *state, uint32_t kind, uint8_t *record);

#endif
