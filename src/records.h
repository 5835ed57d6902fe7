// Q4_K and Q8_K records: field decoding, the term of one pair of records, quantization of a block.
// In the common subset of C, GLSL and OpenCL C. CONTRACT.md has the tables. For kernels of yours as
// for kquant's own: it is installed in include/kquant/device, to be included after the prelude of
// the language, exact.h and your macros below. All that it defines begins with kq_ or KQ_.
//
// KQ_IN, the prelude's, stands before what a function only reads: GLSL hands that over without a
// variable for each argument of each call, which makes modules a third smaller.
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
// so that a record may lie anywhere: in a buffer at any byte, in shared memory, in registers. Where
// a Q8_K record serves many dots, the includer may keep it in the form that they take, and define
// what stands under KQ_Q8_K_WORD below by itself. What these macros expand to must not name lhs,
// rhs, i, k or codes: it would get those of the functions here. There is no loop over words: once
// functions are inlined every k is a constant, and compilers read at constants what they would else
// read one lane at a time. Where neither record is the same for neighbouring lanes that gains
// nothing, and KQ_Q4_K_RAW below makes the shorter code.
#ifndef KQ_RECORDS_H
#define KQ_RECORDS_H

// Four 6-bit fields, one a byte: field[0..3] from word 1 (sc) or 2 (m) of a Q4_K record.
KQ_FN u32 kq_q4_k_fields_low(KQ_IN u32 word)
{
    return word & 0x3F3F3F3Fu;
}

// field[4..7]: their low bits lie in word 3, for sc in the low nibbles, for m in the high ones,
// which the caller has shifted down.
KQ_FN u32 kq_q4_k_fields_high(KQ_IN u32 word, KQ_IN u32 word3)
{
    return (word3 & 0x0F0F0F0Fu) | ((word >> 2) & 0x30303030u);
}

// Byte i of a word, 0 to 3.
KQ_FN u32 kq_byte(KQ_IN u32 word, KQ_IN u32 i)
{
    return (word >> (8u * i)) & 255u;
}

// A word of four i8 lanes, made ready for products: biased by 128 to be unsigned, with its halves
// swapped. Written like this it doesn't become a rotation, which oclgrind doesn't know.
KQ_FN u32 kq_lanes(KQ_IN u32 lanes)
{
    return ((lanes << 16) ^ 0x80800000u) | ((lanes >> 16) ^ 0x00008080u);
}

// Codes 0 and 2 of a word, those in its low nibbles, times lanes 0 and 2 of a word made ready: the
// sum of both products is in the high half, which has room for the sum of eight. The masks let a
// compiler see that both factors have 24 bits, for which some GPUs are four times as fast.
KQ_FN u32 kq_product_02(KQ_IN u32 codes, KQ_IN u32 lanes)
{
    return (codes & 0x000F000Fu) * (lanes & 0x00FF00FFu);
}

KQ_FN u32 kq_product_13(KQ_IN u32 codes, KQ_IN u32 lanes)
{
    return ((codes >> 8) & 0x000F000Fu) * ((lanes >> 8) & 0x00FF00FFu);
}

// The sum of four products of codes (bytes 0 to 15) and lanes, as two's complement: what the bias
// added is taken off.
KQ_FN u32 kq_dot4(KQ_IN u32 codes, KQ_IN u32 lanes)
{
    u32 x = kq_lanes(lanes);
    u32 even = kq_product_02(codes, x);
    u32 odd = kq_product_13(codes, x);
    return (even >> 16) + (odd >> 16) - 128u * ((codes * 0x01010101u) >> 24);
}

// The sum of the two i16 halves of a word, as two's complement.
KQ_FN u32 kq_sum_i16x2(KQ_IN u32 word)
{
    return ((word & 0xFFFFu) ^ 0x8000u) + ((word >> 16) ^ 0x8000u) - 0x10000u;
}

// Word k of a Q8_K record as the products of many dots take it: ds, lanes made ready, or the sum of
// two bsum.
KQ_FN u32 kq_q8_k_ready(KQ_IN u32 k, KQ_IN u32 word)
{
    return k == 0u ? word : (k < 65u ? kq_lanes(word) : kq_sum_i16x2(word));
}

