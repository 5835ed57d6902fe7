// Checks every function of exact.h against the host's IEEE unit, bit for bit.
//
// Small domains are exhausted. mul, add, sub and div get a crossed list of hard values and then
// random pairs from classes, each built to reach one hard case. What a class reached is counted
// from the host's results, and a class that misses its purpose fails the test.
//
// Needs -ffp-contract=off. Exits with 77 where the host is not IEEE: then nothing was tested.
// Usage: exact_test [seed]
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fenv.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prelude.h"
#include "exact.h"

#define EXIT_SKIP    77
#define EXIT_USAGE   2
#define DEFAULT_SEED UINT64_C(0x6B7175616E740001)

#define SIGN         0x80000000u
#define INF          0x7F800000u
#define NAN_BITS     0x7FC00000u
#define FLT_MAX_BITS 0x7F7FFFFFu
#define MIN_NORMAL   0x00800000u
#define HIDDEN       0x00800000u
#define FRACTION     0x007FFFFFu
#define ONE          0x3F800000u

#define SHOWN_MISMATCHES 20
#define LEAST_PAIRS      UINT64_C(100000000)
#define MAX_CLASSES      12
#define MAX_SPECIALS     2048

// Bits and values

static float float_of(u32 bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static u32 bits_of(float value)
{
    u32 bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static int32_t signed_of(u32 x)
{
    int32_t value;
    memcpy(&value, &x, sizeof(value));
    return value;
}

static u32 magnitude_of(u32 bits)
{
    return bits & ~SIGN;
}

static bool is_nan(u32 bits)
{
    return magnitude_of(bits) > INF;
}

static bool is_finite(u32 bits)
{
    return magnitude_of(bits) < INF;
}

static bool is_subnormal(u32 bits)
{
    return magnitude_of(bits) - 1u < MIN_NORMAL - 1u;
}

static u32 one_nan(u32 bits)
{
    return is_nan(bits) ? NAN_BITS : bits;
}

// m * 2^e as f32 bits; the callers choose m and e so that this is exact.
static u32 scaled(u32 sign, u32 m, int e)
{
    u32 bits = bits_of((float)m);
    int exponent = (int)(bits >> 23) + e;
    if (m != 0 && exponent >= 1 && exponent <= 254)
        return sign | (bits + ((u32)e << 23));
    return sign | bits_of(ldexpf((float)m, e));
}

// The host. Volatile operands keep each operation at run time, alone and rounded to f32.

static u32 host_mul(u32 a, u32 b)
{
    volatile float x = float_of(a);
    volatile float y = float_of(b);
    volatile float result = x * y;
    return one_nan(bits_of(result));
}

static u32 host_add(u32 a, u32 b)
{
    volatile float x = float_of(a);
    volatile float y = float_of(b);
    volatile float result = x + y;
    return one_nan(bits_of(result));
}

static u32 host_sub(u32 a, u32 b)
{
    volatile float x = float_of(a);
    volatile float y = float_of(b);
    volatile float result = x - y;
    return one_nan(bits_of(result));
}

static u32 host_div(u32 a, u32 b)
{
    volatile float x = float_of(a);
    volatile float y = float_of(b);
    volatile float result = x / y;
    return one_nan(bits_of(result));
}

static u32 host_i32_to_f32(u32 x)
{
    volatile int32_t value = signed_of(x);
    volatile float result = (float)value;
    return bits_of(result);
}

static u32 host_f32_to_i8(u32 a)
{
    if (is_nan(a))
        return 0;
    float rounded = nearbyintf(float_of(a));
    rounded = rounded < -128.0f ? -128.0f : rounded;
    rounded = rounded > 127.0f ? 127.0f : rounded;
    return (u32)(int32_t)rounded;
}

// Known answers, worked out in exact rationals. They judge the host first, then exact.h too.

typedef u32 binary_fn(u32 a, u32 b);

struct binary_answer {
    binary_fn *host;
    binary_fn *tested;
    u32 a;
    u32 b;
    u32 result;
};

struct unary_answer {
    u32 a;
    u32 result;
};

#define MUL host_mul, kq_f32_mul
#define ADD host_add, kq_f32_add
#define SUB host_sub, kq_f32_sub
#define DIV host_div, kq_f32_div

static const struct binary_answer binary_answers[] = {
    // 1 + 2^-24 and 1 + 3 * 2^-24 are ties; the neighbours of the first are not.
    {ADD, 0x3F800000u, 0x33800000u, 0x3F800000u},
    {ADD, 0xBF800000u, 0xB3800000u, 0xBF800000u},
    {ADD, 0x3F800001u, 0x33800000u, 0x3F800002u},
    {ADD, 0xBF800001u, 0xB3800000u, 0xBF800002u},
    {ADD, 0x3F800000u, 0x33800001u, 0x3F800001u},
    {ADD, 0xBF800000u, 0xB3800001u, 0xBF800001u},
    {SUB, 0x3F800000u, 0x33000000u, 0x3F800000u},
    {SUB, 0x3F800000u, 0x33000001u, 0x3F7FFFFFu},
    // Subnormal operands and results, and the step from one to the other.
    {ADD, 0x00000001u, 0x00000001u, 0x00000002u},
    {ADD, 0x007FFFFFu, 0x00000001u, 0x00800000u},
    {SUB, 0x00800001u, 0x00800000u, 0x00000001u},
    {SUB, 0x00800000u, 0x00000001u, 0x007FFFFFu},
    {MUL, 0x00000001u, 0x3F800000u, 0x00000001u},
    {MUL, 0x00000001u, 0x7F000000u, 0x34800000u},
    {MUL, 0x00800000u, 0x3F000000u, 0x00400000u},
    {MUL, 0x00FFFFFFu, 0x3F000000u, 0x00800000u},
    {MUL, 0x00FFFFFDu, 0x3F000000u, 0x007FFFFEu},
    {MUL, 0x00000001u, 0x3F000000u, 0x00000000u},
    {MUL, 0x80000001u, 0x3F000000u, 0x80000000u},
    {MUL, 0x00000001u, 0x3F000001u, 0x00000001u},
    {MUL, 0x00000003u, 0x3F000000u, 0x00000002u},
    {DIV, 0x00000001u, 0x00000001u, 0x3F800000u},
    {DIV, 0x00800000u, 0x40000000u, 0x00400000u},
    {DIV, 0x00000001u, 0x40000000u, 0x00000000u},
    {DIV, 0x00000003u, 0x40000000u, 0x00000002u},
    {DIV, 0x00FFFFFFu, 0x40000000u, 0x00800000u},
    // Division and products that a reciprocal or a truncation gets wrong.
    {DIV, 0x3F800000u, 0x40400000u, 0x3EAAAAABu},
    {DIV, 0xC2FE0000u, 0x02FE0001u, 0xFF7FFFFFu},
    {DIV, 0xC2FE0000u, 0x02FE0000u, 0xFF800000u},
    {DIV, 0x40A00000u, 0x40400000u, 0x3FD55555u},
    {MUL, 0x3F800001u, 0x3F800001u, 0x3F800002u},
    {MUL, 0x3F800001u, 0x3FC00000u, 0x3FC00002u},
    // Overflow: 2^128 - 2^103 is the tie between FLT_MAX and infinity.
    {ADD, 0x7F7FFFFFu, 0x73000000u, 0x7F800000u},
    {ADD, 0x7F7FFFFFu, 0x72FFFFFFu, 0x7F7FFFFFu},
    {MUL, 0x7F7FFFFFu, 0x3F800001u, 0x7F800000u},
    {MUL, 0x7F7FFFFFu, 0x3F7FFFFFu, 0x7F7FFFFEu},
    // Signs of zero, infinities and NaN.
    {ADD, 0x80000000u, 0x80000000u, 0x80000000u},
    {ADD, 0x80000000u, 0x00000000u, 0x00000000u},
    {SUB, 0x80000000u, 0x00000000u, 0x80000000u},
    {SUB, 0x00000000u, 0x00000000u, 0x00000000u},
    {SUB, 0xBF800000u, 0xBF800000u, 0x00000000u},
    {MUL, 0x80000000u, 0x3F800000u, 0x80000000u},
    {MUL, 0x80000000u, 0xBF800000u, 0x00000000u},
    {DIV, 0x00000000u, 0xBF800000u, 0x80000000u},
    {DIV, 0xBF800000u, 0x00000000u, 0xFF800000u},
    {DIV, 0x3F800000u, 0xFF800000u, 0x80000000u},
    {DIV, 0x00000000u, 0x80000000u, 0x7FC00000u},
    {DIV, 0x7F800000u, 0xFF800000u, 0x7FC00000u},
    {MUL, 0x7F800000u, 0x80000000u, 0x7FC00000u},
    {SUB, 0x7F800000u, 0x7F800000u, 0x7FC00000u},
    {ADD, 0x7F800000u, 0xFF800000u, 0x7FC00000u},
    {ADD, 0xFF800001u, 0x3F800000u, 0x7FC00000u},
};

#undef MUL
#undef ADD
#undef SUB
#undef DIV

static const struct unary_answer i32_answers[] = {
    {0x00000000u, 0x00000000u}, {0xFFFFFFFFu, 0xBF800000u}, {0x01000001u, 0x4B800000u},
    {0x01000003u, 0x4B800002u}, {0xFEFFFFFFu, 0xCB800000u}, {0xFEFFFFFDu, 0xCB800002u},
    {0x7FFFFFBFu, 0x4EFFFFFFu}, {0x7FFFFFC0u, 0x4F000000u}, {0x7FFFFFFFu, 0x4F000000u},
    {0x80000000u, 0xCF000000u}, {0x80000040u, 0xCF000000u}, {0x80000041u, 0xCEFFFFFFu},
};

static const struct unary_answer i8_answers[] = {
    // 0, -0, the least subnormal
    {0x00000000u, 0x00000000u},
    {0x80000000u, 0x00000000u},
    {0x00000001u, 0x00000000u},
    // 0.5 and its neighbour, 1.5, -2.5
    {0x3F000000u, 0x00000000u},
    {0x3F000001u, 0x00000001u},
    {0xBF000001u, 0xFFFFFFFFu},
    {0x3FC00000u, 0x00000002u},
    {0xC0200000u, 0xFFFFFFFEu},
    // 126.5 and its neighbour, 127.5, 128.5
    {0x42FD0000u, 0x0000007Eu},
    {0x42FD0001u, 0x0000007Fu},
    {0x42FF0000u, 0x0000007Fu},
    {0x43008000u, 0x0000007Fu},
    // -127.5 and its neighbour, -128.5 and its neighbour
    {0xC2FEFFFFu, 0xFFFFFF81u},
    {0xC2FF0000u, 0xFFFFFF80u},
    {0xC3008000u, 0xFFFFFF80u},
    {0xC3008001u, 0xFFFFFF80u},
    // FLT_MAX, infinities, NaNs
    {0x7F7FFFFFu, 0x0000007Fu},
    {0x7F800000u, 0x0000007Fu},
    {0xFF800000u, 0xFFFFFF80u},
    {0x7FC00000u, 0x00000000u},
    {0xFF800001u, 0x00000000u},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// Why the host cannot judge, or NULL if it can.
static const char *host_fault(void)
{
    if (FLT_RADIX != 2 || FLT_MANT_DIG != 24 || FLT_MAX_EXP != 128 || FLT_MIN_EXP != -125)
        return "float is not binary32";
    if (DBL_MANT_DIG != 53 || DBL_MIN_EXP != -1021)
        return "double is not binary64";
    if (FLT_EVAL_METHOD != 0)
        return "float expressions are evaluated in a wider format";
#ifdef FE_TONEAREST
    if (fegetround() != FE_TONEAREST)
        return "the rounding mode is not to nearest";
#endif
    for (size_t i = 0; i < COUNT(binary_answers); i++) {
        const struct binary_answer *answer = &binary_answers[i];
        if (answer->host(answer->a, answer->b) != answer->result)
            return "a float operation is not that of IEEE 754 (rounding, subnormals or zeros)";
    }
    for (size_t i = 0; i < COUNT(i32_answers); i++) {
        if (host_i32_to_f32(i32_answers[i].a) != i32_answers[i].result)
            return "the conversion of integers to float is not that of IEEE 754";
    }
    for (size_t i = 0; i < COUNT(i8_answers); i++) {
        if (host_f32_to_i8(i8_answers[i].a) != i8_answers[i].result)
            return "rounding to an integer is not to nearest even";
    }
    volatile float least = float_of(1);
    volatile double widened = (double)least;
    if (widened != ldexp(1.0, -149) || bits_of(ldexpf(3.0f, -149)) != 3)
        return "a conversion flushes subnormals";
    return NULL;
}

// Mismatches of one test: the first ones are printed, all are counted.

struct mismatches {
    uint64_t count;
};

static void mismatch(struct mismatches *found, const char *call, u32 got, u32 expected)
{
    if (found->count++ < SHOWN_MISMATCHES)
        print_error("%s = 0x%08" PRIX32 ", expected 0x%08" PRIX32 "\n", call, got, expected);
}

static void check_unary(struct mismatches *found, const char *name, u32 a, u32 got, u32 expected)
{
    if (got == expected)
        return;
    char call[64];
    snprintf(call, sizeof(call), "%s(0x%08" PRIX32 ")", name, a);
    mismatch(found, call, got, expected);
}

static void check_binary(struct mismatches *found, const char *name, u32 a, u32 b, u32 got,
                         u32 expected)
{
    if (got == expected)
        return;
    char call[64];
    snprintf(call, sizeof(call), "%s(0x%08" PRIX32 ", 0x%08" PRIX32 ")", name, a, b);
    mismatch(found, call, got, expected);
}

static void finish(const struct mismatches *found, const char *name, uint64_t tested)
{
    printf("%-14s %11" PRIu64 " tested, %" PRIu64 " mismatches\n", name, tested, found->count);
    fflush(stdout);
}

// Random numbers: splitmix64.

struct random {
    uint64_t state;
};

static uint64_t random_u64(struct random *random)
{
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static u32 random_u32(struct random *random)
{
    return (u32)(random_u64(random) >> 32);
}

static u32 below(struct random *random, u32 n)
{
    return (u32)(((random_u64(random) >> 32) * n) >> 32);
}

// Both ends included.
static int between(struct random *random, int low, int high)
{
    return low + (int)below(random, (u32)(high - low + 1));
}

static u32 random_sign(struct random *random)
{
    return random_u32(random) & SIGN;
}

static u32 random_finite(struct random *random)
{
    return below(random, INF) | random_sign(random);
}

// 24 bits with the top one set, often of a shape that carries far: long runs of ones or zeros.
static u32 draw_significand(struct random *random)
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

static u32 odd_significand(struct random *random)
{
    return HIDDEN | (random_u32(random) & FRACTION) | 1u;
}

// An odd number of exactly n bits, 1 <= n <= 24.
static u32 odd_of_length(struct random *random, int n)
{
    u32 top = 1u << (n - 1);
    return top | (random_u32(random) & (top - 1u)) | 1u;
}

// The x with m * x = 1 modulo 2^32; m is odd.
static u32 inverse_of_odd(u32 m)
{
    u32 x = m;
    for (int i = 0; i < 4; i++)
        x *= 2u - m * x;
    return x;
}

// What a result is. The kinds are the columns of the table.
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

static const char *const kind_names[KINDS] = {
    "zero", "subnormal", "edge", "inf", "NaN", "exact", "inexact", "tie", "near tie", "cancelled",
};

struct tally {
    uint64_t pairs;
    uint64_t count[KINDS];
};

struct pair {
    u32 a;
    u32 b;
};

struct pair_class {
    const char *name;
    struct pair (*draw)(struct random *random);
    u32 pairs;
    u32 least[KINDS];
};

// The exact result of an operation on finite operands: |result| * scale = value + error.
struct exact_result {
    double value;
    double error;
    double scale;
};

typedef struct exact_result exact_fn(u32 a, u32 b);

static struct exact_result exact_mul(u32 a, u32 b)
{
    double product = (double)float_of(a) * (double)float_of(b);
    return (struct exact_result){.value = fabs(product), .scale = 1.0};
}

static struct exact_result exact_add(u32 a, u32 b)
{
    // Knuth's two-sum; doubles hold sum and error of any two floats.
    double x = (double)float_of(a);
    double y = (double)float_of(b);
    double sum = x + y;
    double y_part = sum - x;
    double error = (x - (sum - y_part)) + (y - y_part);
    return (struct exact_result){
        .value = fabs(sum), .error = sum < 0.0 ? -error : error, .scale = 1.0};
}

static struct exact_result exact_div(u32 a, u32 b)
{
    return (struct exact_result){.value = fabs((double)float_of(a)),
                                 .scale = fabs((double)float_of(b))};
}

// Infinity stands for 2^128 here: rounding sees it as the neighbour of FLT_MAX.
static double magnitude_value(u32 magnitude)
{
    return magnitude == INF ? ldexp(1.0, 128) : (double)float_of(magnitude);
}

static void tally_rounding(struct tally *tally, const struct exact_result *exact, u32 magnitude)
{
    double nearest = magnitude_value(magnitude);
    if (exact->value == nearest * exact->scale && exact->error == 0.0 && magnitude != INF) {
        tally->count[EXACT] += magnitude != 0;
        return;
    }
    tally->count[INEXACT]++;
    bool above = exact->value > nearest * exact->scale;
    if (magnitude == INF && above)
        return;
    if (magnitude == 0 && exact->value == 0.0)
        return;
    double other = magnitude_value(above ? magnitude + 1 : magnitude - 1);
    double off = 2.0 * exact->value - (nearest + other) * exact->scale + 2.0 * exact->error;
    if (off == 0.0)
        tally->count[TIE]++;
    else if (fabs(off) <= fabs(nearest - other) * exact->scale * ldexp(1.0, -17))
        tally->count[NEAR_TIE]++;
}

static void tally_result(struct tally *tally, exact_fn *exact, u32 a, u32 b, u32 result)
{
    u32 magnitude = magnitude_of(result);
    tally->pairs++;
    tally->count[ZERO] += magnitude == 0;
    tally->count[SUBNORMAL] += is_subnormal(result);
    tally->count[INFINITE] += magnitude == INF;
    tally->count[NOT_A_NUMBER] += magnitude > INF;
    tally->count[EDGE] += magnitude - (MIN_NORMAL - 4u) <= 8u || FLT_MAX_BITS - magnitude <= 4u;
    if (!is_finite(a) || !is_finite(b))
        return;
    if (exact == exact_div && magnitude_of(b) == 0)
        return;
    struct exact_result value = exact(a, b);
    tally_rounding(tally, &value, magnitude);
    if (exact == exact_add) {
        u32 larger = magnitude_of(a) > magnitude_of(b) ? magnitude_of(a) : magnitude_of(b);
        tally->count[CANCELLED] += magnitude != 0 && larger >= magnitude + (12u << 23);
    }
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

static const struct pair_class mul_classes[] = {
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

static const struct pair_class add_classes[] = {
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

static const struct pair_class div_classes[] = {
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
static size_t list_specials(u32 specials[MAX_SPECIALS])
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
    assert_true(count <= MAX_SPECIALS);
    return count;
}

// Tests

struct operation {
    const char *name;
    binary_fn *tested;
    binary_fn *host;
    exact_fn *exact;
    bool with_sub;
    const struct pair_class *classes;
    size_t class_count;
};

static const struct operation operations[] = {
    {"mul", kq_f32_mul, host_mul, exact_mul, false, mul_classes, COUNT(mul_classes)},
    {"add", kq_f32_add, host_add, exact_add, true, add_classes, COUNT(add_classes)},
    {"div", kq_f32_div, host_div, exact_div, false, div_classes, COUNT(div_classes)},
};

// What main and the tests share: the seed in, the tallies out.
struct session {
    uint64_t seed;
    struct tally crossed[COUNT(operations)];
    struct tally drawn[COUNT(operations)][MAX_CLASSES];
};

static void check_pair(struct mismatches *found, struct tally *tally,
                       const struct operation *operation, u32 a, u32 b)
{
    u32 expected = operation->host(a, b);
    check_binary(found, operation->name, a, b, operation->tested(a, b), expected);
    if (operation->with_sub) {
        u32 turned = b ^ SIGN;
        check_binary(found, "sub", a, turned, kq_f32_sub(a, turned), host_sub(a, turned));
    }
    tally_result(tally, operation->exact, a, b, expected);
}

// Prints every purpose that a class missed and returns how many.
static size_t missed_purposes(const char *operation, const struct pair_class *class,
                              const struct tally *tally)
{
    size_t missed = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        if (tally->count[kind] >= class->least[kind])
            continue;
        print_error(
            "%s, class \"%s\": %" PRIu64 " results of kind \"%s\", at least %" PRIu32 " wanted\n",
            operation, class->name, tally->count[kind], kind_names[kind], class->least[kind]);
        missed++;
    }
    return missed;
}

static void check_operation(struct session *session, size_t index)
{
    const struct operation *operation = &operations[index];
    struct mismatches found = {0};
    assert_true(operation->class_count <= MAX_CLASSES);

    u32 specials[MAX_SPECIALS];
    size_t special_count = list_specials(specials);
    for (size_t i = 0; i < special_count; i++) {
        for (size_t j = 0; j < special_count; j++)
            check_pair(&found, &session->crossed[index], operation, specials[i], specials[j]);
    }

    uint64_t drawn = 0;
    size_t missed = 0;
    for (size_t i = 0; i < operation->class_count; i++) {
        const struct pair_class *class = &operation->classes[i];
        struct tally *tally = &session->drawn[index][i];
        struct random random = {session->seed ^ ((uint64_t)(index + 1) << 40) ^
                                ((uint64_t)i << 32)};
        for (u32 n = 0; n < class->pairs; n++) {
            struct pair pair = class->draw(&random);
            check_pair(&found, tally, operation, pair.a, pair.b);
        }
        drawn += tally->pairs;
        missed += missed_purposes(operation->name, class, tally);
    }
    finish(&found, operation->with_sub ? "add, sub" : operation->name,
           session->crossed[index].pairs + drawn);
    assert_true(drawn >= LEAST_PAIRS);
    assert_int_equal(missed, 0);
    assert_int_equal(found.count, 0);
}

static void test_mul(void **state)
{
    check_operation(*state, 0);
}

static void test_add_sub(void **state)
{
    check_operation(*state, 1);
}

static void test_div(void **state)
{
    check_operation(*state, 2);
}

static void test_answers(void **state)
{
    (void)state;
    struct mismatches found = {0};
    for (size_t i = 0; i < COUNT(binary_answers); i++) {
        const struct binary_answer *answer = &binary_answers[i];
        const char *name = answer->tested == kq_f32_mul   ? "mul"
                           : answer->tested == kq_f32_add ? "add"
                           : answer->tested == kq_f32_sub ? "sub"
                                                          : "div";
        check_binary(&found, name, answer->a, answer->b, answer->tested(answer->a, answer->b),
                     answer->result);
    }
    for (size_t i = 0; i < COUNT(i32_answers); i++) {
        u32 a = i32_answers[i].a;
        check_unary(&found, "i32_to_f32", a, kq_i32_to_f32(a), i32_answers[i].result);
    }
    for (size_t i = 0; i < COUNT(i8_answers); i++) {
        u32 a = i8_answers[i].a;
        check_unary(&found, "f32_to_i8", a, kq_f32_to_i8(a), i8_answers[i].result);
    }
    finish(&found, "known answers", COUNT(binary_answers) + COUNT(i32_answers) + COUNT(i8_answers));
    assert_int_equal(found.count, 0);
}

static void test_clz(void **state)
{
    const struct session *session = *state;
    struct random random = {session->seed};
    struct mismatches found = {0};
    uint64_t tested = 1;
    check_unary(&found, "clz", 0, kq_clz(0), 32);
    for (u32 zeros = 0; zeros < 32; zeros++) {
        u32 top = SIGN >> zeros;
        check_unary(&found, "clz", top, kq_clz(top), zeros);
        check_unary(&found, "clz", 2u * top - 1u, kq_clz(2u * top - 1u), zeros);
        for (int i = 0; i < 100000; i++) {
            u32 x = top | (random_u32(&random) & (top - 1u));
            check_unary(&found, "clz", x, kq_clz(x), zeros);
        }
        tested += 100002;
    }
    finish(&found, "clz", tested);
    assert_int_equal(found.count, 0);
}

static u32 expected_f16_to_f32(u32 h)
{
    u32 sign = (h & 0x8000u) << 16;
    u32 e = (h >> 10) & 31u;
    u32 fraction = h & 0x3FFu;
    if (e == 31)
        return fraction != 0 ? NAN_BITS : sign | INF;
    double magnitude = e == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)e - 25);
    return sign | bits_of((float)magnitude);
}

static void test_f16_to_f32(void **state)
{
    (void)state;
    // The upper half of the word is not part of the number.
    static const u32 upper_halves[] = {0x00000000u, 0xFFFF0000u, 0x00010000u, 0x80000000u};
    struct mismatches found = {0};
    uint64_t tested = 0;
    for (size_t i = 0; i < COUNT(upper_halves); i++) {
        for (u32 h = 0; h <= 0xFFFFu; h++, tested++) {
            u32 word = upper_halves[i] | h;
            check_unary(&found, "f16_to_f32", word, kq_f16_to_f32(word), expected_f16_to_f32(h));
        }
    }
    finish(&found, "f16_to_f32", tested);
    assert_int_equal(found.count, 0);
}

static void check_i32(struct mismatches *found, u32 x)
{
    check_unary(found, "i32_to_f32", x, kq_i32_to_f32(x), host_i32_to_f32(x));
}

static void test_i32_to_f32(void **state)
{
    const struct session *session = *state;
    struct random random = {session->seed};
    struct mismatches found = {0};
    uint64_t tested = 0;
    for (u32 x = 0; x <= 1u << 25; x++, tested += 2) {
        check_i32(&found, x);
        check_i32(&found, 0u - x);
    }
    // The ends: from -2^31 up and from 2^31 - 1 down.
    for (u32 i = 0; i <= 1u << 16; i++, tested += 2) {
        check_i32(&found, 0x80000000u + i);
        check_i32(&found, 0x7FFFFFFFu - i);
    }
    // Ties and their neighbours, for each number of bits rounded away.
    for (int lost = 1; lost <= 7; lost++) {
        for (int i = 0; i < 200000; i++, tested += 6) {
            u32 tie = (draw_significand(&random) << lost) + (1u << (lost - 1));
            for (u32 x = tie - 1u; x != tie + 2u; x++) {
                check_i32(&found, x);
                check_i32(&found, 0u - x);
            }
        }
    }
    for (int i = 0; i < 10000000; i++, tested++)
        check_i32(&found, random_u32(&random));
    finish(&found, "i32_to_f32", tested);
    assert_int_equal(found.count, 0);
}

// The least magnitude that rounds to n > 0: the tie n - 1/2, or what follows it if n is odd.
static u32 least_rounded_to(u32 n)
{
    return bits_of((float)n - 0.5f) + (n & 1u);
}

// All patterns from first to last must give expected; the host answers for both ends.
static uint64_t check_i8_range(struct mismatches *found, u32 first, u32 last, u32 expected)
{
    assert_int_equal(host_f32_to_i8(first), expected);
    assert_int_equal(host_f32_to_i8(last), expected);
    for (u32 a = first; a != last; a++)
        check_unary(found, "f32_to_i8", a, kq_f32_to_i8(a), expected);
    check_unary(found, "f32_to_i8", last, kq_f32_to_i8(last), expected);
    return (uint64_t)last - first + 1;
}

static void test_f32_to_i8(void **state)
{
    (void)state;
    // Rounding is monotone, so the patterns between two ties share one integer.
    struct mismatches found = {0};
    uint64_t tested = 0;
    for (u32 n = 0; n <= 128; n++) {
        u32 first = n == 0 ? 0u : least_rounded_to(n);
        u32 last = n == 128 ? INF : least_rounded_to(n + 1u) - 1u;
        tested += check_i8_range(&found, first, last, n < 127 ? n : 127u);
        tested += check_i8_range(&found, first | SIGN, last | SIGN, 0u - n);
    }
    tested += check_i8_range(&found, INF + 1u, SIGN - 1u, 0);
    tested += check_i8_range(&found, (INF + 1u) | SIGN, 0xFFFFFFFFu, 0);
    finish(&found, "f32_to_i8", tested);
    assert_true(tested == UINT64_C(1) << 32);
    assert_int_equal(found.count, 0);
}

static void print_tally(const char *operation, const char *class, const struct tally *tally)
{
    printf("%-4s %-15s %10" PRIu64, operation, class, tally->pairs);
    for (int kind = 0; kind < KINDS; kind++)
        printf(" %9" PRIu64, tally->count[kind]);
    printf("\n");
}

static void print_table(const struct session *session)
{
    printf("\n%-4s %-15s %10s", "op", "class", "pairs");
    for (int kind = 0; kind < KINDS; kind++)
        printf(" %9s", kind_names[kind]);
    printf("\n");
    for (size_t i = 0; i < COUNT(operations); i++) {
        const struct operation *operation = &operations[i];
        struct tally all = {0};
        print_tally(operation->name, "crossed list", &session->crossed[i]);
        for (size_t j = 0; j < operation->class_count; j++) {
            const struct tally *tally = &session->drawn[i][j];
            print_tally(operation->name, operation->classes[j].name, tally);
            all.pairs += tally->pairs;
            for (int kind = 0; kind < KINDS; kind++)
                all.count[kind] += tally->count[kind];
        }
        print_tally(operation->name, "all classes", &all);
    }
    printf("add: the results are those of add; sub was checked on as many pairs.\n");
    fflush(stdout);
}

static bool parse_seed(const char *text, uint64_t *seed)
{
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 0);
    return end != text && *end == '\0' && errno == 0;
}

int main(int argc, char **argv)
{
    struct session session = {.seed = DEFAULT_SEED};
    if (argc > 2 || (argc == 2 && !parse_seed(argv[1], &session.seed))) {
        fprintf(stderr, "usage: exact_test [seed]\n");
        return EXIT_USAGE;
    }
    const char *fault = host_fault();
    if (fault) {
        printf("skipped, the host cannot judge: %s\n", fault);
        return EXIT_SKIP;
    }
    printf("host: binary32, to nearest even, subnormals kept\nseed: 0x%016" PRIX64 "\n",
           session.seed);
    fflush(stdout);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test_prestate(test_clz, &session),
        cmocka_unit_test(test_f16_to_f32),
        cmocka_unit_test_prestate(test_i32_to_f32, &session),
        cmocka_unit_test(test_f32_to_i8),
        cmocka_unit_test_prestate(test_mul, &session),
        cmocka_unit_test_prestate(test_add_sub, &session),
        cmocka_unit_test_prestate(test_div, &session),
    };
    int failed = cmocka_run_group_tests_name("exact", tests, NULL, NULL);
    print_table(&session);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
