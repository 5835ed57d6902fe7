// The classes of random pairs and the crossed list, each made to reach hard cases.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "exact_bits.h"
#include "exact_draws.h"

// m * 2^e as f32 bits; the callers choose m and e so that this is exact.
static u32 scaled(u32 sign, u32 m, int e)
{
    u32 bits = bits_of((float)m);
    int exponent = (int)(bits >> 23) + e;
    if (m != 0 && exponent >= 1 && exponent <= 254)
        return sign | (bits + ((u32)e << 23));
    return sign | bits_of(ldexpf((float)m, e));
}

// The x with m * x = 1 modulo 2^32; m is odd.
static u32 inverse_of_odd(u32 m)
{
    u32 x = m;
    for (int i = 0; i < 4; i++)
        x *= 2u - m * x;
    return x;
}

// Classes for every operation

static struct pair draw_any(struct random *random)
{
    uint64_t r = random_u64(random);
    return (struct pair){(u32)r, (u32)(r >> 32)};
}

static u32 special_operand(struct random *random)
{
    u32 r = random_u32(random);
    u32 sign = r & SIGN;
    switch (r & 7u) {
    case 0: return sign;
    case 1: return sign | INF;
    case 2: return sign | INF | (1u + below(random, FRACTION));
    case 3: return sign | INF | (1u << below(random, 23));
    case 4: return sign | (1u + below(random, FRACTION));
    case 5: return sign | (FLT_MAX_BITS - below(random, 4));
    case 6: return sign | ONE;
    default: return random_finite(random);
    }
}

static struct pair draw_special(struct random *random)
{
    u32 a = special_operand(random);
    u32 b = special_operand(random);
    return (struct pair){a, b};
}

// a and b in either order, for operations that allow it.
static struct pair either_order(struct random *random, u32 a, u32 b)
{
    return random_u32(random) & 1u ? (struct pair){a, b} : (struct pair){b, a};
}

// Classes for mul. A significand of 24 bits times 2^e is normal for -149 <= e <= 104.

static struct pair mul_of(struct random *random, u32 m, u32 n, int e, int sum_of_exponents)
{
    u32 a = scaled(random_sign(random), m, e);
    u32 b = scaled(random_sign(random), n, sum_of_exponents - e);
    return either_order(random, a, b);
}

static struct pair draw_mul_normal(struct random *random)
{
    int sum = between(random, -172, 80);
    int low = sum - 104 > -149 ? sum - 104 : -149;
    int high = sum + 149 < 104 ? sum + 149 : 104;
    u32 m = draw_significand(random);
    u32 n = draw_significand(random);
    return mul_of(random, m, n, between(random, low, high), sum);
}

static struct pair draw_mul_subnormal(struct random *random)
{
    // The product of two significands is 2^46 to 2^48, the results 2^-151 to 2^-126.
    int sum = between(random, -198, -173);
    u32 m = draw_significand(random);
    u32 n = draw_significand(random);
    return mul_of(random, m, n, between(random, -149, sum + 149), sum);
}

static struct pair draw_mul_subnormal_operand(struct random *random)
{
    u32 a = random_sign(random) | (draw_significand(random) >> between(random, 1, 23));
    u32 b = random_sign(random) | ((u32)between(random, 1, 254) << 23);
    return either_order(random, a, b | (draw_significand(random) & FRACTION));
}

// A product around 2^exponent: the ideal partner of a significand, or a few ulp beside it.
static struct pair draw_mul_around(struct random *random, int exponent)
{
    u32 m = draw_significand(random);
    u32 n = (u32)((UINT64_C(1) << 47) / m) + (u32)between(random, -2, 2);
    n = n > 0xFFFFFFu ? 0xFFFFFFu : n;
    int sum = exponent - 47;
    int low = sum - 104 > -149 ? sum - 104 : -149;
    int high = sum + 149 < 104 ? sum + 149 : 104;
    return mul_of(random, m, n, between(random, low, high), sum);
}

