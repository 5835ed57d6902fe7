// What the kernels of terms for CPUs share: the integers of sixteen pairs of records, and their
// terms.
#include "cpu.cl"

// 32 unsigned bytes by 32 signed ones, in sums of two; codes are below 16.
KQ_FN short16 multiply_bytes(uint8 codes, uint8 lanes)
{
#ifdef __AVX2__
    return __builtin_astype(__builtin_ia32_pmaddubsw256(__builtin_astype(codes, char32),
                                                        __builtin_astype(lanes, char32)),
                            short16);
#else
    short16 a = as_short16(codes);
    short16 b = as_short16(lanes);
    return (a & (short)255) * ((b << (short)8) >> (short)8) + (a >> (short)8) * (b >> (short)8);
#endif
}

// 16 signed halves by 16, in sums of two.
KQ_FN uint8 multiply_halves(short16 a, uint8 words)
{
#ifdef __AVX2__
    typedef short short32 __attribute__((vector_size(32)));
    return __builtin_astype(__builtin_ia32_pmaddwd256(__builtin_astype(a, short32),
                                                      __builtin_astype(words, short32)),
                            uint8);
#else
    short16 b = as_short16(words);
    return as_uint8(convert_int8(a.even) * convert_int8(b.even) +
                    convert_int8(a.odd) * convert_int8(b.odd));
#endif
}

// 64 unsigned bytes by 64 signed ones, in sums of two, and those by 32 halves, in sums of two
// again.
KQ_FN uint16 multiply_twice(uint16 codes, uint16 lanes, uint16 halves)
{
#ifdef KQ_HAS_512_BITS
    return __builtin_astype(
        __builtin_ia32_pmaddwd512(__builtin_ia32_pmaddubsw512(__builtin_astype(codes, chars),
                                                              __builtin_astype(lanes, chars)),
                                  __builtin_astype(halves, shorts)),
        uint16);
#else
    return (uint16)(multiply_halves(multiply_bytes(codes.lo, lanes.lo), halves.lo),
                    multiply_halves(multiply_bytes(codes.hi, lanes.hi), halves.hi));
#endif
}

// 32 signed halves by 32, in sums of two.
KQ_FN uint16 multiply_all_halves(uint16 a, uint16 b)
{
#ifdef KQ_HAS_512_BITS
    return __builtin_astype(__builtin_ia32_pmaddwd512(__builtin_astype(a, shorts),
                                                      __builtin_astype(b, shorts)),
                            uint16);
#else
    return (uint16)(multiply_halves(as_short16(a.lo), b.lo),
                    multiply_halves(as_short16(a.hi), b.hi));
#endif
}

// Field s, a byte, in each of the first sixteen halves, and field s + 2 in the others.
KQ_FN uint16 spread_fields(uint2 fields, uint s)
{
#ifdef __AVX2__
    const uint8 low = s * 0x10001u + 0x80008000u;
    const uint8 high = low + 0x20002u;
#endif
#ifdef KQ_HAS_512_BITS
    uint16 words = (uint16)(fields, fields, fields, fields, fields, fields, fields, fields);
    return __builtin_astype(
        __builtin_ia32_pshufb512(__builtin_astype(words, chars),
                                 __builtin_astype((uint16)(low, high), chars)),
        uint16);
#elif defined __AVX2__
    uint8 words = (uint8)(fields, fields, fields, fields);
    return (uint16)(pick_bytes(words, low), pick_bytes(words, high));
#else
    uint word = (s < 4u ? fields.x : fields.y) >> (8u * (s & 3u));
    return (uint16)(as_uint8((short16)(short)(word & 255u)),
                    as_uint8((short16)(short)(word >> 16 & 255u)));
#endif
}

// Of 16 records a word each in a; or of records 0 to 3 four words, and behind them those of 4 to 7,
// 8 to 11 and 12 to 15 in b, c and d. Either becomes the other.
typedef struct words {
    uint16 a, b, c, d;
} words;

KQ_FN words transpose(words r)
{
    uint16 ab = low_pairs(r.a, r.b);
    uint16 cd = low_pairs(r.c, r.d);
    uint16 ab_high = high_pairs(r.a, r.b);
    uint16 cd_high = high_pairs(r.c, r.d);
    words w = { low_halves(ab, cd), high_halves(ab, cd), low_halves(ab_high, cd_high),
                high_halves(ab_high, cd_high) };
    return w;
}

