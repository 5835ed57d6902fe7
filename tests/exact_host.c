// The host's f32 operations, and the check of them against known answers.
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "exact_bits.h"
#include "exact_host.h"

static int32_t signed_of(u32 x)
{
    int32_t value;
    memcpy(&value, &x, sizeof(value));
    return value;
}

static u32 one_nan(u32 bits)
{
    return is_nan(bits) ? NAN_BITS : bits;
}

// Volatile operands keep each operation at run time, alone and rounded to f32.

u32 host_mul(u32 a, u32 b)
{
    volatile float x = float_of(a);
    volatile float y = float_of(b);
    volatile float result = x * y;
    return one_nan(bits_of(result));
}

u32 host_add(u32 a, u32 b)
{
    volatile float x = float_of(a);
    volatile float y = float_of(b);
    volatile float result = x + y;
    return one_nan(bits_of(result));
}

u32 host_sub(u32 a, u32 b)
{
    volatile float x = float_of(a);
    volatile float y = float_of(b);
    volatile float result = x - y;
    return one_nan(bits_of(result));
}

u32 host_div(u32 a, u32 b)
{
    volatile float x = float_of(a);
    volatile float y = float_of(b);
    volatile float result = x / y;
    return one_nan(bits_of(result));
}

u32 host_i32_to_f32(u32 x)
{
    volatile int32_t value = signed_of(x);
    volatile float result = (float)value;
    return bits_of(result);
}

u32 host_f32_to_i8(u32 a)
{
    if (is_nan(a))
        return 0;
    float rounded = nearbyintf(float_of(a));
    rounded = rounded < -128.0f ? -128.0f : rounded;
    rounded = rounded > 127.0f ? 127.0f : rounded;
    return (u32)(int32_t)rounded;
}

const struct binary_answer binary_answers[] = {
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

const struct unary_answer i32_answers[] = {
    {0x00000000u, 0x00000000u}, {0xFFFFFFFFu, 0xBF800000u}, {0x01000001u, 0x4B800000u},
    {0x01000003u, 0x4B800002u}, {0xFEFFFFFFu, 0xCB800000u}, {0xFEFFFFFDu, 0xCB800002u},
    {0x7FFFFFBFu, 0x4EFFFFFFu}, {0x7FFFFFC0u, 0x4F000000u}, {0x7FFFFFFFu, 0x4F000000u},
    {0x80000000u, 0xCF000000u}, {0x80000040u, 0xCF000000u}, {0x80000041u, 0xCEFFFFFFu},
};

const struct unary_answer i8_answers[] = {
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

const size_t binary_answer_count = COUNT(binary_answers);
const size_t i32_answer_count = COUNT(i32_answers);
const size_t i8_answer_count = COUNT(i8_answers);

static binary_fn *const host_binaries[BINARIES] = {
    [MUL] = host_mul,
    [ADD] = host_add,
    [SUB] = host_sub,
    [DIV] = host_div,
};

const char *host_fault(void)
{
    // NOLINTBEGIN(misc-redundant-expression): constants, here those that are wanted
    if (FLT_RADIX != 2 || FLT_MANT_DIG != 24 || FLT_MAX_EXP != 128 || FLT_MIN_EXP != -125)
        return "float is not binary32";
    if (DBL_MANT_DIG != 53 || DBL_MIN_EXP != -1021)
        return "double is not binary64";
    // NOLINTEND(misc-redundant-expression)
    if (FLT_EVAL_METHOD != 0)
        return "float expressions are evaluated in a wider format";
#ifdef FE_TONEAREST
    if (fegetround() != FE_TONEAREST)
        return "the rounding mode is not to nearest";
#endif
    for (size_t i = 0; i < COUNT(binary_answers); i++) {
        const struct binary_answer *answer = &binary_answers[i];
        if (host_binaries[answer->operation](answer->a, answer->b) != answer->result)
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