static u32 product_of_some(struct random *random, const u32 *factors, size_t count)
{
    u32 chosen = random_u32(random);
    u32 product = 1;
    for (size_t i = 0; i < count; i++)
        product *= (chosen >> i) & 1u ? factors[i] : 1u;
    return product;
}

static struct pair draw_mul_min_edge(struct random *random)
{
    // (2^24 - 1) * 2^-150 is the tie between the last subnormal and the first normal.
    static const u32 factors[] = {3, 3, 5, 7, 13, 17, 241};
    if (below(random, 8) != 0)
        return draw_mul_around(random, -126);
    u32 m = product_of_some(random, factors, COUNT(factors));
    return mul_of(random, m, 0xFFFFFFu / m, between(random, -126, -24), -150);
}

static struct pair draw_mul_max_edge(struct random *random)
{
    // (2^25 - 1) * 2^103 is the tie between FLT_MAX and infinity; 1 is no factor, 2^24 too little.
    static const u32 factors[] = {31, 601, 1801};
    if (below(random, 8) != 0)
        return draw_mul_around(random, 128);
    u32 m = factors[below(random, COUNT(factors))];
    return mul_of(random, m, 0x1FFFFFFu / m, between(random, 0, 103), 103);
}

static struct pair draw_mul_tie(struct random *random)
{
    // An odd product of 25 bits is a tie.
    for (;;) {
        int length = between(random, 2, 23);
        u32 m = odd_of_length(random, length);
        u32 n = odd_of_length(random, 25 - length + (int)below(random, 2));
        if (((uint64_t)m * n) >> 24 != 1)
            continue;
        int sum = between(random, -140, 100);
        return mul_of(random, m, n, sum / 2 + between(random, -20, 20), sum);
    }
}

static struct pair draw_mul_tie_subnormal(struct random *random)
{
    // So is any shorter odd product whose last bit is worth 2^-150.
    int length = between(random, 1, 23);
    u32 m = odd_of_length(random, length);
    u32 n = odd_of_length(random, between(random, 1, 24 - length));
    return mul_of(random, m, n, between(random, -140, -10), -150);
}

static struct pair draw_mul_near_tie(struct random *random)
{
    // m * n = 2^(k - 1) + t modulo 2^k, where k bits of the product are rounded away.
    for (;;) {
        u32 m = odd_significand(random);
        int k = between(random, 23, 24);
        u32 t = (u32)between(random, -3, 3);
        u32 n = ((1u << (k - 1)) + t) * inverse_of_odd(m);
        n = k == 24 ? n & 0xFFFFFFu : (n & FRACTION) | HIDDEN;
        uint64_t product = (uint64_t)m * n;
        if (n < HIDDEN || product >> 47 != (uint64_t)(k - 23))
            continue;
        int sum = between(random, -172, 79);
        int e = sum / 2 + between(random, -17, 17);
        return mul_of(random, m, n, e, sum);
    }
}

static struct pair draw_mul_near_tie_subnormal(struct random *random)
{
    // 47 - k bits remain, too few for the partner of m to be far from the tie.
    for (;;) {
        int k = between(random, 41, 46);
        u32 odd = odd_of_length(random, 48 - k);
        u32 m = draw_significand(random);
        uint64_t n = ((uint64_t)odd << (k - 1)) / m + below(random, 2);
        if (n < HIDDEN || n > 0xFFFFFFu)
            continue;
        int sum = -149 - k;
        return mul_of(random, m, (u32)n, between(random, -149, sum + 149), sum);
    }
}

