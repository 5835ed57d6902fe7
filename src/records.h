// Q4_K and Q8_K records: field decoding, the term of one pair of records, quantization of a block.
// In the common subset of C, GLSL and OpenCL C; include exact.h first. CONTRACT.md has the tables.
//
// A record is seen as little-endian 32-bit words: Q4_K has 36, Q8_K has 73.
//
//   Q4_K word 0: d, dmin    1..3: sc, m     4..35: q
//   Q8_K word 0: ds         1..64: q        65..72: bsum
//
// The functions that read whole records are there when the includer has defined
//
//   KQ_Q4_K, KQ_Q8_K                                 the types of a reference to a record
//   KQ_Q4_K_WORD(record, k), KQ_Q8_K_WORD(record, k) its word k
//
// so that a record may lie anywhere: in a buffer at any byte, in shared memory, in registers.
#ifndef KQ_RECORDS_H
#define KQ_RECORDS_H

// Four 6-bit fields, one a byte: field[0..3] from word 1 (sc) or 2 (m) of a Q4_K record.
KQ_FN u32 kq_q4_k_fields_low(u32 word)
{
    return word & 0x3F3F3F3Fu;
}

// field[4..7]: their low bits lie in word 3, for sc in the low nibbles, for m in the high ones, which
// the caller has shifted down.
KQ_FN u32 kq_q4_k_fields_high(u32 word, u32 word3)
{
    return (word3 & 0x0F0F0F0Fu) | ((word >> 2) & 0x30303030u);
}

// Byte i of a word, 0 to 3.
KQ_FN u32 kq_byte(u32 word, u32 i)
{
    return (word >> (8u * i)) & 255u;
}

// The sum of four products of codes (bytes 0 to 15) and i8 lanes, as two's complement. The lanes are
// biased by 128 to be unsigned; then one multiply sums two products in its high half, since
// 2 * 15 * 255 needs 13 bits.
KQ_FN u32 kq_dot4(u32 codes, u32 lanes)
{
    u32 biased = lanes ^ 0x80808080u;
    u32 x02 = biased & 0x00FF00FFu;
    u32 x13 = (biased >> 8) & 0x00FF00FFu;
    u32 even = (codes & 0x00FF00FFu) * ((x02 << 16) | (x02 >> 16));
    u32 odd = ((codes >> 8) & 0x00FF00FFu) * ((x13 << 16) | (x13 >> 16));
    return (even >> 16) + (odd >> 16) - 128u * ((codes * 0x01010101u) >> 24);
}

// The sum of the two i16 halves of a word, as two's complement.
KQ_FN u32 kq_sum_i16x2(u32 word)
{
    return ((word & 0xFFFFu) ^ 0x8000u) + ((word >> 16) ^ 0x8000u) - 0x10000u;
}

// v of one record, from d and dmin (word 0 of Q4_K), S, T (two's complement) and ds (f32 bits).
KQ_FN u32 kq_v(u32 d_dmin, u32 s, u32 t, u32 ds)
{
    u32 p = kq_f32_mul(kq_f16_to_f32(d_dmin & 0xFFFFu), kq_i32_to_f32(s));
    u32 n = kq_f32_mul(kq_f16_to_f32(d_dmin >> 16), kq_i32_to_f32(t));
    return kq_f32_mul(ds, kq_f32_sub(p, n));
}

#if defined(KQ_Q4_K_WORD) && defined(KQ_Q8_K_WORD)

// S: the scaled sum of products of codes.
KQ_FN u32 kq_s(KQ_Q4_K lhs, KQ_Q8_K rhs)
{
    u32 low = kq_q4_k_fields_low(KQ_Q4_K_WORD(lhs, 1u));
    u32 high = kq_q4_k_fields_high(KQ_Q4_K_WORD(lhs, 1u), KQ_Q4_K_WORD(lhs, 3u));
    u32 s = 0u;
    // Eight words hold sub-block 2j in their low nibbles and 2j + 1 in their high ones.
    for (u32 j = 0u; j < 4u; j++) {
        u32 first = 0u;
        u32 second = 0u;
        for (u32 k = 0u; k < 8u; k++) {
            u32 codes = KQ_Q4_K_WORD(lhs, 4u + 8u * j + k);
            first += kq_dot4(codes & 0x0F0F0F0Fu, KQ_Q8_K_WORD(rhs, 1u + 16u * j + k));
            second += kq_dot4((codes >> 4) & 0x0F0F0F0Fu, KQ_Q8_K_WORD(rhs, 9u + 16u * j + k));
        }
        u32 sc = (j < 2u ? low : high) >> (16u * (j & 1u));
        s += (sc & 255u) * first + ((sc >> 8) & 255u) * second;
    }
    return s;
}

// T: the scaled sum of the stored bsum, whether or not they agree with the codes.
KQ_FN u32 kq_t(KQ_Q4_K lhs, KQ_Q8_K rhs)
{
    u32 low = kq_q4_k_fields_low(KQ_Q4_K_WORD(lhs, 2u));
    u32 high = kq_q4_k_fields_high(KQ_Q4_K_WORD(lhs, 2u), KQ_Q4_K_WORD(lhs, 3u) >> 4);
    u32 t = 0u;
    for (u32 i = 0u; i < 4u; i++) {
        t += kq_byte(low, i) * kq_sum_i16x2(KQ_Q8_K_WORD(rhs, 65u + i));
        t += kq_byte(high, i) * kq_sum_i16x2(KQ_Q8_K_WORD(rhs, 69u + i));
    }
    return t;
}

// The term v of a pair of records.
KQ_FN u32 kq_term(KQ_Q4_K lhs, KQ_Q8_K rhs)
{
    return kq_v(KQ_Q4_K_WORD(lhs, 0u), kq_s(lhs, rhs), kq_t(lhs, rhs), KQ_Q8_K_WORD(rhs, 0u));
}

#endif

// Quantization of a block, in the order of use: the largest kq_extreme_key of its 256 values gives
// the extreme, that the inverse, and both say whether the block is legal; then four values at a time
// become a word of codes and four words a bsum. Of an illegal block the inverse is taken as 0, which
// makes every code 0.

// Grows with magnitude; of two equal magnitudes the negative one is larger.
KQ_FN u32 kq_extreme_key(u32 value)
{
    return (value << 1) | (value >> 31);
}

// -127 / extreme, one rounding; 0 where all values are zeros.
KQ_FN u32 kq_inverse(u32 key)
{
    u32 extreme = (key >> 1) | (key << 31);
    return key < 2u ? 0u : kq_f32_div(0xC2FE0000u, extreme);
}

// 1 if every value of the block is finite and so is its inverse, else 0.
KQ_FN u32 kq_is_legal(u32 key, u32 inverse)
{
    return key < 0xFF000000u && (inverse & KQ_F32_INF) != KQ_F32_INF ? 1u : 0u;
}

// ds = 1 / inverse, a second rounding; +0 where all values are zeros.
KQ_FN u32 kq_ds(u32 inverse)
{
    return inverse == 0u ? 0u : kq_f32_div(0x3F800000u, inverse);
}

// q of one value, in the low byte.
KQ_FN u32 kq_code(u32 value, u32 inverse)
{
    return kq_f32_to_i8(kq_f32_mul(value, inverse)) & 255u;
}

// The sum of the four i8 lanes of a word, as two's complement.
KQ_FN u32 kq_sum_i8x4(u32 lanes)
{
    return kq_dot4(0x01010101u, lanes);
}

#endif