KQ_FN uint8 load32(global const uchar *at)
{
    return *(global const any_uint8 *)at;
}

KQ_FN uint4 load16(global const uchar *at)
{
    return *(global const any_uint4 *)at;
}

KQ_FN uint load4(global const uchar *at)
{
    return *(global const any_uint *)at;
}

// Four sub-blocks of S, lanes of which are yet to be added, by the lanes of rhs that meet the low
// codes and the high ones.
KQ_FN uint16 four_sub_blocks(uint16 codes, uint16 low, uint16 high, uint2 sc, uint j)
{
    return multiply_twice(codes & 0x0F0F0F0Fu, low, spread_fields(sc, 4u * j)) +
           multiply_twice((codes >> 4) & 0x0F0F0F0Fu, high, spread_fields(sc, 4u * j + 1u));
}

// The first words of 16 records of lhs, which d and dmin fill, the fields m, and the fields sc of
// each record in two words.
typedef struct heads {
    uint16 d_dmin;
    uint16 m_low, m_high;
    uint sc[32];
} heads;

KQ_FN uint16 four_of(global const uchar *records, const uint *at)
{
    return (uint16)(load16(records + at[0]), load16(records + at[4]), load16(records + at[8]),
                    load16(records + at[12]));
}

// Four words of each of 16 records.
KQ_FN words words_of(global const uchar *records, const uint *at)
{
    words four = { four_of(records, at), four_of(records, at + 1), four_of(records, at + 2),
                   four_of(records, at + 3) };
    return transpose(four);
}

KQ_FN void unpack_heads(global const uchar *lhs, const uint *at, heads *h)
{
    words head = words_of(lhs, at);
    uint16 low = kq_q4_k_fields_low(head.b);
    uint16 high = kq_q4_k_fields_high(head.b, head.d);
    h->d_dmin = head.a;
    h->m_low = kq_q4_k_fields_low(head.c);
    h->m_high = kq_q4_k_fields_high(head.c, head.d >> 4);
    vstore16(low_pairs(low, high), 0, h->sc);
    vstore16(high_pairs(low, high), 1, h->sc);
}

// The fields sc of record i.
KQ_FN uint2 sc_of(const heads *h, uint i)
{
    return vload2(i / 4u * 2u + i / 2u % 2u * 8u + i % 2u, h->sc);
}

// Where the records of sixteen dots start, `step` apart from `first` on; past the last one, that
// again.
KQ_FN void places(uint offset, uint step, uint first, uint count, uint *at)
{
    for (uint i = 0u; i < KQ_CPU_LANES; i++) {
        at[i] = offset + min(first + i, count - 1u) * step;
    }
}

// The first `count` of sixteen values, or all.
KQ_FN void store_some(uint16 v, uint count, global uint *to)
{
    if (count >= KQ_CPU_LANES) {
        vstore16(v, 0, to);
        return;
    }
    uint each[16];
    vstore16(v, 0, each);
    for (uint i = 0u; i < count; i++) {
        to[i] = each[i];
    }
}

// Sixteen numbers y * 2^e.
typedef struct scaled {
    int16 y;
    int16 e;
} scaled;

// The f16 in the low half of h times x, rounded to 24 bits: 2^82 times that. Bit 28 or 29 is the
// top one of y; a zero has an e below all others. h is finite, and x, of this magnitude, below
// 2^24.
KQ_FN scaled multiply_half(uint16 h, int16 x, uint16 magnitude)
{
    uint16 e = (h >> 10) & 31u;
    uint16 normal = min(e, 1u);
    uint16 m = (h & 0x3FFu) | (normal << 10);
    // 11 x 24 bits: the product is high * 2^12 + low. From 2^30 on it is short of five bits, which
    // leave a mark below where it is rounded.
    uint16 low = m * (magnitude & 0xFFFu);
    uint16 high = m * (magnitude >> 12) + (low >> 12);
    low = low & 0xFFFu;
    uint16 is_long = high >= 1u << 18 ? (uint16)5u : (uint16)0u;
    uint16 y = is_long != 0u ? (high << 7) | (low >> 5) | min(low & 31u, 1u) : (high << 12) | low;
    uint16 bits = 32u - kq_clz(y);
    e = e - normal + is_long + bits + (y != 0u ? (uint16)64u : (uint16)0u);
    y = y << ((30u - bits) & 31u);
    y = (y + 31u + ((y >> 6) & 1u)) >> 6 << 5;
    int16 sign = (as_int16(h << 16) ^ x) >> 31;
    scaled product = { (as_int16(y) ^ sign) - sign, as_int16(e) };
    return product;
}