static const struct pair_class mul_list[] = {
    {"any bits", draw_any, 12000000, {[ZERO] = 100000, [INFINITE] = 100000, [INEXACT] = 5000000}},
    {"normal", draw_mul_normal, 18000000, {[EXACT] = 500000, [INEXACT] = 9000000, [TIE] = 50000}},
    {"subnormal",
     draw_mul_subnormal,
     20000000,
     {[SUBNORMAL] = 15000000, [ZERO] = 500000, [EXACT] = 50000, [TIE] = 20000}},
    {"subn. operand",
     draw_mul_subnormal_operand,
     7000000,
     {[SUBNORMAL] = 300000, [ZERO] = 1000000, [EXACT] = 300000, [INEXACT] = 3000000}},
    {"least normal",
     draw_mul_min_edge,
     8000000,
     {[EDGE] = 6000000, [SUBNORMAL] = 1000000, [TIE] = 500000}},
    {"FLT_MAX",
     draw_mul_max_edge,
     8000000,
     {[EDGE] = 2000000, [INFINITE] = 2000000, [TIE] = 500000}},
    {"tie", draw_mul_tie, 8000000, {[TIE] = 7500000}},
    {"tie, subnormal", draw_mul_tie_subnormal, 5000000, {[TIE] = 4500000, [SUBNORMAL] = 3000000}},
    {"near tie", draw_mul_near_tie, 7000000, {[NEAR_TIE] = 5000000, [TIE] = 200000}},
    {"near tie, subn.",
     draw_mul_near_tie_subnormal,
     2000000,
     {[NEAR_TIE] = 1500000, [SUBNORMAL] = 1500000}},
    {"special",
     draw_special,
     5000000,
     {[ZERO] = 300000, [INFINITE] = 300000, [NOT_A_NUMBER] = 1000000}},
};

const struct pair_classes mul_classes = {mul_list, COUNT(mul_list)};

// Classes for add. sub gets the same pairs with the sign of b turned, so that all holds for both.

static struct pair draw_add_near(struct random *random)
{
    int e = between(random, -149, 104);
    int other = e - between(random, 0, 30);
    u32 a = scaled(random_sign(random), draw_significand(random), e);
    u32 b = scaled(random_sign(random), draw_significand(random), other < -149 ? -149 : other);
    return either_order(random, a, b);
}

static struct pair draw_add_far(struct random *random)
{
    int e = between(random, -149, 104);
    int other = e - between(random, 22, 80);
    bool power = random_u32(random) & 1u;
    u32 a = scaled(random_sign(random), power ? HIDDEN : draw_significand(random), e);
    u32 b = scaled(random_sign(random), draw_significand(random), other < -149 ? -149 : other);
    return either_order(random, a, b);
}

// a is apart binades above b, whose lowest set bits are given.
static struct pair add_apart(struct random *random, int apart, u32 m, u32 n)
{
    int e = between(random, -149, 104 - apart);
    u32 a = scaled(random_sign(random), m, e + apart);
    u32 b = scaled(random_sign(random), n, e);
    return either_order(random, a, b);
}

static struct pair draw_add_tie(struct random *random)
{
    // Half an ulp of a is bit apart - 1 of b, one bit beside that where the sum leaves a's binade.
    int apart = between(random, 0, 25);
    u32 m = apart == 25 ? HIDDEN : draw_significand(random);
    int bit = apart - 1 + (below(random, 3) == 0 ? between(random, -1, 1) : 0);
    bit = bit < 0 ? 0 : bit;
    bit = bit > 23 ? 23 : bit;
    u32 n = (((random_u32(random) | 1u) << bit) & FRACTION) | HIDDEN;
    return add_apart(random, apart, m, n);
}

static struct pair draw_add_near_tie(struct random *random)
{
    int apart = between(random, 19, 25);
    u32 m = apart == 25 ? HIDDEN : draw_significand(random);
    int bit = apart - 1 > 23 ? 23 : apart - 1;
    u32 n = (((random_u32(random) | 1u) << bit) & FRACTION) | HIDDEN;
    n = random_u32(random) & 1u ? n + 1u : n - 1u;
    return add_apart(random, apart, m, n);
}

static struct pair draw_add_cancel(struct random *random)
{
    u32 sign = random_sign(random);
    u32 a = (u32)between(random, 1, 254) << 23;
    a |= below(random, 8) == 0 ? below(random, 4) : draw_significand(random) & FRACTION;
    u32 few = random_u32(random) & ((1u << between(random, 0, 12)) - 1u);
    u32 b = random_u32(random) & 1u ? a + few : a - few;
    b = b > FLT_MAX_BITS ? FLT_MAX_BITS : b;
    return (struct pair){sign | a, (sign ^ SIGN) | b};
}

