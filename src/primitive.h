// Every step of the arithmetic by its number, so that a driver can be asked for one alone. In the
// common subset of C, GLSL and OpenCL C; include exact.h and records.h first. Installed beside them
// in include/kquant/device.
#ifndef KQ_PRIMITIVE_H
#define KQ_PRIMITIVE_H

#define KQ_PRIMITIVE_F16_TO_F32   1u   // a: the f16 in its low half
#define KQ_PRIMITIVE_I32_TO_F32   2u   // a
#define KQ_PRIMITIVE_F32_MULTIPLY 3u   // a * b
#define KQ_PRIMITIVE_F32_ADD      4u   // a + b
#define KQ_PRIMITIVE_F32_SUBTRACT 5u   // a - b
#define KQ_PRIMITIVE_F32_DIVIDE   6u   // a / b
#define KQ_PRIMITIVE_F32_TO_I8    7u   // a, as two's complement
#define KQ_PRIMITIVE_FIELDS_LOW   8u   // of Q4_K: field[0..3] of word a
#define KQ_PRIMITIVE_FIELDS_HIGH  9u   // field[4..7] of word a and word 3, b
#define KQ_PRIMITIVE_DOT4         10u  // four codes a by four i8 b
#define KQ_PRIMITIVE_SUM_I16X2    11u  // the two i16 of a
#define KQ_PRIMITIVE_EXTREME_KEY  12u  // a
#define KQ_PRIMITIVE_U32_DIVIDE   13u  // the whole part of a / b; 0 where b is
#define KQ_PRIMITIVE_COUNT        13u

// What primitive `number` gives for a and b; 0 if there is none of that number.
KQ_FN u32 kq_primitive(KQ_IN u32 number, KQ_IN u32 a, KQ_IN u32 b)
{
    u32 result = 0u;
    if (number == KQ_PRIMITIVE_F16_TO_F32) {
        result = kq_f16_to_f32(a & 0xFFFFu);
    } else if (number == KQ_PRIMITIVE_I32_TO_F32) {
        result = kq_i32_to_f32(a);
    } else if (number == KQ_PRIMITIVE_F32_MULTIPLY) {
        result = kq_f32_mul(a, b);
    } else if (number == KQ_PRIMITIVE_F32_ADD) {
        result = kq_f32_add(a, b);
    } else if (number == KQ_PRIMITIVE_F32_SUBTRACT) {
        result = kq_f32_sub(a, b);
    } else if (number == KQ_PRIMITIVE_F32_DIVIDE) {
        result = kq_f32_div(a, b);
    } else if (number == KQ_PRIMITIVE_F32_TO_I8) {
        result = kq_f32_to_i8(a);
    } else if (number == KQ_PRIMITIVE_FIELDS_LOW) {
        result = kq_q4_k_fields_low(a);
    } else if (number == KQ_PRIMITIVE_FIELDS_HIGH) {
        result = kq_q4_k_fields_high(a, b);
    } else if (number == KQ_PRIMITIVE_DOT4) {
        result = kq_dot4(a, b);
    } else if (number == KQ_PRIMITIVE_SUM_I16X2) {
        result = kq_sum_i16x2(a);
    } else if (number == KQ_PRIMITIVE_EXTREME_KEY) {
        result = kq_extreme_key(a);
    } else if (number == KQ_PRIMITIVE_U32_DIVIDE) {
        // No step of exact.h, but kernels divide indices, and a compiler may do it in floats.
        result = b != 0u ? a / b : 0u;
    }
    return result;
}

#endif
