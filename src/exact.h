// Exact f32 arithmetic on bit patterns, in the common subset of C, GLSL and OpenCL C. For kernels
// of yours as for kquant's own: it is installed in include/kquant/device, to be included after the
// prelude of the language, prelude.h, prelude.glsl or prelude.cl, and before records.h. All that it
// defines begins with kq_ or KQ_.
//
// A prelude gives the type u32 and the qualifier KQ_FN. Only 32-bit add, subtract, multiply, shift,
// compare and select occur, because drivers have been wrong about everything else: float rounding
// and subnormals, but also bit counting, wide multiplies and narrow types. Signed integers are held
// as two's complement in u32; a shift is always below 32.
//
// Every function rounds once, to nearest with ties to even, keeps subnormals and signed zeros, and
// returns 0x7FC00000 for any NaN. A NaN operand may have any payload.
#ifndef KQ_EXACT_H
#define KQ_EXACT_H

#define KQ_F32_SIGN 0x80000000u
#define KQ_F32_INF  0x7F800000u
#define KQ_F32_NAN  0x7FC00000u

// Exponents inside this file carry this much extra, so that none of them is ever negative.
#define KQ_EXPONENT_EXTRA 1024u

// Leading zeros of x; 32 for 0.
KQ_FN u32 kq_clz(u32 x)
{
    u32 n = x == 0u ? 1u : 0u;
    u32 s = x < 0x00010000u ? 16u : 0u;
    x = x << s;
    n = n + s;
    s = x < 0x01000000u ? 8u : 0u;
    x = x << s;
    n = n + s;
    s = x < 0x10000000u ? 4u : 0u;
    x = x << s;
    n = n + s;
    s = x < 0x40000000u ? 2u : 0u;
    x = x << s;
    n = n + s;
    return n + (x < 0x80000000u ? 1u : 0u);
}

// x >> n for n < 32, with bit 0 set if any bit that fell off was: what rounding needs to know.
KQ_FN u32 kq_shift_sticky(u32 x, u32 n)
{
    return (x >> n) | (((x << 1) << (31u - n)) != 0u ? 1u : 0u);
}

// The f32 nearest to y * 2^(e - KQ_EXPONENT_EXTRA - 127 - 31). Bit 31 of y is set, bit 0 is sticky;
// e < KQ_EXPONENT_EXTRA + 512.
KQ_FN u32 kq_f32_round(u32 sign, u32 e, u32 y)
{
    u32 least = KQ_EXPONENT_EXTRA + 1u;
    u32 most = e < least ? least : e;
    u32 below = most - e;
    y = kq_shift_sticky(y, below < 31u ? below : 31u);
    u32 q = y >> 8;
    q = q + (((y & 255u) + (q & 1u) + 127u) >> 8);
    // q brings the hidden bit, which counts one exponent; a subnormal has neither.
    u32 bits = ((most - least) << 23) + q;
    return sign | (bits < KQ_F32_INF ? bits : KQ_F32_INF);
}

// The significand of a finite a, shifted so that bit 31 is set; 0 for a zero.
KQ_FN u32 kq_f32_significand(u32 a)
{
    u32 m = ((a & 0x7FFFFFu) | ((a & KQ_F32_INF) != 0u ? 0x800000u : 0u)) << 8;
    return m << (kq_clz(m) & 31u);
}

// The exponent that goes with kq_f32_significand, KQ_EXPONENT_EXTRA included.
KQ_FN u32 kq_f32_exponent(u32 a)
{
    u32 e = (a >> 23) & 255u;
    u32 zeros = kq_clz((a & 0x7FFFFFu) << 8);
    return KQ_EXPONENT_EXTRA + (e != 0u ? e : 1u - zeros);
}

// The value of an IEEE binary16 in the low 16 bits of h, exact.
KQ_FN u32 kq_f16_to_f32(u32 h)
{
    u32 magnitude = h & 0x7FFFu;
    u32 zeros = kq_clz(magnitude);
    u32 subnormal = ((133u - zeros) << 23) + ((magnitude << (zeros & 31u)) >> 8);
    u32 bits = magnitude < 0x0400u ? subnormal : (magnitude << 13) + 0x38000000u;
    bits = magnitude == 0u ? 0u : bits;
    bits = magnitude == 0x7C00u ? KQ_F32_INF : bits;
    return magnitude > 0x7C00u ? KQ_F32_NAN : bits | ((h & 0x8000u) << 16);
}

// x is two's complement.
KQ_FN u32 kq_i32_to_f32(u32 x)
{
    u32 sign = x & KQ_F32_SIGN;
    u32 magnitude = sign != 0u ? 0u - x : x;
    u32 zeros = kq_clz(magnitude);
    u32 e = KQ_EXPONENT_EXTRA + 127u + 31u - zeros;
    return x == 0u ? 0u : kq_f32_round(sign, e, magnitude << (zeros & 31u));
}