// v of one record, from d and dmin (word 0 of Q4_K), S, T (two's complement, below 2^25 in
// magnitude as they always are) and ds (f32 bits).
KQ_FN u32 kq_v(KQ_IN u32 d_dmin, KQ_IN u32 s, KQ_IN u32 t, KQ_IN u32 ds)
{
    u32 p = kq_f16_mul_i25(d_dmin, s);
    u32 n = kq_f16_mul_i25(d_dmin >> 16, t);
    return kq_f32_mul_normal(ds, kq_f32_sub(p, n));
}

#ifdef KQ_Q8_K_WORD
# define KQ_Q8_K_DS(record) KQ_Q8_K_WORD(record, 0u)
// Word k of q made ready, and the sum of word k of bsum.
# define KQ_Q8_K_LANES(record, k) kq_lanes(KQ_Q8_K_WORD(record, 1u + (k)))
# define KQ_Q8_K_PAIR(record, k)  kq_sum_i16x2(KQ_Q8_K_WORD(record, 65u + (k)))
#endif

#if defined(KQ_Q4_K_WORD) && defined(KQ_Q8_K_DS)

// A read at one place each makes modules a fifth smaller than one at every use.
KQ_FN u32 kq_q4_k_word(KQ_IN KQ_Q4_K lhs, KQ_IN u32 k)
{
    return KQ_Q4_K_WORD(lhs, k);
}

KQ_FN u32 kq_q8_k_pair(KQ_IN KQ_Q8_K rhs, KQ_IN u32 k)
{
    return KQ_Q8_K_PAIR(rhs, k);
}

#endif

// Where the includer has KQ_Q8_K_DOT4(record, k, codes), the product of four codes with word k of
// q: what the low nibbles, or the high ones, of the i-th of 32 words of codes contribute to their
// sub-block.
#ifdef KQ_Q8_K_DOT4

KQ_FN u32 kq_low_codes(KQ_IN KQ_Q4_K lhs, KQ_IN KQ_Q8_K rhs, KQ_IN u32 i)
{
    u32 codes = kq_q4_k_word(lhs, 4u + i) & 0x0F0F0F0Fu;
    return KQ_Q8_K_DOT4(rhs, i + (i & 24u), codes);
}

KQ_FN u32 kq_high_codes(KQ_IN KQ_Q4_K lhs, KQ_IN KQ_Q8_K rhs, KQ_IN u32 i)
{
    u32 codes = (kq_q4_k_word(lhs, 4u + i) >> 4) & 0x0F0F0F0Fu;
    return KQ_Q8_K_DOT4(rhs, i + (i & 24u) + 8u, codes);
}

// Two sub-blocks, whose sc are the two low bytes of a word. Of eight words with i = 8j on, the low
// nibbles are sub-block 2j and the high ones 2j + 1.
KQ_FN u32 kq_sub_blocks(KQ_IN KQ_Q4_K lhs, KQ_IN KQ_Q8_K rhs, KQ_IN u32 i, KQ_IN u32 sc)
{
    u32 first = kq_low_codes(lhs, rhs, i) + kq_low_codes(lhs, rhs, i + 1u) +
                kq_low_codes(lhs, rhs, i + 2u) + kq_low_codes(lhs, rhs, i + 3u) +
                kq_low_codes(lhs, rhs, i + 4u) + kq_low_codes(lhs, rhs, i + 5u) +
                kq_low_codes(lhs, rhs, i + 6u) + kq_low_codes(lhs, rhs, i + 7u);
    u32 second = kq_high_codes(lhs, rhs, i) + kq_high_codes(lhs, rhs, i + 1u) +
                 kq_high_codes(lhs, rhs, i + 2u) + kq_high_codes(lhs, rhs, i + 3u) +
                 kq_high_codes(lhs, rhs, i + 4u) + kq_high_codes(lhs, rhs, i + 5u) +
                 kq_high_codes(lhs, rhs, i + 6u) + kq_high_codes(lhs, rhs, i + 7u);
    return kq_byte(sc, 0u) * first + kq_byte(sc, 1u) * second;
}

#endif

#ifdef KQ_Q8_K_LANES

KQ_FN u32 kq_q8_k_lanes(KQ_IN KQ_Q8_K rhs, KQ_IN u32 k)
{
    return KQ_Q8_K_LANES(rhs, k);
}

