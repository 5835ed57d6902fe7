// The lines of gen and verify: an operation's inputs, and behind them its output, as hex.
//
//   f32_multiply ...    words of 8 digits: a, b unless the primitive takes only a, and the result
//   quantize            bytes: a block of 256 f32, and its Q8_K record
//   quantized_dot       bytes: G Q4_K records and G Q8_K records; then the f32 result, 8 digits
//   quantized_dot_pairwise
#ifndef KQ_TOOL_LINES_H
#define KQ_TOOL_LINES_H

#include "target.h"

typedef struct line_op line_op;

// NULL: there is no operation of that name.
const line_op *line_op_find(const char *name);

// Prints the inputs of the built-in vectors, where the operation has any, and `draws` drawn ones.
// False: the vectors could not be read.
bool lines_print(const line_op *op, uint64_t seed, uint64_t draws);

typedef enum line_verdict { LINE_RIGHT, LINE_WRONG, LINE_MALFORMED, LINE_UNDECIDED } line_verdict;

// Judges a line, which is changed. text: what is wrong, or why that can't be told, in one line.
line_verdict line_judge(const line_op *op, target *reference, char *line, char *text, size_t bytes);

#endif
