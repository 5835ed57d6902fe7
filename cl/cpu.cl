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

// Where those have it, 64 bytes of sixteen words.
#if defined(__AVX512BW__) && defined(__AVX512CD__)
# define KQ_HAS_512_BITS
typedef char chars __attribute__((vector_size(64)));
typedef short shorts __attribute__((vector_size(64)));
typedef int ints __attribute__((vector_size(64)));
#endif

#ifdef __AVX2__
// Byte i of the result is byte index[i] & 15 of words, of its half of them; 0 where bit 7 of
// index[i] is set.
KQ_FN uint8 pick_bytes(uint8 words, uint8 index)
{
    return __builtin_astype(__builtin_ia32_pshufb256(__builtin_astype(words, char32),
                                                     __builtin_astype(index, char32)),
                            uint8);
}
#endif

#ifdef KQ_HAS_512_BITS
# define KQ_HAS_CLZ
KQ_FN uint16 kq_clz(uint16 x)
{
    return __builtin_astype(__builtin_ia32_vplzcntd_512(__builtin_astype(x, ints)), uint16);
}
#elif defined __AVX2__
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

// abs, of which compilers make code for four lanes.
KQ_FN uint16 magnitude(uint16 x)
{
    uint16 sign = as_uint16(as_int16(x) >> 31);
    return (x ^ sign) - sign;
}

KQ_FN uint16 low_pairs(uint16 a, uint16 b)
{
    return (uint16)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5, a.s8, b.s8, a.s9, b.s9, a.sC,
                    b.sC, a.sD, b.sD);
}

KQ_FN uint16 high_pairs(uint16 a, uint16 b)
{
    return (uint16)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7, a.sA, b.sA, a.sB, b.sB, a.sE,
                    b.sE, a.sF, b.sF);
}

KQ_FN uint16 low_halves(uint16 a, uint16 b)
{
    return (uint16)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.sCD, b.sCD);
}

KQ_FN uint16 high_halves(uint16 a, uint16 b)
{
    return (uint16)(a.s23, b.s23, a.s67, b.s67, a.sAB, b.sAB, a.sEF, b.sEF);
}

KQ_FN uint16 add_halves(uint16 a, uint16 b)
{
    return (uint16)(a.lo, b.lo) + (uint16)(a.hi, b.hi);
}

// The sums of eight lanes each of a.lo, a.hi, b.lo and b.hi, in four lanes each.
KQ_FN uint16 add_quarters(uint16 a, uint16 b)
{
    return (uint16)(a.s0123, a.s89AB, b.s0123, b.s89AB) +
           (uint16)(a.s4567, a.sCDEF, b.s4567, b.sCDEF);
}

KQ_FN uint16 add_pairs(uint16 a, uint16 b)
{
    return low_pairs(a, b) + high_pairs(a, b);
}

// The sums of sixteen vectors, each of all its lanes.
KQ_FN uint16 add_lanes(const uint16 *v)
{
    uint16 sum[4];
    for (uint i = 0u; i < 4u; i++) {
        sum[i] = add_quarters(add_halves(v[i], v[i + 4u]), add_halves(v[i + 8u], v[i + 12u]));
    }
    uint16 a = add_pairs(sum[0], sum[1]);
    uint16 b = add_pairs(sum[2], sum[3]);
    return low_halves(a, b) + high_halves(a, b);
}