KQ_FN u32 kq_f32_mul(u32 a, u32 b)
{
    // 24 x 24 bits in halves of 12: the product is high * 2^24 + middle * 2^12 + low.
    u32 x = kq_f32_significand(a) >> 8;
    u32 y = kq_f32_significand(b) >> 8;
    u32 x1 = x >> 12;
    u32 x0 = x & 0xFFFu;
    u32 y1 = y >> 12;
    u32 y0 = y & 0xFFFu;
    u32 middle = x1 * y0 + x0 * y1;
    u32 low = x0 * y0 + ((middle & 0xFFFu) << 12);
    u32 high = x1 * y1 + (middle >> 12) + (low >> 24);
    u32 product = (high << 8) | ((low >> 16) & 255u);
    u32 rest = (low & 0xFFFFu) != 0u ? 1u : 0u;
    u32 carry = product >> 31;
    product = (product << (1u - carry)) | rest;
    u32 e = kq_f32_exponent(a) + kq_f32_exponent(b) + carry - (KQ_EXPONENT_EXTRA + 127u);

    u32 sign = (a ^ b) & KQ_F32_SIGN;
    u32 aa = a & 0x7FFFFFFFu;
    u32 bb = b & 0x7FFFFFFFu;
    u32 most = aa > bb ? aa : bb;
    u32 least = aa > bb ? bb : aa;
    u32 bits = least == 0u ? sign : kq_f32_round(sign, e, product);
    bits = most == KQ_F32_INF ? sign | KQ_F32_INF : bits;
    return most > KQ_F32_INF || (most == KQ_F32_INF && least == 0u) ? KQ_F32_NAN : bits;
}

KQ_FN u32 kq_f32_add(u32 a, u32 b)
{
    u32 a_is_most = (a & 0x7FFFFFFFu) > (b & 0x7FFFFFFFu) ? 1u : 0u;
    u32 most = a_is_most != 0u ? a : b;
    u32 least = a_is_most != 0u ? b : a;
    u32 em = (most >> 23) & 255u;
    u32 el = (least >> 23) & 255u;
    // Significands end at bit 30: one bit of room above, seven guard bits below.
    u32 x = ((most & 0x7FFFFFu) | (em != 0u ? 0x800000u : 0u)) << 7;
    u32 y = ((least & 0x7FFFFFu) | (el != 0u ? 0x800000u : 0u)) << 7;
    em = em != 0u ? em : 1u;
    el = el != 0u ? el : 1u;
    u32 apart = em - el;
    y = kq_shift_sticky(y, apart < 31u ? apart : 31u);

    u32 differ = (a ^ b) & KQ_F32_SIGN;
    u32 sum = differ != 0u ? x - y : x + y;
    u32 zeros = kq_clz(sum);
    u32 e = KQ_EXPONENT_EXTRA + 1u + em - zeros;
    u32 sign = most & KQ_F32_SIGN;
    u32 bits = kq_f32_round(sign, e, sum << (zeros & 31u));
    bits = sum == 0u ? a & b & KQ_F32_SIGN : bits;

    u32 mm = most & 0x7FFFFFFFu;
    u32 ll = least & 0x7FFFFFFFu;
    bits = mm == KQ_F32_INF ? sign | KQ_F32_INF : bits;
    return mm > KQ_F32_INF || (ll == KQ_F32_INF && differ != 0u) ? KQ_F32_NAN : bits;
}

KQ_FN u32 kq_f32_sub(u32 a, u32 b)
{
    return kq_f32_add(a, b ^ KQ_F32_SIGN);
}

KQ_FN u32 kq_f32_div(u32 a, u32 b)
{
    // Long division, one bit a step: 27 bits are 24, a rounding bit and one for a quotient below 1,
    // and one more; what remains is sticky.
    u32 remainder = kq_f32_significand(a) >> 8;
    u32 divisor = kq_f32_significand(b) >> 8;
    u32 quotient = 0u;
    for (u32 i = 0u; i < 27u; i++) {
        u32 bit = remainder >= divisor ? 1u : 0u;
        remainder = (remainder - (bit != 0u ? divisor : 0u)) << 1;
        quotient = (quotient << 1) | bit;
    }
    u32 zeros = (quotient >> 26) ^ 1u;
    quotient = (quotient << (5u + zeros)) | (remainder != 0u ? 1u : 0u);
    u32 e = kq_f32_exponent(a) + KQ_EXPONENT_EXTRA + 127u - zeros - kq_f32_exponent(b);

    u32 sign = (a ^ b) & KQ_F32_SIGN;
    u32 aa = a & 0x7FFFFFFFu;
    u32 bb = b & 0x7FFFFFFFu;
    u32 bits = aa == 0u || bb == KQ_F32_INF ? sign : kq_f32_round(sign, e, quotient);
    bits = bb == 0u || aa == KQ_F32_INF ? sign | KQ_F32_INF : bits;
    u32 is_nan = aa > KQ_F32_INF || bb > KQ_F32_INF ? 1u : 0u;
    is_nan = aa == bb && (aa == 0u || aa == KQ_F32_INF) ? 1u : is_nan;
    return is_nan != 0u ? KQ_F32_NAN : bits;
}

// a rounded to an integer and saturated to [-128, 127], as two's complement; 0 for NaN.
KQ_FN u32 kq_f32_to_i8(u32 a)
{
    u32 e = (a >> 23) & 255u;
    u32 m = (a & 0x7FFFFFu) | 0x800000u;
    // Below 2^-1 a shift by 25 rounds to 0 like any larger one; from 2^8 on only saturation counts.
    u32 shift = e < 125u ? 25u : (e < 135u ? 150u - e : 16u);
    u32 q = (m + (1u << (shift - 1u)) - 1u + ((m >> shift) & 1u)) >> shift;
    u32 negative = a >> 31;
    u32 limit = 127u + negative;
    q = e < 135u && q < limit ? q : limit;
    q = negative != 0u ? 0u - q : q;
    return (a & 0x7FFFFFFFu) > KQ_F32_INF ? 0u : q;
}

#endif
