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
KQ_FN int8 multiply_halves(short16 a, short16 b)
{
#ifdef __AVX2__
    typedef short short32 __attribute__((vector_size(32)));
    return __builtin_astype(__builtin_ia32_pmaddwd256(__builtin_astype(a, short32),
                                                      __builtin_astype(b, short32)),
                            int8);
#else
    return convert_int8(a.even) * convert_int8(b.even) + convert_int8(a.odd) * convert_int8(b.odd);
#endif
}

// The 6-bit fields of a record, 16 bytes, of which sc comes first, twice.
// Field s in every half.
KQ_FN short16 spread_field(uint8 fields, uint s)
{
#ifdef __AVX2__
    return as_short16(pick_bytes(fields, (uint8)(s * 0x10001u + 0x80008000u)));
#else
    return (short16)((short)as_uchar16(fields.lo)[s]);
#endif
}

// Each of the fields m in two halves.
KQ_FN short16 spread_m(uint8 fields)
{
#ifdef __AVX2__
    const uint8 twice = (uint8)(0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u) * 0x10001u;
    return as_short16(pick_bytes(fields, twice + 0x80088008u));
#else
    short8 m = convert_short8(as_uchar16(fields.lo).hi);
    short16 twice;
    twice.even = m;
    twice.odd = m;
    return twice;
#endif
}

// Of 16 records a word each in a; or of records 0 to 3 four words, and behind them those of 4 to 7,
// 8 to 11 and 12 to 15 in b, c and d. Either becomes the other.
typedef struct words {
    uint16 a, b, c, d;
} words;

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

// Two sub-blocks of S, lanes of which are yet to be added, by the lanes of rhs that meet the low
// codes and the high ones.
KQ_FN int8 two_sub_blocks(uint8 codes, uint8 low, uint8 high, uint8 fields, uint j)
{
    short16 a = multiply_bytes(codes & 0x0F0F0F0Fu, low);
    short16 b = multiply_bytes((codes >> 4) & 0x0F0F0F0Fu, high);
    return multiply_halves(a, spread_field(fields, 2u * j)) +
           multiply_halves(b, spread_field(fields, 2u * j + 1u));
}

// The first words of 16 records of lhs, which d and dmin fill, and their fields: 4 words each.
typedef struct heads {
    uint16 d_dmin;
    uint fields[64];
} heads;

KQ_FN uint16 four_heads(global const uchar *lhs, const uint *at)
{
    return (uint16)(load16(lhs + at[0]), load16(lhs + at[4]), load16(lhs + at[8]),
                    load16(lhs + at[12]));
}

KQ_FN void unpack_heads(global const uchar *lhs, const uint *at, heads *h)
{
    words head = { four_heads(lhs, at), four_heads(lhs, at + 1), four_heads(lhs, at + 2),
                   four_heads(lhs, at + 3) };
    head = transpose(head);
    words fields = { kq_q4_k_fields_low(head.b), kq_q4_k_fields_high(head.b, head.d),
                     kq_q4_k_fields_low(head.c), kq_q4_k_fields_high(head.c, head.d >> 4) };
    fields = transpose(fields);
    h->d_dmin = head.a;
    vstore16(fields.a, 0, h->fields);
    vstore16(fields.b, 1, h->fields);
    vstore16(fields.c, 2, h->fields);
    vstore16(fields.d, 3, h->fields);
}

