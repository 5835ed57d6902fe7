// The host's own f32 unit for the exact test, and whether it is sound enough to judge.
//
// Known answers decide that; exact.h has no part in it.
#ifndef KQ_EXACT_HOST_H
#define KQ_EXACT_HOST_H

#include <stddef.h>

#include "prelude.h"

// Any NaN comes back as NAN_BITS.
typedef u32 binary_fn(u32 a, u32 b);
u32 host_mul(u32 a, u32 b);
u32 host_add(u32 a, u32 b);
u32 host_sub(u32 a, u32 b);
u32 host_div(u32 a, u32 b);
u32 host_i32_to_f32(u32 x);
u32 host_f32_to_i8(u32 a);

enum binary { MUL, ADD, SUB, DIV, BINARIES };

struct binary_answer {
    enum binary operation;
    u32 a;
    u32 b;
    u32 result;
};

struct unary_answer {
    u32 a;
    u32 result;
};

// Known answers, worked out in exact rationals. They judge the host first, then exact.h too.
extern const struct binary_answer binary_answers[];
extern const struct unary_answer i32_answers[];
extern const struct unary_answer i8_answers[];
extern const size_t binary_answer_count;
extern const size_t i32_answer_count;
extern const size_t i8_answer_count;

// Why the host cannot judge, or NULL if it can.
const char *host_fault(void);

#endif