// The sum of the 32 products of the codes in the low nibbles of eight words and the lanes of eight
// words made ready, bias included.
KQ_FN u32 kq_products(KQ_IN u32 c0, KQ_IN u32 c1, KQ_IN u32 c2, KQ_IN u32 c3, KQ_IN u32 c4,
                      KQ_IN u32 c5, KQ_IN u32 c6, KQ_IN u32 c7, KQ_IN u32 x0, KQ_IN u32 x1,
                      KQ_IN u32 x2, KQ_IN u32 x3, KQ_IN u32 x4, KQ_IN u32 x5, KQ_IN u32 x6,
                      KQ_IN u32 x7)
{
    u32 even = kq_product_02(c0, x0) + kq_product_02(c1, x1) + kq_product_02(c2, x2) +
               kq_product_02(c3, x3) + kq_product_02(c4, x4) + kq_product_02(c5, x5) +
               kq_product_02(c6, x6) + kq_product_02(c7, x7);
    u32 odd = kq_product_13(c0, x0) + kq_product_13(c1, x1) + kq_product_13(c2, x2) +
              kq_product_13(c3, x3) + kq_product_13(c4, x4) + kq_product_13(c5, x5) +
              kq_product_13(c6, x6) + kq_product_13(c7, x7);
    return (even >> 16) + (odd >> 16);
}

// The sums of these codes, in two halves of at most 240.
KQ_FN u32 kq_codes_sum(KQ_IN u32 c0, KQ_IN u32 c1, KQ_IN u32 c2, KQ_IN u32 c3, KQ_IN u32 c4,
                       KQ_IN u32 c5, KQ_IN u32 c6, KQ_IN u32 c7)
{
    return (c0 & 0x000F000Fu) + (c1 & 0x000F000Fu) + (c2 & 0x000F000Fu) + (c3 & 0x000F000Fu) +
           (c4 & 0x000F000Fu) + (c5 & 0x000F000Fu) + (c6 & 0x000F000Fu) + (c7 & 0x000F000Fu) +
           ((c0 >> 8) & 0x000F000Fu) + ((c1 >> 8) & 0x000F000Fu) + ((c2 >> 8) & 0x000F000Fu) +
           ((c3 >> 8) & 0x000F000Fu) + ((c4 >> 8) & 0x000F000Fu) + ((c5 >> 8) & 0x000F000Fu) +
           ((c6 >> 8) & 0x000F000Fu) + ((c7 >> 8) & 0x000F000Fu);
}

// The same two sub-blocks.
KQ_FN u32 kq_sub_blocks(KQ_IN KQ_Q4_K lhs, KQ_IN KQ_Q8_K rhs, KQ_IN u32 i, KQ_IN u32 sc)
{
    u32 c0 = kq_q4_k_word(lhs, 4u + i);
    u32 c1 = kq_q4_k_word(lhs, 5u + i);
    u32 c2 = kq_q4_k_word(lhs, 6u + i);
    u32 c3 = kq_q4_k_word(lhs, 7u + i);
    u32 c4 = kq_q4_k_word(lhs, 8u + i);
    u32 c5 = kq_q4_k_word(lhs, 9u + i);
    u32 c6 = kq_q4_k_word(lhs, 10u + i);
    u32 c7 = kq_q4_k_word(lhs, 11u + i);
    u32 k = i + (i & 24u);
    u32 first = kq_products(
        c0, c1, c2, c3, c4, c5, c6, c7, kq_q8_k_lanes(rhs, k), kq_q8_k_lanes(rhs, k + 1u),
        kq_q8_k_lanes(rhs, k + 2u), kq_q8_k_lanes(rhs, k + 3u), kq_q8_k_lanes(rhs, k + 4u),
        kq_q8_k_lanes(rhs, k + 5u), kq_q8_k_lanes(rhs, k + 6u), kq_q8_k_lanes(rhs, k + 7u));
    u32 second = kq_products(c0 >> 4, c1 >> 4, c2 >> 4, c3 >> 4, c4 >> 4, c5 >> 4, c6 >> 4, c7 >> 4,
                             kq_q8_k_lanes(rhs, k + 8u), kq_q8_k_lanes(rhs, k + 9u),
                             kq_q8_k_lanes(rhs, k + 10u), kq_q8_k_lanes(rhs, k + 11u),
                             kq_q8_k_lanes(rhs, k + 12u), kq_q8_k_lanes(rhs, k + 13u),
                             kq_q8_k_lanes(rhs, k + 14u), kq_q8_k_lanes(rhs, k + 15u));
    // The halves have room for both products, of at most 63 * 240.
    u32 sums = kq_byte(sc, 0u) * kq_codes_sum(c0, c1, c2, c3, c4, c5, c6, c7) +
               kq_byte(sc, 1u) * kq_codes_sum(c0 >> 4, c1 >> 4, c2 >> 4, c3 >> 4, c4 >> 4, c5 >> 4,
                                              c6 >> 4, c7 >> 4);
    return kq_byte(sc, 0u) * first + kq_byte(sc, 1u) * second -
           128u * ((sums & 0xFFFFu) + (sums >> 16));
}

