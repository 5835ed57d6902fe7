// How CPUs quantize: the codes of sixteen values at once.
#include "cpu.cl"

typedef uint16 any_uint16 __attribute__((aligned(1)));
typedef char16 any_char16 __attribute__((aligned(1)));
typedef short16 any_short16 __attribute__((aligned(1)));

// Sixteen values, `stride` bytes apart.
KQ_FN uint16 load_values(global const uchar *at, uint stride)
{
    if (stride == 4u) {
        return *(global const any_uint16 *)at;
    }
    uint value[16];
    for (uint i = 0u; i < 16u; i++) {
        value[i] = *(global const any_uint *)(at + i * stride);
    }
    return vload16(0, value);
}

KQ_FN uint largest_lane(uint16 x)
{
    uint8 a = max(x.lo, x.hi);
    uint4 b = max(a.lo, a.hi);
    uint2 c = max(b.lo, b.hi);
    return max(c.x, c.y);
}

// The largest kq_extreme_key of a block: as integers, the largest is the largest positive value,
// and as unsigned ones the largest negative.
KQ_FN uint block_key(global const uchar *at, uint stride)
{
    int16 positive = INT_MIN;
    uint16 negative = 0u;
    for (uint k = 0u; k < 16u; k++) {
        uint16 value = load_values(at + 16u * k * stride, stride);
        positive = max(positive, as_int16(value));
        negative = max(negative, value);
    }
    return largest_lane(max(kq_extreme_key(as_uint16(positive)), kq_extreme_key(negative)));
}

// The high words of products: mul_hi, of which compilers make scalar code.
KQ_FN uint8 multiply_high(uint8 a, uint b)
{
    ulong4 even = (as_ulong4(a) & 0xFFFFFFFFul) * b;
    ulong4 odd = (as_ulong4(a) >> 32) * b;
    return as_uint8((even >> 32) | (odd & 0xFFFFFFFF00000000ul));
}

// What the codes of a block are made with.
typedef struct scale {
    uint inverse;
    uint exponent;  // the extreme's
    uint factor;    // inverse's significand: a product with a value's has 23 bits behind the point
} scale;

KQ_FN scale make_scale(uint key, uint inverse)
{
    uint exponent = key >> 24;
    // 127 over a significand is 64 to 127, or 63.5 and more, and then an exponent less.
    uint shift = exponent + ((inverse >> 23) & 255u) - 252u;
    uint significand = (inverse & 0x7FFFFFu) | 0x800000u;
    scale s = { inverse, exponent, inverse != 0u ? significand << (shift & 31u) : 0u };
    return s;
}

// The codes of sixteen values, in integers. *least falls below 128 where a product, which is cut
// off, comes to lie so near to a half that rounding it to an f32 first might matter.
KQ_FN int16 codes_of(uint16 value, scale s, uint16 *least)
{
    uint16 apart = min(s.exponent - ((value >> 23) & 255u), 31u);
    uint16 y = (((value & 0x7FFFFFu) | 0x800000u) << 7) >> apart;
    uint16 product = (uint16)(multiply_high(y.lo, s.factor), multiply_high(y.hi, s.factor));
    product += 1u << 22;
    *least = min(*least, (product + 64u) & 0x7FFFFFu);
    int16 sign = as_int16(value ^ s.inverse) >> 31;
    return (as_int16(product >> 23) ^ sign) - sign;
}

// The codes and sums of a block: those of kq_code, which does it itself where the others may be
// wrong or values subnormal.
KQ_FN void quantize_block(global const uchar *at, uint stride, scale s, global uchar *record)
{
    uint16 sums[16];
    uint16 least = 128u;
    for (uint k = 0u; k < 16u; k++) {
        int16 codes = codes_of(load_values(at + 16u * k * stride, stride), s, &least);
        *(global any_char16 *)(record + 4u + 16u * k) = convert_char16(codes);
        sums[k] = as_uint16(codes);
    }
    for (uint k = 0u; k < 16u && (s.exponent < 32u || is_any(least < 128u)); k++) {
        uint16 value = load_values(at + 16u * k * stride, stride);
        int16 codes = as_int16(kq_code(value, s.inverse) << 24) >> 24;
        *(global any_char16 *)(record + 4u + 16u * k) = convert_char16(codes);
        sums[k] = as_uint16(codes);
    }
    *(global any_short16 *)(record + 260u) = convert_short16(as_int16(add_lanes(sums)));
}
