"""Seeded random cases of both operations."""

import struct
from fractions import Fraction

from oracle_definition import (
    MINUS_127, ONE, Q4K, Q4K_BYTES, Q8K, Q8K_BYTES, SIGN, f32_div, q4k_encode, q8k_encode,
    q8k_legal, quantize_block)
from oracle_vectors import SplitMix64
from oracle_cases import (
    DS_SPECIALS, EDGE_EXTREMES, F16_SPECIALS, NON_FINITE, ONE_16, f32, f32_value, record_pair,
    spread_pair, term_pair, ulps)

# --- Random draws --------------------------------------------------------------------------------


def random_sign(stream):
    return stream.below(2) << 31


def random_normal(stream, low, high):
    """A random f32 with an exponent field in [low, high]."""
    return random_sign(stream) | stream.between(low, high) << 23 | stream.below(1 << 23)


def random_finite(stream):
    return random_normal(stream, 0, 254)


def random_subnormal(stream):
    return random_sign(stream) | stream.below(1 << stream.between(1, 23))


def draw_plain(stream):
    return [random_normal(stream, 120, 127) for _ in range(256)]


def draw_window(stream):
    high = stream.between(1, 254)
    return [random_normal(stream, max(0, high - 8), high) for _ in range(256)]


def draw_wide(stream):
    return [random_finite(stream) for _ in range(256)]


def draw_any_bits(stream):
    return [stream.bits() for _ in range(256)]


def draw_near_ties(stream):
    extreme = random_normal(stream, 6, 254)
    inverse = f32_value(f32_div(MINUS_127, extreme))
    values = []
    for _ in range(256):
        tie = f32(Fraction(2 * stream.between(-127, 126) + 1, 2) / inverse)
        values.append(ulps(tie, stream.between(-2, 2)))
    values[stream.below(256)] = extreme
    return values


def draw_subnormals(stream):
    values = [random_subnormal(stream) for _ in range(256)]
    if stream.below(4):
        values[stream.below(256)] = random_normal(stream, 5, 12)
    return values


def draw_edge(stream):
    edge = ulps(stream.pick(EDGE_EXTREMES), stream.between(-2, 2)) | random_sign(stream)
    limit = edge & ~SIGN
    values = [random_sign(stream) | stream.below(limit) for _ in range(256)]
    values[stream.below(256)] = edge
    return values


def draw_sparse(stream):
    values = [random_sign(stream) for _ in range(256)]
    for _ in range(stream.below(4)):
        values[stream.below(256)] = random_normal(stream, 6, 254)
    return values


def draw_equal_magnitudes(stream):
    magnitudes = [random_normal(stream, 100, 140) & ~SIGN for _ in range(stream.between(1, 3))]
    return [random_sign(stream) | stream.pick(magnitudes) for _ in range(256)]


def draw_one_nonfinite(stream):
    values = draw_plain(stream)
    values[stream.below(256)] = stream.pick(NON_FINITE)
    return values


def draw_mixed(stream):
    kinds = [
        lambda: random_normal(stream, 120, 127),
        lambda: random_finite(stream),
        lambda: random_subnormal(stream),
        lambda: random_sign(stream),
    ]
    return [stream.pick(kinds)() for _ in range(256)]


# A class that occurs twice is drawn twice as often.
BLOCK_CLASSES = (
    draw_plain, draw_plain, draw_window, draw_window, draw_wide, draw_any_bits, draw_near_ties,
    draw_near_ties, draw_near_ties, draw_subnormals, draw_edge, draw_sparse, draw_equal_magnitudes,
    draw_one_nonfinite, draw_mixed,
)


def draw_f16(stream):
    kind = stream.below(16)
    if kind == 0:
        return stream.pick(F16_SPECIALS)
    if kind == 1:
        return stream.below(0x400) | stream.below(2) << 15
    if kind == 2:
        return stream.below(0x7C00) | stream.below(2) << 15
    return stream.below(0x8000) & 0x1FFF | 0x2000 | stream.below(2) << 15


def draw_q4k_plain(stream):
    return struct.pack("<HH", draw_f16(stream), draw_f16(stream)) + stream.bytes(140)


def draw_q4k_bytes(stream):
    return stream.bytes(Q4K_BYTES)