#endif

#if defined(KQ_Q4_K_WORD) && defined(KQ_Q8_K_DS)

// S: the scaled sum of products of codes.
KQ_FN u32 kq_s(KQ_IN KQ_Q4_K lhs, KQ_IN KQ_Q8_K rhs)
{
    u32 low = kq_q4_k_fields_low(kq_q4_k_word(lhs, 1u));
    u32 high = kq_q4_k_fields_high(kq_q4_k_word(lhs, 1u), kq_q4_k_word(lhs, 3u));
    return kq_sub_blocks(lhs, rhs, 0u, low) + kq_sub_blocks(lhs, rhs, 8u, low >> 16) +
           kq_sub_blocks(lhs, rhs, 16u, high) + kq_sub_blocks(lhs, rhs, 24u, high >> 16);
}

// T: the scaled sum of the stored bsum, whether or not they agree with the codes.
KQ_FN u32 kq_t(KQ_IN KQ_Q4_K lhs, KQ_IN KQ_Q8_K rhs)
{
    u32 low = kq_q4_k_fields_low(kq_q4_k_word(lhs, 2u));
    u32 high = kq_q4_k_fields_high(kq_q4_k_word(lhs, 2u), kq_q4_k_word(lhs, 3u) >> 4);
    return kq_byte(low, 0u) * kq_q8_k_pair(rhs, 0u) + kq_byte(low, 1u) * kq_q8_k_pair(rhs, 1u) +
           kq_byte(low, 2u) * kq_q8_k_pair(rhs, 2u) + kq_byte(low, 3u) * kq_q8_k_pair(rhs, 3u) +
           kq_byte(high, 0u) * kq_q8_k_pair(rhs, 4u) + kq_byte(high, 1u) * kq_q8_k_pair(rhs, 5u) +
           kq_byte(high, 2u) * kq_q8_k_pair(rhs, 6u) + kq_byte(high, 3u) * kq_q8_k_pair(rhs, 7u);
}

// The term v of a pair of records.
KQ_FN u32 kq_term(KQ_IN KQ_Q4_K lhs, KQ_IN KQ_Q8_K rhs)
{
    return kq_v(kq_q4_k_word(lhs, 0u), kq_s(lhs, rhs), kq_t(lhs, rhs), KQ_Q8_K_DS(rhs));
}

#endif

// kq_term as a loop of eight turns, a third of the code, for drivers that take long to compile.
// There the includer has for each format, here Q4_K, instead of KQ_Q4_K_WORD
//
//   KQ_Q4_K_RAW(record, k)           word k of the buffer, from the one in which the record starts
//   KQ_Q4_K_LAST(record)             the k of the last that has a byte of the record: 35, or 36
//   KQ_Q4_K_JOIN(record, low, high)  the word of the record that lies in these two
//
// No word is read twice, for what the next turn needs is kept.
#if defined(KQ_Q4_K_RAW) && defined(KQ_Q8_K_RAW)

// The sum of the 16 products of the codes in the low nibbles of four words and four words of lanes.
KQ_FN u32 kq_four_products(KQ_IN u32 c0, KQ_IN u32 c1, KQ_IN u32 c2, KQ_IN u32 c3, KQ_IN u32 l0,
                           KQ_IN u32 l1, KQ_IN u32 l2, KQ_IN u32 l3)
{
    u32 x0 = kq_lanes(l0);
    u32 x1 = kq_lanes(l1);
    u32 x2 = kq_lanes(l2);
    u32 x3 = kq_lanes(l3);
    u32 products = kq_product_02(c0, x0) + kq_product_13(c0, x0) + kq_product_02(c1, x1) +
                   kq_product_13(c1, x1) + kq_product_02(c2, x2) + kq_product_13(c2, x2) +
                   kq_product_02(c3, x3) + kq_product_13(c3, x3);
    u32 codes = (c0 & 0x0F0F0F0Fu) + (c1 & 0x0F0F0F0Fu) + (c2 & 0x0F0F0F0Fu) + (c3 & 0x0F0F0F0Fu);
    return (products >> 16) - 128u * ((codes * 0x01010101u) >> 24);
}

