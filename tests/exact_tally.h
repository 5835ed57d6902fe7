// What results are, counted: the columns of the exact test's table.
//
// Exact arithmetic in double tells ties and the like from a result that the host has rounded.
#ifndef KQ_EXACT_TALLY_H
#define KQ_EXACT_TALLY_H

#include <stdint.h>

#include "prelude.h"

enum kind {
    ZERO,
    SUBNORMAL,
    EDGE,  // within 4 patterns of the least normal or of FLT_MAX, finite
    INFINITE,
    NOT_A_NUMBER,
    EXACT,      // finite operands, result not zero, nothing rounded
    INEXACT,    // finite operands, overflow and underflow included
    TIE,        // half-way between two neighbours, exactly
    NEAR_TIE,   // within 2^-18 ulp of that, but not there
    CANCELLED,  // add: 2^-12 or less of the larger operand remains, but not 0
    KINDS
};

extern const char *const kind_names[KINDS];

struct tally {
    uint64_t pairs;
    uint64_t count[KINDS];
};

// The exact result of an operation on finite operands: |result| * scale = value + error.
struct exact_result {
    double value;
    double error;
    double scale;
};

typedef struct exact_result exact_fn(u32 a, u32 b);
struct exact_result exact_mul(u32 a, u32 b);
struct exact_result exact_add(u32 a, u32 b);
struct exact_result exact_div(u32 a, u32 b);

// Counts one result, the host's, of the operation that exact stands for.
void tally_result(struct tally *tally, exact_fn *exact, u32 a, u32 b, u32 result);

#endif