def draw_q4k_small(stream):
    """Few bits set and equal scales: statistics that are small, equal or zero."""
    d = draw_f16(stream)
    sc, m = ([stream.below(2) for _ in range(8)] for _ in range(2))
    q = [stream.below(8) // 7 for _ in range(256)]
    return q4k_encode(Q4K(d, d ^ stream.below(2) << 15, sc, m, q))


def draw_q4k_full(stream):
    lhs = Q4K(draw_f16(stream), draw_f16(stream), [63] * 8, [63] * 8, [15] * 256)
    return q4k_encode(lhs)


def draw_ds(stream):
    kind = stream.below(16)
    if kind == 0:
        return stream.pick(DS_SPECIALS)
    if kind == 1:
        return random_subnormal(stream)
    if kind == 2:
        return random_finite(stream)
    return random_normal(stream, 110, 127)


def draw_q8k_legal(stream):
    q = [stream.between(-128, 127) for _ in range(256)]
    return q8k_encode(q8k_legal(draw_ds(stream), q))


def draw_q8k_quantized(stream):
    draw = stream.pick((draw_plain, draw_window, draw_wide, draw_subnormals, draw_sparse))
    return quantize_block(draw(stream))[1]


def draw_q8k_bytes(stream):
    return stream.bytes(Q8K_BYTES)


def draw_q8k_small(stream):
    q = [stream.pick((-1, 0, 0, 1)) for _ in range(256)]
    return q8k_encode(q8k_legal(draw_ds(stream), q))


def draw_q8k_full(stream):
    bsum = [stream.pick((32767, -32768, 2032, -2048)) for _ in range(16)]
    q = [stream.pick((127, -128))] * 256
    return q8k_encode(Q8K(draw_ds(stream), q, bsum))


Q4K_CLASSES = (draw_q4k_plain, draw_q4k_plain, draw_q4k_bytes, draw_q4k_small, draw_q4k_full)
Q8K_CLASSES = (
    draw_q8k_legal, draw_q8k_legal, draw_q8k_quantized, draw_q8k_bytes, draw_q8k_small,
    draw_q8k_full,
)

TERMS = DS_SPECIALS + tuple(
    f32(n) for n in (1, -1, 3, 2**24, -(2**24), 2**24 + 2, 10**30, -(10**30))
)


def draw_statistic(stream):
    """Small or large, often where the conversion to f32 is a tie."""
    near = stream.pick((1 << stream.below(24), 1 << 24, 26000000))
    n = max(0, near + stream.between(-9, 9))
    return -n if stream.below(2) else n


def draw_pair(stream):
    kind = stream.below(8)
    if kind == 0:
        return term_pair(stream.pick(TERMS))
    if kind == 1:
        d, dmin = (stream.pick((ONE_16, draw_f16(stream))) for _ in range(2))
        ds = stream.pick((ONE, draw_ds(stream)))
        return record_pair(draw_statistic(stream), draw_statistic(stream), d, dmin, ds)
    if kind == 2:  # zeros of both signs
        n = stream.pick((0, 0, draw_statistic(stream)))
        d, dmin = (ONE_16 | stream.below(2) << 15 for _ in range(2))
        return record_pair(n, n, d, dmin, ONE | random_sign(stream))
    return stream.pick(Q4K_CLASSES)(stream), stream.pick(Q8K_CLASSES)(stream)


def draw_pairs(stream, g):
    draw = stream.pick((draw_pair, draw_pair, spread_pair))
    pairs = []
    while len(pairs) < g:
        lhs, rhs = draw(stream)
        pairs.append((lhs, rhs))
        if len(pairs) < g and stream.below(4) == 0:  # a term that cancels the last one, or nearly
            ds = struct.unpack_from("<I", rhs)[0] ^ SIGN
            pairs.append((lhs, struct.pack("<I", ulps(ds, stream.below(2))) + rhs[4:]))
    return pairs


def draw_length(stream):
    return stream.pick((0,) + (1, 2, 3) * 6 + (4, 5, 6) * 2)


def draw_stream(seed, index, operation):
    """A stream of its own for each case: how many are drawn changes none of them."""
    return SplitMix64(SplitMix64(SplitMix64(seed).next() + 2 * index + operation).next())


def quantize_draws(draws, seed):
    for index in range(draws):
        stream = draw_stream(seed, index, 0)
        blocks = [stream.pick(BLOCK_CLASSES)(stream) for _ in range(draw_length(stream))]
        yield f"draw-{seed}-{index}", blocks


def dot_draws(draws, seed):
    for index in range(draws):
        stream = draw_stream(seed, index, 1)
        yield f"draw-{seed}-{index}", draw_pairs(stream, draw_length(stream))
