// What all files of the exact test share: f32 bit patterns, their values, and what they are.
#ifndef KQ_EXACT_BITS_H
#define KQ_EXACT_BITS_H

#include <stdbool.h>
#include <string.h>

#include "prelude.h"

#define SIGN         0x80000000u
#define INF          0x7F800000u
#define NAN_BITS     0x7FC00000u
#define FLT_MAX_BITS 0x7F7FFFFFu
#define MIN_NORMAL   0x00800000u
#define HIDDEN       0x00800000u
#define FRACTION     0x007FFFFFu
#define ONE          0x3F800000u

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline float float_of(u32 bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline u32 bits_of(float value)
{
    u32 bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline u32 magnitude_of(u32 bits)
{
    return bits & ~SIGN;
}

static inline bool is_nan(u32 bits)
{
    return magnitude_of(bits) > INF;
}

static inline bool is_finite(u32 bits)
{
    return magnitude_of(bits) < INF;
}

static inline bool is_subnormal(u32 bits)
{
    return magnitude_of(bits) - 1u < MIN_NORMAL - 1u;
}

#endif