static struct pair draw_add_subnormal(struct random *random)
{
    if (random_u32(random) & 1u) {
        u32 a = random_sign(random) | below(random, 0x01000000u);
        u32 b = random_sign(random) | below(random, 0x01000000u);
        return (struct pair){a, b};
    }
    // What is left after cancellation is below 2^(bits + field - 1) steps of 2^-149.
    int field = between(random, 1, 23);
    u32 bits = (1u << between(random, 1, 24 - field)) - 1u;
    u32 a = ((u32)field << 23) | (draw_significand(random) & FRACTION);
    u32 b = a ^ (random_u32(random) & bits);
    u32 sign = random_sign(random);
    return (struct pair){sign | a, (sign ^ SIGN) | b};
}

static struct pair draw_add_min_edge(struct random *random)
{
    int sum = ((int)MIN_NORMAL + between(random, -4, 4)) * (below(random, 2) ? 1 : -1);
    int part = between(random, -0x800000, 0x800000);
    int rest = sum - part;
    u32 a = scaled(part < 0 ? SIGN : 0u, (u32)abs(part), -149);
    u32 b = scaled(rest < 0 ? SIGN : 0u, (u32)abs(rest), -149);
    return (struct pair){a, b};
}

static struct pair draw_add_max_edge(struct random *random)
{
    u32 sign = random_sign(random);
    if (random_u32(random) & 1u) {
        // Half an ulp of FLT_MAX is 2^103, pattern 0x73000000.
        u32 a = FLT_MAX_BITS - below(random, 3);
        u32 b = 0x73000000u + (u32)between(random, -2, 2);
        b = below(random, 4) == 0 ? b + 0x00800000u : b;
        return either_order(random, sign | a, sign | b);
    }
    // Two parts of 2^128 and a few ulp of FLT_MAX, in steps of 2^103.
    u32 m = 2u * (HIDDEN + below(random, HIDDEN));
    u32 n = (1u << 25) + (u32)between(random, -4, 4) - m;
    return either_order(random, scaled(sign, m, 103), scaled(sign, n, 103));
}

static const struct pair_class add_list[] = {
    {"any bits", draw_any, 10000000, {[NOT_A_NUMBER] = 10000, [INEXACT] = 5000000}},
    {"near", draw_add_near, 20000000, {[EXACT] = 1000000, [INEXACT] = 9000000, [TIE] = 300000}},
    {"far", draw_add_far, 8000000, {[INEXACT] = 5000000, [TIE] = 10000}},
    {"tie", draw_add_tie, 15000000, {[TIE] = 8000000}},
    {"near tie", draw_add_near_tie, 8000000, {[NEAR_TIE] = 5000000}},
    {"cancellation",
     draw_add_cancel,
     12000000,
     {[CANCELLED] = 7000000, [ZERO] = 500000, [EXACT] = 8000000, [SUBNORMAL] = 300000}},
    {"subnormal",
     draw_add_subnormal,
     10000000,
     {[SUBNORMAL] = 5000000, [CANCELLED] = 1000000, [TIE] = 200000}},
    {"least normal", draw_add_min_edge, 5000000, {[EDGE] = 4500000, [SUBNORMAL] = 1000000}},
    {"FLT_MAX",
     draw_add_max_edge,
     7000000,
     {[EDGE] = 2000000, [INFINITE] = 1500000, [TIE] = 500000, [NEAR_TIE] = 1000000}},
    {"special",
     draw_special,
     5000000,
     {[ZERO] = 50000, [INFINITE] = 300000, [NOT_A_NUMBER] = 1000000}},
};

const struct pair_classes add_classes = {add_list, COUNT(add_list)};

// Classes for div

static struct pair div_of(struct random *random, u32 m, u32 n, int e, int difference_of_exponents)
{
    u32 a = scaled(random_sign(random), m, e);
    u32 b = scaled(random_sign(random), n, e - difference_of_exponents);
    return (struct pair){a, b};
}

// An exponent that keeps both significands normal.
static int dividend_exponent(struct random *random, int difference)
{
    int low = difference - 149 > -149 ? difference - 149 : -149;
    int high = difference + 104 < 104 ? difference + 104 : 104;
    return between(random, low, high);
}

