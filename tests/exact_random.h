// Random numbers for the exact test, by splitmix64, and random parts of f32 made of them.
//
// All is inline, for the draws call it billions of times.
#ifndef KQ_EXACT_RANDOM_H
#define KQ_EXACT_RANDOM_H

#include <stdint.h>

#include "exact_bits.h"

struct random {
    uint64_t state;
};

static inline uint64_t random_u64(struct random *random)
{
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline u32 random_u32(struct random *random)
{
    return (u32)(random_u64(random) >> 32);
}

static inline u32 below(struct random *random, u32 n)
{
    return (u32)(((random_u64(random) >> 32) * n) >> 32);
}

// Both ends included.
static inline int between(struct random *random, int low, int high)
{
    return low + (int)below(random, (u32)(high - low + 1));
}

static inline u32 random_sign(struct random *random)
{
    return random_u32(random) & SIGN;
}

static inline u32 random_finite(struct random *random)
{
    return below(random, INF) | random_sign(random);
}

// 24 bits with the top one set, often of a shape that carries far: long runs of ones or zeros.
static inline u32 draw_significand(struct random *random)
{
    uint64_t r = random_u64(random);
    u32 bits = (u32)(r >> 40) & FRACTION;
    u32 low = (1u << ((r >> 8) % 24u)) - 1u;
    switch (r & 15u) {
    case 0: bits = (u32)(r >> 40) & 3u; break;
    case 1: bits = FRACTION - ((u32)(r >> 40) & 3u); break;
    case 2:
    case 3: bits &= ~low; break;
    case 4:
    case 5: bits |= low; break;
    case 6: bits = low; break;
    default: break;
    }
    return HIDDEN | (bits & FRACTION);
}

static inline u32 odd_significand(struct random *random)
{
    return HIDDEN | (random_u32(random) & FRACTION) | 1u;
}

// An odd number of exactly n bits, 1 <= n <= 24.
static inline u32 odd_of_length(struct random *random, int n)
{
    u32 top = 1u << (n - 1);
    return top | (random_u32(random) & (top - 1u)) | 1u;
}

#endif