KQ_FN u32 kq_term(KQ_IN KQ_Q4_K lhs, KQ_IN KQ_Q8_K rhs)
{
    u32 c1 = KQ_Q4_K_RAW(lhs, 1u);
    u32 c2 = KQ_Q4_K_RAW(lhs, 2u);
    u32 c3 = KQ_Q4_K_RAW(lhs, 3u);
    u32 c4 = KQ_Q4_K_RAW(lhs, 4u);
    u32 d_dmin = KQ_Q4_K_JOIN(lhs, KQ_Q4_K_RAW(lhs, 0u), c1);
    u32 word3 = KQ_Q4_K_JOIN(lhs, c3, c4);
    u32 sc_low = kq_q4_k_fields_low(KQ_Q4_K_JOIN(lhs, c1, c2));
    u32 sc_high = kq_q4_k_fields_high(KQ_Q4_K_JOIN(lhs, c1, c2), word3);
    u32 m_low = kq_q4_k_fields_low(KQ_Q4_K_JOIN(lhs, c2, c3));
    u32 m_high = kq_q4_k_fields_high(KQ_Q4_K_JOIN(lhs, c2, c3), word3 >> 4);
    u32 high4 = KQ_Q8_K_RAW(rhs, 1u);
    u32 ds = KQ_Q8_K_JOIN(rhs, KQ_Q8_K_RAW(rhs, 0u), high4);
    u32 pair = KQ_Q8_K_RAW(rhs, 65u);
    u32 low4 = 0u;
    u32 middle = 0u;
    u32 s = 0u;
    u32 t = 0u;
    for (u32 i = 0u; i < 8u; i++) {
        // Half of two sub-blocks: four words of codes, and as many of lanes for either nibble.
        u32 c0 = c4;
        c1 = KQ_Q4_K_RAW(lhs, 4u * i + 5u);
        c2 = KQ_Q4_K_RAW(lhs, 4u * i + 6u);
        c3 = KQ_Q4_K_RAW(lhs, 4u * i + 7u);
        c4 = KQ_Q4_K_RAW(lhs, i < 7u ? 4u * i + 8u : KQ_Q4_K_LAST(lhs));
        u32 k = 4u * (i + (i & 6u));
        u32 low0 = low4;
        u32 high0 = high4;
        low4 = middle;
        if ((i & 1u) == 0u) {
            low0 = high4;
            low4 = KQ_Q8_K_RAW(rhs, k + 5u);
            middle = KQ_Q8_K_RAW(rhs, k + 9u);
            high0 = middle;
        }
        u32 low1 = KQ_Q8_K_RAW(rhs, k + 2u);
        u32 low2 = KQ_Q8_K_RAW(rhs, k + 3u);
        u32 low3 = KQ_Q8_K_RAW(rhs, k + 4u);
        u32 high1 = KQ_Q8_K_RAW(rhs, k + 10u);
        u32 high2 = KQ_Q8_K_RAW(rhs, k + 11u);
        u32 high3 = KQ_Q8_K_RAW(rhs, k + 12u);
        high4 = KQ_Q8_K_RAW(rhs, k + 13u);
        u32 codes0 = KQ_Q4_K_JOIN(lhs, c0, c1);
        u32 codes1 = KQ_Q4_K_JOIN(lhs, c1, c2);
        u32 codes2 = KQ_Q4_K_JOIN(lhs, c2, c3);
        u32 codes3 = KQ_Q4_K_JOIN(lhs, c3, c4);
        u32 sc = (i < 4u ? sc_low : sc_high) >> (8u * (i & 2u));
        s += kq_byte(sc, 0u) *
             kq_four_products(codes0, codes1, codes2, codes3, KQ_Q8_K_JOIN(rhs, low0, low1),
                              KQ_Q8_K_JOIN(rhs, low1, low2), KQ_Q8_K_JOIN(rhs, low2, low3),
                              KQ_Q8_K_JOIN(rhs, low3, low4));
        s += kq_byte(sc, 1u) *
             kq_four_products(codes0 >> 4, codes1 >> 4, codes2 >> 4, codes3 >> 4,
                              KQ_Q8_K_JOIN(rhs, high0, high1), KQ_Q8_K_JOIN(rhs, high1, high2),
                              KQ_Q8_K_JOIN(rhs, high2, high3), KQ_Q8_K_JOIN(rhs, high3, high4));
        // And a bsum of sub-block i.
        u32 next = KQ_Q8_K_RAW(rhs, i < 7u ? i + 66u : KQ_Q8_K_LAST(rhs));
        t += kq_byte(i < 4u ? m_low : m_high, i & 3u) * kq_sum_i16x2(KQ_Q8_K_JOIN(rhs, pair, next));
        pair = next;
    }
    return kq_v(d_dmin, s, t, ds);
}