static struct pair draw_div_normal(struct random *random)
{
    int difference = between(random, -125, 127);
    u32 m = draw_significand(random);
    u32 n = draw_significand(random);
    return div_of(random, m, n, dividend_exponent(random, difference), difference);
}

static struct pair draw_div_subnormal(struct random *random)
{
    int difference = between(random, -150, -126);
    u32 m = draw_significand(random);
    u32 n = draw_significand(random);
    return div_of(random, m, n, dividend_exponent(random, difference), difference);
}

static struct pair draw_div_subnormal_operand(struct random *random)
{
    u32 a = random_sign(random) | (draw_significand(random) >> between(random, 1, 23));
    u32 b = random_sign(random) | (draw_significand(random) >> between(random, 1, 23));
    u32 normal = random_finite(random);
    switch (below(random, 3)) {
    case 0: return (struct pair){a, b};
    case 1: return (struct pair){a, normal};
    default: return (struct pair){normal, b};
    }
}

// A quotient of 2^difference and a few ulp.
static struct pair draw_div_around(struct random *random, int difference)
{
    u32 n = below(random, 8) == 0 ? HIDDEN : draw_significand(random);
    u32 m = n + (u32)between(random, -3, 3);
    m = m > 0xFFFFFFu ? 0xFFFFFFu : m;
    return div_of(random, m, n, dividend_exponent(random, difference), difference);
}

static struct pair draw_div_min_edge(struct random *random)
{
    if (below(random, 8) != 0)
        return draw_div_around(random, -126);
    return div_of(random, 0xFFFFFFu, HIDDEN, dividend_exponent(random, -127), -127);
}

static struct pair draw_div_max_edge(struct random *random)
{
    return draw_div_around(random, 128);
}

static struct pair draw_div_exact(struct random *random)
{
    int length = between(random, 1, 23);
    u32 q = odd_of_length(random, length);
    u32 n = odd_of_length(random, between(random, 1, 24 - length));
    u32 m = q * n;
    m = random_u32(random) & 1u ? m : m + (u32)between(random, -1, 1);
    int difference = between(random, -100, 100);
    return div_of(random, m, n, difference / 2 + between(random, -30, 30), difference);
}

// m * 2^(k + 1) / n is at most 15 / n beside an odd q of k + 1 bits: a tie where k bits stay.
static struct pair near_tie_significands(struct random *random, int k)
{
    u32 n = odd_significand(random);
    u32 t = 2u * below(random, 8) + 1u;
    u32 modulus = 1u << (k + 1);
    u32 q = (t * inverse_of_odd(n)) & (modulus - 1u);
    bool above = q >> k == 0;
    q = above ? modulus - q : q;
    uint64_t product = (uint64_t)n * q;
    product = above ? product + t : product - t;
    return (struct pair){(u32)(product >> (k + 1)), n};
}

static struct pair draw_div_near_tie(struct random *random)
{
    struct pair m = near_tie_significands(random, 24);
    int difference = between(random, -123, 120);
    return div_of(random, m.a, m.b, dividend_exponent(random, difference), difference);
}

static struct pair draw_div_near_tie_subnormal(struct random *random)
{
    int k = between(random, 0, 23);
    struct pair m = near_tie_significands(random, k);
    return div_of(random, m.a, m.b, dividend_exponent(random, k - 149), k - 149);
}

static struct pair draw_div_tie(struct random *random)
{
    // Only a subnormal quotient can be a tie: here an odd q, its last bit worth 2^-150.
    int length = between(random, 1, 23);
    u32 q = odd_of_length(random, length);
    u32 n = odd_of_length(random, between(random, 1, 24 - length));
    return div_of(random, q * n, n, between(random, -149, -46), -150);
}

static struct pair draw_div_scale(struct random *random)
{
    // The two divisions of quantize: -127 / extreme, 1 / inverse.
    u32 b = (u32)between(random, 1, 254) << 23 | (random_u32(random) & FRACTION);
    return (struct pair){random_u32(random) & 1u ? 0xC2FE0000u : ONE, b | random_sign(random)};
}