// kq_v where d and dmin are finite, |S| and |T| below 2^24 and ds far from both ends of the
// normals: without what that leaves out, and without making f32s to take them apart again, it takes
// half as long.
KQ_FN uint16 ordinary_v(uint16 d_dmin, uint16 s, uint16 t, uint16 ds)
{
    scaled p = multiply_half(d_dmin, as_int16(s), magnitude(s));
    scaled n = multiply_half(d_dmin >> 16, as_int16(t), magnitude(t));
    int16 e = max(p.e, n.e);
    int16 apart = min(e - min(p.e, n.e), 31);
    int16 most = n.e > p.e ? -n.y : p.y;
    int16 least = n.e > p.e ? p.y : -n.y;
    int16 shifted = least >> apart;
    int16 sum = most + (shifted | (shifted << apart != least ? (int16)1 : (int16)0));
    uint16 y = magnitude(as_uint16(sum));
    uint16 bits = 32u - kq_clz(y);
    y = y << ((31u - bits) & 31u);
    y = (y + 63u + ((y >> 7) & 1u)) >> 7;

    // 24 x 24 bits, byte by byte.
    uint16 x = (ds & 0x7FFFFFu) | 0x800000u;
    uint16 low = x * (y & 255u);
    uint16 middle = x * ((y >> 8) & 255u) + (low >> 8);
    uint16 high = x * (y >> 16) + (middle >> 8);
    y = (high >> 1) | min((high & 1u) | ((middle | low) & 255u), 1u);
    uint16 is_short = y < 1u << 30 ? (uint16)1u : (uint16)0u;
    y = y << is_short;
    y = (y + 63u + ((y >> 7) & 1u)) >> 7;
    uint16 v = ((as_uint16(e) + bits + ((ds >> 23) & 255u) - is_short - 118u) << 23) + y;

    // 0 - 0 is -0 where p is that and n is not.
    uint16 sign_of_zero = (d_dmin << 16 ^ s) & ~(d_dmin ^ t);
    uint16 sign = (sum == 0 ? sign_of_zero : as_uint16(sum)) ^ ds;
    return (sum == 0 ? (uint16)0u : v) | (sign & KQ_F32_SIGN);
}

KQ_FN uint16 term(uint16 d_dmin, uint16 s, uint16 t, uint16 ds)
{
    uint16 halves = d_dmin & 0x7C007C00u;
    int16 is_odd = (halves & 0x7C00u) == 0x7C00u || halves >= 0x7C000000u ||
                   (magnitude(s) | magnitude(t)) >= 1u << 24 ||
                   ((ds >> 23) & 255u) - 80u >= 100u;
    return is_any(is_odd) ? kq_v(d_dmin, s, t, ds) : ordinary_v(d_dmin, s, t, ds);
}

// A record of rhs where vectors of it lie in one piece.
typedef struct ready {
    uint16 low[2], high[2];
    uint sums[8];
    uint ds;
} ready;

// The low halves of words a and b, or their high ones.
#define KQ_LOW_HALVES(a, b)  (((a)&0xFFFFu) | ((b) << 16))
#define KQ_HIGH_HALVES(a, b) (((a) >> 16) | ((b)&0xFFFF0000u))

// The lanes that meet the low codes of 64 bytes, or the high ones, 32 bytes on.
KQ_FN uint16 load_lanes(global const uchar *at)
{
    return (uint16)(load32(at), load32(at + 64u));
}

KQ_FN void make_ready(global const uchar *rhs, ready *x)
{
    x->ds = load4(rhs);
    for (uint j = 0u; j < 2u; j++) {
        x->low[j] = load_lanes(rhs + 4u + 128u * j);
        x->high[j] = load_lanes(rhs + 36u + 128u * j);
    }
    uint8 sums = load32(rhs + 260u);
    vstore4(KQ_LOW_HALVES(sums.s0145, sums.s2367), 0, x->sums);
    vstore4(KQ_HIGH_HALVES(sums.s0145, sums.s2367), 1, x->sums);
}

