// Exact f32 arithmetic on bit patterns, in the common subset of C, GLSL and OpenCL C. For kernels
// of yours as for kquant's own: it is installed in include/kquant/device, to be included after the
// prelude of the language, prelude.h, prelude.glsl or prelude.cl, and before records.h. All that it
// defines begins with kq_ or KQ_.
//
// A prelude gives the type u32 and the qualifiers KQ_FN and KQ_IN. Only 32-bit add, subtract,
// multiply, shift, compare and select occur, because drivers have been wrong about everything else:
// float rounding and subnormals, but also bit counting, wide multiplies and narrow types. Signed
// integers are held as two's complement in u32; a shift is always below 32.
//
// Every function rounds to nearest with ties to even, once but where it says twice, keeps
// subnormals and signed zeros, and returns 0x7FC00000 for any NaN. A NaN operand may have any
// payload.
#ifndef KQ_EXACT_H
#define KQ_EXACT_H

#define KQ_F32_SIGN 0x80000000u
#define KQ_F32_INF  0x7F800000u
#define KQ_F32_NAN  0x7FC00000u

// Exponents inside this file carry this much extra, so that none of them is ever negative. That of
// the least normal is then a power of two, which falls off when it is shifted to its place.
#define KQ_EXPONENT_EXTRA 1023u

// Where u32 is a vector, a loop counts by one number.
#ifndef KQ_COUNTER
# define KQ_COUNTER u32
#endif