// The fields of record i, twice.
KQ_FN uint8 fields_of(const heads *h, uint i)
{
    uint4 fields = vload4(i % 4u * 4u + i / 4u, h->fields);
    return (uint8)(fields, fields);
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
    scaled p = multiply_half(d_dmin, as_int16(s), abs(as_int16(s)));
    scaled n = multiply_half(d_dmin >> 16, as_int16(t), abs(as_int16(t)));
    int16 e = max(p.e, n.e);
    int16 apart = min(e - min(p.e, n.e), 31);
    int16 most = n.e > p.e ? -n.y : p.y;
    int16 least = n.e > p.e ? p.y : -n.y;
    int16 shifted = least >> apart;
    int16 sum = most + (shifted | (shifted << apart != least ? (int16)1 : (int16)0));
    uint16 y = abs(sum);
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
                   (abs(as_int16(s)) | abs(as_int16(t))) >= 1u << 24 ||
                   ((ds >> 23) & 255u) - 80u >= 100u;
    return is_any(is_odd) ? kq_v(d_dmin, s, t, ds) : ordinary_v(d_dmin, s, t, ds);
}

// A record of rhs where vectors of it lie in one piece.
typedef struct ready {
    uint8 lanes[8];
    uint8 sums;
    uint ds;
} ready;

KQ_FN void make_ready(global const uchar *rhs, ready *x)
{
    x->ds = load4(rhs);
    for (uint i = 0u; i < 8u; i++) {
        x->lanes[i] = load32(rhs + 4u + 32u * i);
    }
    x->sums = load32(rhs + 260u);
}

// The terms of sixteen records and those of each column.
KQ_FN void columns_of_terms(global const uchar *lhs, const uint *lhs_at, const ready *x,
                            uint columns, uint16 *v)
{
    heads head;
    unpack_heads(lhs, lhs_at, &head);
    int8 s[KQ_COLUMNS][KQ_CPU_LANES];
    int8 t[KQ_COLUMNS][KQ_CPU_LANES];
    for (uint i = 0u; i < KQ_CPU_LANES; i++) {
        global const uchar *codes = lhs + lhs_at[i] + 16u;
        uint8 fields = fields_of(&head, i);
        for (uint c = 0u; c < columns; c++) {
            const uint8 *lanes = x[c].lanes;
            s[c][i] = two_sub_blocks(load32(codes), lanes[0], lanes[1], fields, 0u) +
                      two_sub_blocks(load32(codes + 32u), lanes[2], lanes[3], fields, 1u) +
                      two_sub_blocks(load32(codes + 64u), lanes[4], lanes[5], fields, 2u) +
                      two_sub_blocks(load32(codes + 96u), lanes[6], lanes[7], fields, 3u);
            t[c][i] = multiply_halves(spread_m(fields), as_short16(x[c].sums));
        }
    }
    for (uint c = 0u; c < columns; c++) {
        v[c] = term(head.d_dmin, add_all_lanes(s[c]), add_all_lanes(t[c]), x[c].ds);
    }
}

// The terms of sixteen pairs of records.
KQ_FN uint16 terms_of_pairs(global const uchar *lhs, const uint *lhs_at, global const uchar *rhs,
                            const uint *rhs_at)
{
    heads head;
    unpack_heads(lhs, lhs_at, &head);
    int8 s[KQ_CPU_LANES];
    int8 t[KQ_CPU_LANES];
    uint ds[KQ_CPU_LANES];
    for (uint i = 0u; i < KQ_CPU_LANES; i++) {
        global const uchar *codes = lhs + lhs_at[i] + 16u;
        global const uchar *lanes = rhs + rhs_at[i] + 4u;
        uint8 fields = fields_of(&head, i);
        s[i] = two_sub_blocks(load32(codes), load32(lanes), load32(lanes + 32u), fields, 0u) +
               two_sub_blocks(load32(codes + 32u), load32(lanes + 64u), load32(lanes + 96u), fields,
                              1u) +
               two_sub_blocks(load32(codes + 64u), load32(lanes + 128u), load32(lanes + 160u),
                              fields, 2u) +
               two_sub_blocks(load32(codes + 96u), load32(lanes + 192u), load32(lanes + 224u),
                              fields, 3u);
        t[i] = multiply_halves(spread_m(fields), as_short16(load32(lanes + 256u)));
        ds[i] = load4(lanes - 4u);
    }
    return term(head.d_dmin, add_all_lanes(s), add_all_lanes(t), vload16(0, ds));
}