static const struct pair_class div_list[] = {
    {"any bits", draw_any, 12000000, {[ZERO] = 100000, [INFINITE] = 100000, [INEXACT] = 5000000}},
    {"normal", draw_div_normal, 18000000, {[EXACT] = 200000, [INEXACT] = 9000000}},
    {"subnormal",
     draw_div_subnormal,
     15000000,
     {[SUBNORMAL] = 12000000, [ZERO] = 100000, [EXACT] = 50000, [TIE] = 10000}},
    {"subn. operand",
     draw_div_subnormal_operand,
     8000000,
     {[SUBNORMAL] = 100000, [INFINITE] = 300000, [EXACT] = 200000, [INEXACT] = 4000000}},
    {"least normal",
     draw_div_min_edge,
     7000000,
     {[EDGE] = 5000000, [SUBNORMAL] = 1000000, [TIE] = 500000}},
    {"FLT_MAX", draw_div_max_edge, 5000000, {[EDGE] = 1000000, [INFINITE] = 1000000}},
    {"exact", draw_div_exact, 6000000, {[EXACT] = 3000000, [INEXACT] = 1000000}},
    {"near tie", draw_div_near_tie, 10000000, {[NEAR_TIE] = 9500000}},
    {"near tie, subn.",
     draw_div_near_tie_subnormal,
     4000000,
     {[NEAR_TIE] = 3500000, [SUBNORMAL] = 3000000}},
    {"tie, subnormal", draw_div_tie, 4000000, {[TIE] = 3500000, [SUBNORMAL] = 3000000}},
    {"quantize", draw_div_scale, 6000000, {[INEXACT] = 5000000, [SUBNORMAL] = 10000}},
    {"special",
     draw_special,
     5000000,
     {[ZERO] = 300000, [INFINITE] = 300000, [NOT_A_NUMBER] = 1000000}},
};

const struct pair_classes div_classes = {div_list, COUNT(div_list)};

// The crossed list

static const u32 chosen_magnitudes[] = {
    0x00000000u, 0x00000003u, 0x00000005u, 0x003FFFFEu, 0x00555555u, 0x007FFFFEu, 0x00FFFFFDu,
    0x00FFFFFEu, 0x01FFFFFFu, 0x02FE0000u, 0x02FE0001u, 0x03014EABu, 0x03FE0000u, 0x33400000u,
    0x33C00000u, 0x34400000u, 0x3DCCCCCDu, 0x3EAAAAABu, 0x3F2AAAABu, 0x3F7FFFFEu, 0x3F800002u,
    0x3F800003u, 0x3FB504F3u, 0x3FC00000u, 0x3FC00001u, 0x3FFFFFFEu, 0x40400000u, 0x40490FDBu,
    0x40A00000u, 0x41F80000u, 0x42FD0000u, 0x42FE0000u, 0x42FE0001u, 0x42FF0000u, 0x43008000u,
    0x44164000u, 0x44E12000u, 0x4B7FFFFEu, 0x4B800002u, 0x72FFFFFEu, 0x73000002u, 0x7C010204u,
    0x7EFFFFFEu, 0x7F7FFFFDu, 0x7F7FFFFEu, 0x7F7FFFFFu, 0x7F800000u, 0x7F800001u, 0x7FBFFFFFu,
    0x7FC00000u, 0x7FC12345u, 0x7FFFFFFFu,
};

// Both signs of the chosen ones, of all powers of two and of their neighbours.
size_t list_specials(u32 specials[MAX_SPECIALS])
{
    size_t count = 0;
    for (size_t i = 0; i < COUNT(chosen_magnitudes); i++) {
        specials[count++] = chosen_magnitudes[i];
        specials[count++] = chosen_magnitudes[i] | SIGN;
    }
    for (int e = -149; e <= 127; e++) {
        u32 power = scaled(0, 1, e);
        for (u32 bits = power - 1u; bits <= power + 1u; bits++) {
            specials[count++] = bits;
            specials[count++] = bits | SIGN;
        }
    }
    return count;
}