// Leading zeros of y; 32 for 0. A prelude may have its own.
#ifndef KQ_HAS_CLZ
KQ_FN u32 kq_clz(KQ_IN u32 y)
{
    u32 n = y == 0u ? 1u : 0u;
    u32 s = y < 0x00010000u ? 16u : 0u;
    u32 x = y << s;
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
#endif

// x >> n for n < 32, with bit 0 set if any bit that fell off was: what rounding needs to know.
KQ_FN u32 kq_shift_sticky(KQ_IN u32 x, KQ_IN u32 n)
{
    u32 rest = x >> n;
    return rest | (rest << n != x ? 1u : 0u);
}

// The magnitude of the f32 nearest to y * 2^(e - KQ_EXPONENT_EXTRA - 127 - 28). Bit 28 or bit 29 is
// the top one of y, bit 0 is sticky; e < KQ_EXPONENT_EXTRA + 511.
KQ_FN u32 kq_f32_round(KQ_IN u32 e, KQ_IN u32 y)
{
    u32 least = KQ_EXPONENT_EXTRA + 1u;
    u32 most = e + (y >> 29);
    most = most < least ? least : most;
    // Five bits fall off, or six, or as many as a subnormal has too few; of 31 nothing remains.
    u32 more = most - e;
    more = more < 26u ? more : 26u;
    u32 n = more + 5u;
    u32 half_unit = 16u;
    half_unit = half_unit << more;
    u32 q = (y + (half_unit - 1u) + ((y >> n) & 1u)) >> n;
    // q brings the hidden bit, which counts one exponent; a subnormal has neither.
    u32 bits = ((most - least) << 23) + q;
    return bits < KQ_F32_INF ? bits : KQ_F32_INF;
}

// The same of x * 2^(e - 126 - 30), for any x from 1 to 2^31 - 1, where that is far from both ends
// of the normals.
KQ_FN u32 kq_f32_round_normal(KQ_IN u32 e, KQ_IN u32 x)
{
    u32 n = kq_clz(x) - 1u;
    u32 y = x << (n & 31u);
    return ((e - n) << 23) + ((y + 63u + ((y >> 7) & 1u)) >> 7);
}

// The significand of a finite a as it is stored, with its hidden bit.
KQ_FN u32 kq_f32_stored(KQ_IN u32 a)
{
    return (a & 0x7FFFFFu) | (((a >> 23) & 255u) != 0u ? 0x800000u : 0u);
}

// The exponent that goes with it, at least 1, which is that of the subnormals.
KQ_FN u32 kq_f32_power(KQ_IN u32 a)
{
    u32 e = (a >> 23) & 255u;
    return e != 0u ? e : 1u;
}

// The same, shifted so that bit 23 is set; 0 for a zero.
KQ_FN u32 kq_f32_significand(KQ_IN u32 a)
{
    u32 m = kq_f32_stored(a);
    return (m << (kq_clz(m) - 8u)) & 0xFFFFFFu;
}

// The exponent that goes with kq_f32_significand, KQ_EXPONENT_EXTRA included.
KQ_FN u32 kq_f32_exponent(KQ_IN u32 a)
{
    return KQ_EXPONENT_EXTRA + kq_f32_power(a) + 8u - kq_clz(kq_f32_stored(a));
}

// The value of an IEEE binary16 in the low 16 bits of h, times x, which is rounded to f32 first: it
// rounds twice. x is two's complement, from 1 - 2^25 to 2^25 - 1. A result that is finite and not 0
// has a magnitude from 2^-24 to 2^41.
KQ_FN u32 kq_f16_mul_i25(KQ_IN u32 h, KQ_IN u32 x)
{
    u32 minus = 0u - x;
    u32 n = x < minus ? x : minus;
    u32 odd = (n >> 24) & 1u;  // of a significand of 25 bits, which it shortens
    n = (n + (odd & (n >> 1))) >> odd;
    u32 e = (h >> 10) & 31u;
    u32 m = (h & 0x3FFu) | (e != 0u ? 0x400u : 0u);
    // 11 x 25 bits: the product is high * 2^13 + low, below 2^35. From 2^31 on it is short of four
    // bits, which leave a mark below where it is rounded.
    u32 high = m * (n >> 13);
    u32 low = m * (n & 0x1FFFu);
    u32 shortened = (high << 9) + (low >> 4);
    u32 lost = shortened < 0x08000000u ? 0u : 4u;
    u32 y = lost == 0u ? (high << 13) + low : shortened | ((low | (low >> 1)) & 7u);
    e = (e != 0u ? e : 1u) + odd + lost;
    u32 bits = kq_f32_round_normal(e + 126u + 30u - 25u, y);
    bits = y == 0u ? 0u : bits;

    u32 magnitude = h & 0x7FFFu;
    bits = magnitude == 0x7C00u ? KQ_F32_INF : bits;
    u32 is_nan = magnitude > 0x7C00u || (magnitude == 0x7C00u && y == 0u) ? 1u : 0u;
    return is_nan != 0u ? KQ_F32_NAN : bits | (((h << 16) ^ x) & KQ_F32_SIGN);
}

// The value of an IEEE binary16 in the low 16 bits of h, exact.
KQ_FN u32 kq_f16_to_f32(KQ_IN u32 h)
{
    return kq_f16_mul_i25(h, 1u);
}

// x is two's complement.
KQ_FN u32 kq_i32_to_f32(KQ_IN u32 x)
{
    u32 sign = x & KQ_F32_SIGN;
    u32 magnitude = sign != 0u ? 0u - x : x;
    u32 zeros = kq_clz(magnitude);
    u32 e = KQ_EXPONENT_EXTRA + 127u + 30u - zeros;
    u32 y = kq_shift_sticky(magnitude << (zeros & 31u), 2u);
    u32 bits = sign | kq_f32_round(e, y);
    return x == 0u ? 0u : bits;
}

// a * b. Of b, x is the significand and e the exponent.
KQ_FN u32 kq_f32_product(KQ_IN u32 a, KQ_IN u32 b, KQ_IN u32 x, KQ_IN u32 e)
{
    // Byte by byte of y. What stays behind of a step, its low byte, counts only as 0 or not.
    u32 y = kq_f32_significand(a);
    u32 low = x * (y & 255u);
    u32 middle = x * ((y >> 8) & 255u) + (low >> 8);
    u32 high = x * (y >> 16) + (middle >> 8);
    u32 lost = low | middle | (high << 6);
    u32 product = (high >> 2) | ((lost | (lost >> 4)) & 15u);

    u32 aa = a & 0x7FFFFFFFu;
    u32 bb = b & 0x7FFFFFFFu;
    u32 most = aa > bb ? aa : bb;
    u32 least = aa > bb ? bb : aa;
    u32 bits = kq_f32_round(kq_f32_exponent(a) + e, product);
    bits = least == 0u ? 0u : bits;
    bits = most == KQ_F32_INF ? KQ_F32_INF : bits;
    u32 is_nan = most > KQ_F32_INF || (most == KQ_F32_INF && least == 0u) ? 1u : 0u;
    return is_nan != 0u ? KQ_F32_NAN : bits | ((a ^ b) & KQ_F32_SIGN);
}

KQ_FN u32 kq_f32_mul(KQ_IN u32 a, KQ_IN u32 b)
{
    u32 e = kq_f32_exponent(a) - (KQ_EXPONENT_EXTRA + 127u);
    return kq_f32_product(b, a, kq_f32_significand(a), e);
}

// The same in fewer steps, for a b that is no subnormal.
KQ_FN u32 kq_f32_mul_normal(KQ_IN u32 a, KQ_IN u32 b)
{
    return kq_f32_product(a, b, (b & 0x7FFFFFu) | 0x800000u, ((b >> 23) & 255u) - 127u);
}

KQ_FN u32 kq_f32_add(KQ_IN u32 a, KQ_IN u32 b)
{
    u32 aa = a & 0x7FFFFFFFu;
    u32 bb = b & 0x7FFFFFFFu;
    u32 most = aa > bb ? aa : bb;
    u32 least = aa > bb ? bb : aa;
    u32 top = aa > bb ? a : b;
    // Significands end at bit 29: one bit of room above, six guard bits below.
    u32 x = kq_f32_stored(most) << 6;
    u32 y = kq_f32_stored(least) << 6;
    u32 e = kq_f32_power(most);
    u32 apart = e - kq_f32_power(least);
    y = kq_shift_sticky(y, apart < 31u ? apart : 31u);
    u32 differ = (a ^ b) & KQ_F32_SIGN;
    u32 sum = differ != 0u ? x - y : x + y;
    // To bit 30, but not past the least exponent: a sum that stays below, a subnormal, is exact.
    u32 up = kq_clz(sum) - 1u;
    up = up < e ? up : e;
    sum = sum << up;
    u32 bits = ((e - up) << 23) + ((sum + 63u + ((sum >> 7) & 1u)) >> 7);
    bits = (top & KQ_F32_SIGN) | (bits < KQ_F32_INF ? bits : KQ_F32_INF);
    bits = differ != 0u && sum == 0u ? 0u : bits;
    bits = most == KQ_F32_INF ? top : bits;
    return most > KQ_F32_INF || (least == KQ_F32_INF && differ != 0u) ? KQ_F32_NAN : bits;
}

KQ_FN u32 kq_f32_sub(KQ_IN u32 a, KQ_IN u32 b)
{
    return kq_f32_add(a, b ^ KQ_F32_SIGN);
}

KQ_FN u32 kq_f32_div(KQ_IN u32 a, KQ_IN u32 b)
{
    // Long division, one bit a step: 27 bits are 24, a rounding bit and one for a quotient below 1,
    // and one more; what remains is sticky.
    u32 remainder = kq_f32_significand(a);
    u32 divisor = kq_f32_significand(b);
    u32 quotient = 0u;
    for (KQ_COUNTER i = 0u; i < 27u; i++) {
        u32 bit = remainder >= divisor ? 1u : 0u;
        remainder = (remainder - (bit != 0u ? divisor : 0u)) << 1;
        quotient = (quotient << 1) | bit;
    }
    quotient = (quotient << 3) | (remainder != 0u ? 1u : 0u);
    u32 e = kq_f32_exponent(a) + KQ_EXPONENT_EXTRA + 126u - kq_f32_exponent(b);

    u32 sign = (a ^ b) & KQ_F32_SIGN;
    u32 aa = a & 0x7FFFFFFFu;
    u32 bb = b & 0x7FFFFFFFu;
    u32 bits = sign | kq_f32_round(e, quotient);
    bits = aa == 0u || bb == KQ_F32_INF ? sign : bits;
    bits = bb == 0u || aa == KQ_F32_INF ? sign | KQ_F32_INF : bits;
    u32 is_nan = aa > KQ_F32_INF || bb > KQ_F32_INF ? 1u : 0u;
    is_nan = aa == bb && (aa == 0u || aa == KQ_F32_INF) ? 1u : is_nan;
    return is_nan != 0u ? KQ_F32_NAN : bits;
}

// a rounded to an integer and saturated to [-128, 127], as two's complement; 0 for NaN.
KQ_FN u32 kq_f32_to_i8(KQ_IN u32 a)
{
    u32 e = (a >> 23) & 255u;
    u32 m = (a & 0x7FFFFFu) | 0x800000u;
    // Below 2^-1 a shift by 25 rounds to 0 like any larger one; from 2^8 on only saturation counts.
    u32 shift = e < 125u ? 25u : (e < 135u ? 150u - e : 16u);
    u32 half_unit = 1u;
    half_unit = half_unit << (shift - 1u);
    u32 q = (m + (half_unit - 1u) + ((m >> shift) & 1u)) >> shift;
    u32 negative = a >> 31;
    u32 limit = 127u + negative;
    q = e < 135u && q < limit ? q : limit;
    q = negative != 0u ? 0u - q : q;
    return (a & 0x7FFFFFFFu) > KQ_F32_INF ? 0u : q;
}

#endif