// T of sixteen records, by the pairs of bsum that go with two fields m of a word each.
KQ_FN uint16 add_sums(const heads *h, const uint16 *sums)
{
    const uint bytes = 0x00FF00FFu;
    uint16 a = h->m_low & bytes;
    uint16 b = (h->m_low >> 8) & bytes;
    uint16 c = h->m_high & bytes;
    uint16 d = (h->m_high >> 8) & bytes;
    return multiply_all_halves(a, sums[0]) + multiply_all_halves(b, sums[1]) +
           multiply_all_halves(c, sums[2]) + multiply_all_halves(d, sums[3]) +
           multiply_all_halves(a, sums[4]) + multiply_all_halves(b, sums[5]) +
           multiply_all_halves(c, sums[6]) + multiply_all_halves(d, sums[7]);
}

KQ_FN uint16 load64(global const uchar *at)
{
    return *(global const any_uint16 *)at;
}

// The next record of a row that is packed: sixteen rows are more than what processors see coming.
#ifdef __clang__
# define KQ_PREFETCH(at) __builtin_prefetch((const void *)(size_t)(at))
#else
# define KQ_PREFETCH(at)
#endif

// The terms of sixteen records and those of each column.
KQ_FN void columns_of_terms(global const uchar *lhs, const uint *lhs_at, const ready *x,
                            uint columns, uint16 *v)
{
    heads head;
    unpack_heads(lhs, lhs_at, &head);
    uint16 s[KQ_COLUMNS][KQ_CPU_LANES];
    for (uint i = 0u; i < KQ_CPU_LANES; i++) {
        global const uchar *codes = lhs + lhs_at[i] + 16u;
        uint2 sc = sc_of(&head, i);
        for (uint k = 128u; k <= 256u; k += 64u) {
            KQ_PREFETCH(codes + k);
        }
        for (uint c = 0u; c < columns; c++) {
            s[c][i] = four_sub_blocks(load64(codes), x[c].low[0], x[c].high[0], sc, 0u) +
                      four_sub_blocks(load64(codes + 64u), x[c].low[1], x[c].high[1], sc, 1u);
        }
    }
    for (uint c = 0u; c < columns; c++) {
        uint16 sums[8];
        for (uint i = 0u; i < 8u; i++) {
            sums[i] = x[c].sums[i];
        }
        v[c] = term(head.d_dmin, add_lanes(s[c]), add_sums(&head, sums), x[c].ds);
    }
}

// The terms of sixteen pairs of records.
KQ_FN uint16 terms_of_pairs(global const uchar *lhs, const uint *lhs_at, global const uchar *rhs,
                            const uint *rhs_at)
{
    heads head;
    unpack_heads(lhs, lhs_at, &head);
    uint16 s[KQ_CPU_LANES];
    uint ds[KQ_CPU_LANES];
    for (uint i = 0u; i < KQ_CPU_LANES; i++) {
        global const uchar *codes = lhs + lhs_at[i] + 16u;
        global const uchar *lanes = rhs + rhs_at[i] + 4u;
        uint2 sc = sc_of(&head, i);
        s[i] = four_sub_blocks(load64(codes), load_lanes(lanes), load_lanes(lanes + 32u), sc, 0u) +
               four_sub_blocks(load64(codes + 64u), load_lanes(lanes + 128u),
                               load_lanes(lanes + 160u), sc, 1u);
        ds[i] = load4(lanes - 4u);
    }
    words low = words_of(rhs + 260u, rhs_at);
    words high = words_of(rhs + 276u, rhs_at);
    uint16 sums[8] = { KQ_LOW_HALVES(low.a, low.c),    KQ_LOW_HALVES(low.b, low.d),
                       KQ_LOW_HALVES(high.a, high.c),  KQ_LOW_HALVES(high.b, high.d),
                       KQ_HIGH_HALVES(low.a, low.c),   KQ_HIGH_HALVES(low.b, low.d),
                       KQ_HIGH_HALVES(high.a, high.c), KQ_HIGH_HALVES(high.b, high.d) };
    return term(head.d_dmin, add_lanes(s), add_sums(&head, sums), vload16(0, ds));
}