#endif

// Quantization of a block, in the order of use: the largest kq_extreme_key of its 256 values gives
// the extreme, that the inverse, and both say whether the block is legal; then four values at a
// time become a word of codes and four words a bsum. Of an illegal block the inverse is taken as 0,
// which makes every code 0.

// The magnitude and, below it, the sign: of two equal magnitudes the negative one is larger. A
// value wraps below itself when doubled just where its sign is set; two shifts would become a
// rotation, which oclgrind doesn't know.
KQ_FN u32 kq_extreme_key(KQ_IN u32 value)
{
    return (value << 1) | (value + value < value ? 1u : 0u);
}

// -127 / extreme, one rounding, with the extreme's sign moved to the dividend; 0 where all values
// are zeros.
KQ_FN u32 kq_inverse(KQ_IN u32 key)
{
    return key < 2u ? 0u : kq_f32_div(0xC2FE0000u ^ (key << 31), key >> 1);
}

// 1 if every value of the block is finite and so is its inverse, else 0.
KQ_FN u32 kq_is_legal(KQ_IN u32 key, KQ_IN u32 inverse)
{
    return key < 0xFF000000u && (inverse & KQ_F32_INF) != KQ_F32_INF ? 1u : 0u;
}

// ds = 1 / inverse, a second rounding; +0 where all values are zeros.
KQ_FN u32 kq_ds(KQ_IN u32 inverse)
{
    return inverse == 0u ? 0u : kq_f32_div(0x3F800000u, inverse);
}

// q of one value, in the low byte: kq_f32_to_i8 of kq_f32_mul of both in fewer steps, for they are
// of one block. So the product is below 128 in magnitude; and where it is above 1/2, which gives
// the first q that is not 0, the value is above 2^-129.
KQ_FN u32 kq_code(KQ_IN u32 value, KQ_IN u32 inverse)
{
    u32 e = (value >> 23) & 255u;
    u32 m = (value & 0x7FFFFFu) | (e != 0u ? 0x800000u : 0u);
    u32 up = (m < 0x400000u ? 1u : 0u) + (m < 0x200000u ? 1u : 0u);
    m = m << (up + (e == 0u ? 1u : 0u));

    // The product, as in kq_f32_product, but with bit 29 or bit 30 the top one.
    u32 x = inverse != 0u ? (inverse & 0x7FFFFFu) | 0x800000u : 0u;
    u32 low = x * (m & 255u);
    u32 middle = x * ((m >> 8) & 255u) + (low >> 8);
    u32 high = x * (m >> 16) + (middle >> 8);
    u32 lost = low | middle | (high << 6);
    u32 y = (high >> 1) | ((lost | (lost >> 4)) & 15u);

    // n bits of it are behind the point. Rounding it to the 24 bits of an f32 first makes a half of
    // what is within half a unit of the last of them, both ends included: that then becomes the
    // even integer, anything else the nearest.
    u32 n = 283u - ((inverse >> 23) & 255u) - e + up;
    y = n < 32u ? y : 0u;
    n = n < 31u ? n : 31u;
    u32 half_unit = 1u;
    half_unit = half_unit << (n - 1u);
    u32 within = 32u;
    within = within << (y >> 30);
    u32 odd = (y >> n) & 1u;
    u32 q = (y + half_unit + (within ^ (odd - 1u))) >> n;
    u32 minus = 0u - ((value ^ inverse) >> 31);
    return ((q ^ minus) - minus) & 255u;
}

// The sum of the four i8 lanes of a word, as two's complement.
KQ_FN u32 kq_sum_i8x4(KQ_IN u32 lanes)
{
    u32 x = lanes ^ 0x80808080u;
    u32 pairs = (x & 0x00FF00FFu) + ((x >> 8) & 0x00FF00FFu);
    return (pairs & 0xFFFFu) + (pairs >> 16) - 512u;
}

#endif
