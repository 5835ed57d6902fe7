// What the kernels for CPUs share. There a work item is one thread's, and takes sixteen dots at
// once with the vectors of the processor. So a u32 of exact.h and records.h, which have no branch,
// is sixteen of them here.
#include "prelude.cl"
#include "params.h"

#define KQ_COUNTER uint
// Nothing here is called from elsewhere, so how vectors are passed is no matter.
#pragma clang diagnostic ignored "-Wpsabi"

#undef KQ_FN
#define KQ_FN static inline __attribute__((always_inline))

// 32 bytes of eight words, and what a record is read by, at any byte.
typedef char char32 __attribute__((vector_size(32)));
typedef uchar uchar32 __attribute__((ext_vector_type(32)));
typedef uint8 any_uint8 __attribute__((aligned(1)));
typedef uint4 any_uint4 __attribute__((aligned(1)));
typedef uint any_uint __attribute__((aligned(1)));

#ifdef __AVX2__
// Byte i of the result is byte index[i] & 15 of words, of its half of them; 0 where bit 7 of
// index[i] is set.
KQ_FN uint8 pick_bytes(uint8 words, uint8 index)
{
    return __builtin_astype(__builtin_ia32_pshufb256(__builtin_astype(words, char32),
                                                     __builtin_astype(index, char32)),
                            uint8);
}

// The larger of each two bytes.
KQ_FN uint8 larger_bytes(uint8 a, uint8 b)
{
    uchar32 x = __builtin_astype(a, uchar32);
    uchar32 y = __builtin_astype(b, uchar32);
    return __builtin_astype(x > y ? x : y, uint8);
}

// The bits of a word, up to its highest one, by tables of nibbles: 0xE0 more for each byte that is
// not 0, of which its place is then taken off.
KQ_FN uint8 count_bits(uint8 x)
{
    const uint4 low = (uint4)(0xE2E2E100u, 0xE3E3E3E3u, 0xE4E4E4E4u, 0xE4E4E4E4u);
    const uint4 high = (uint4)(0xE6E6E500u, 0xE7E7E7E7u, 0xE8E8E8E8u, 0xE8E8E8E8u);
    const uint8 place = 0xC8D0D8E0u;
    uint8 bits = larger_bytes(pick_bytes((uint8)(low, low), x & 0x0F0F0F0Fu),
                              pick_bytes((uint8)(high, high), (x >> 4) & 0x0F0F0F0Fu));
    bits = __builtin_astype(__builtin_astype(larger_bytes(bits, place), uchar32) -
                                __builtin_astype(place, uchar32),
                            uint8);
    bits = larger_bytes(bits, bits >> 16);
    return larger_bytes(bits, bits >> 8) & 255u;
}

# define KQ_HAS_CLZ
KQ_FN uint16 kq_clz(uint16 x)
{
    return 32u - (uint16)(count_bits(x.lo), count_bits(x.hi));
}
#endif

#define u32 uint16
#include "exact.h"
#include "records.h"
#undef u32

KQ_FN bool is_any(int16 truth)
{
    int8 a = truth.lo | truth.hi;
    int4 b = a.lo | a.hi;
    int2 c = b.lo | b.hi;
    return (c.x | c.y) != 0;
}

KQ_FN int8 add_pairs(int8 a, int8 b)
{
    return (int8)(a.s02, b.s02, a.s46, b.s46) + (int8)(a.s13, b.s13, a.s57, b.s57);
}

// The sums of 8 vectors, each of all its lanes.
KQ_FN uint8 add_lanes(const int8 *v)
{
    int8 low = add_pairs(add_pairs(v[0], v[1]), add_pairs(v[2], v[3]));
    int8 high = add_pairs(add_pairs(v[4], v[5]), add_pairs(v[6], v[7]));
    return as_uint8((int8)(low.lo, high.lo) + (int8)(low.hi, high.hi));
}

KQ_FN uint16 add_all_lanes(const int8 *v)
{
    return (uint16)(add_lanes(v), add_lanes(v + 8));
}
