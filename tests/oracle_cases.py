"""The hand-made cases of the vector files."""

import struct
from fractions import Fraction

from oracle_definition import (
    BAD_RECORD, F32_UNIT, INFINITY, MINUS_127, NAN, ONE, Q4K, Q4K_BYTES, Q8K, Q8K_BYTES, SIGN,
    ZERO_RECORD, dot_terms, f16_to_f32, f32_div, f32_mul, f32_sub, f32_units, i32_to_f32,
    pairwise, q4k_encode, q8k_encode, q8k_legal, r32, sequential, term)
from oracle_vectors import MASK64, SplitMix64

# --- What hand-made cases and draws are built from -----------------------------------------------

FLT_MAX = 0x7F7FFFFF
ONE_16 = 0x3C00
SMALLEST_LEGAL = 0x02FE0001


def f32(number):
    """R32 of an int or a Fraction."""
    return r32(number < 0, abs(number.numerator), number.denominator)


def f32_value(bits):
    return Fraction(f32_units(bits), F32_UNIT)


def ulps(bits, count):
    """The f32 that lies count steps further from zero, kept finite and on its side of zero."""
    return bits & SIGN | max(0, min(FLT_MAX, (bits & ~SIGN) + count))


def block(fill, places=()):
    """256 times fill, except at some places: block(0, {3: ONE}) has 1.0 at element 3."""
    values = [fill] * 256
    for place, bits in dict(places).items():
        values[place] = bits
    return values


def pack_blocks(blocks):
    return b"".join(struct.pack("<256I", *values) for values in blocks)


def fractions_of(extreme):
    """A block with this extreme at element 77, and parts of it of both signs, evenly spread."""
    units = abs(f32_units(extreme))
    values = [r32(i % 2, units * i // 256, F32_UNIT) for i in range(256)]
    values[77] = extreme
    return values


def halves(extreme):
    """A block with this extreme, and at 0..253 the f32 nearest to each code k + 1/2."""
    inverse = f32_value(f32_div(MINUS_127, extreme))
    return [f32((k + Fraction(1, 2)) / inverse) for k in range(-127, 127)] + [0, extreme]


def rounded_into_ties(extreme):
    """A block whose products with inverse are no ties, but become ties when rounded to f32."""
    inverse = f32_div(MINUS_127, extreme)
    found = []
    for k in range(-127, 127):
        tie = k + Fraction(1, 2)
        middle = f32(tie / f32_value(inverse))
        for value in (ulps(middle, -1), middle, ulps(middle, 1)):
            exact = f32_value(value) * f32_value(inverse)
            if exact != tie and f32_mul(value, inverse) == f32(tie):
                found.append(value)
    return (found + [0] * 256)[:255] + [extreme]


def record_pair(s, t, d=ONE_16, dmin=ONE_16, ds=ONE):
    """(lhs, rhs) with these statistics S and T. T comes from stored bsum that the codes belie."""
    sc = m = [63] * 7 + [1]
    wq, xq, bsum = [0] * 256, [0] * 256, [0] * 16
    sign = -1 if s < 0 else 1
    left, rest = divmod(abs(s), 63)
    wq[224], xq[224] = 1, sign * rest
    place = 0
    while left:
        wq[place] = min(15, left)
        xq[place] = sign * min(127, left // wq[place])
        left -= wq[place] * abs(xq[place])
        place += 1
    sign = -1 if t < 0 else 1
    left, bsum[14] = divmod(abs(t), 63)
    bsum[14] *= sign
    for j in range(14):
        bsum[j] = sign * min(32767, left)
        left -= abs(bsum[j])
    assert place <= 224 and left == 0
    return q4k_encode(Q4K(d, dmin, sc, m, wq)), q8k_encode(Q8K(ds, xq, bsum))


def term_pair(v):
    """(lhs, rhs) whose term is v, any f32: p = 1, n = +0, ds = v."""
    return record_pair(1, 0, ds=v)


def join(pairs):
    return b"".join(lhs for lhs, _ in pairs), b"".join(rhs for _, rhs in pairs)


# --- Hand-made cases of quantize -----------------------------------------------------------------

# Both sides of: inverse overflows or not; ds is subnormal or normal. 0x03014EAB is about 3.8e-37.
EDGE_EXTREMES = (
    0x02FE0000, 0x02FE0001, 0x02FE0002, 0x03014EAB, 0x03FDFFFF, 0x03FE0000, 0x03FE0001
)

NON_FINITE = (
    0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF,
    0x7FA5A5A5, 0xFFBFFFFF,
)


def quantize_cases():
    """(name, blocks) of every hand-made case."""
    yield "no-blocks", []
    yield from zero_and_spike_cases()
    yield from tie_cases()
    yield from edge_cases()
    yield from domain_cases()


def zero_and_spike_cases():
    yield "zeros", [block(0)]
    yield "negative-zeros", [block(SIGN)]
    yield "zeros-of-both-signs", [[SIGN * (i % 3 == 0) for i in range(256)]]
    for place in (0, 1, 2, 3, 15, 16, 128, 255):
        spike = {place: ONE | SIGN * (place % 2)}
        yield f"spike-at-{place}", [block(SIGN * (place % 4 > 1), spike)]
    yield "all-equal", [block(f32(Fraction(10, 3))), block(f32(Fraction(-10, 3)))]
    codes = [f32(k) for k in range(-127, 128)]
    yield "every-code", [codes + [0], codes[1:] + [0, 0]]
    yield "bsum-largest", [[f32(127)] * 255 + [f32(-127)]]
    yield "bsum-smallest", [block(f32(127)), block(f32(-127))]
    yield "bsum-zero-of-full-codes", [[f32(127 if i % 2 else -127) for i in range(256)]]
    yield "bsum-each-its-own", [[f32(-127)] + [f32(i // 16) for i in range(1, 256)]]
    for place in (0, 31, 32, 255):
        yield f"extreme-among-minus-ones-at-{place}", [block(f32(-1), {place: f32(127)})]
    yield "every-exponent", [
        [min(max(i, 1), 254) << 23 | SIGN * (i % 2) | 0x2AAAAA for i in range(256)]
    ]
    # 1 / R32(-127 / extreme) is not -extreme / 127 for 0x40B191CC and about a third of the others.
    mantissas = (
        0x40B191CC, 0x3F800000, 0x3F800001, 0x3FFFFFFF, 0x3FAAAAAB, 0x3FD55555, 0x3F7FFFFF,
        0x42FDFFFF, 0x42FE0001,
    )
    yield "two-roundings-of-ds", [fractions_of(extreme) for extreme in mantissas]


def tie_cases():
    small_ties = [f32(Fraction(n, 2)) for n in (1, 3, 5, -1, -3)]
    yield "ties-to-even", [[f32(127)] + small_ties + [0] * 250]
    for name, extreme in (
        ("minus-one", f32(127)),
        ("plus-one", f32(-127)),
        ("minus-one-half", f32(254)),
        ("plus-two-to-the-120", f32(Fraction(-127, 2**120))),
        ("minus-two-to-the-minus-121", f32(127 * 2**121)),
    ):
        yield f"half-steps-inverse-{name}", [halves(extreme)]
    for sign_name, extreme in (("minus", f32(127)), ("plus", f32(-127))):
        for side, count in (("below", -1), ("above", 1)):
            values = [ulps(bits, count) for bits in halves(extreme)[:254]]
            yield f"just-{side}-half-steps-inverse-{sign_name}-one", [values + [0, extreme]]
    # The product with the rounded inverse decides, not the quotient and not a wider product.
    for code, extreme, value in (
        (-104, 0x401F585A, 0x40031D5C),
        (-8, 0x3F3DE9C5, 0x3D33720D),
        (-57, 0x3FD8F267, 0x3F4472AD),
    ):
        yield f"rounded-product-gives-{-code}", [block(0, {0: extreme, 1: value})]
    for extreme in (0x401F585A, 0x3F3DE9C5, 0xBFD8F267, 0x7F123456, 0x8312AF01):
        yield f"rounded-into-ties-{extreme:08x}", [rounded_into_ties(extreme)]

    four, minus_four = f32(4), f32(-4)
    yield "extremes-tie-positive-first", [block(ONE, {10: four, 200: minus_four})]
    yield "extremes-tie-negative-first", [block(ONE, {10: minus_four, 200: four})]
    yield "extremes-tie-next-to-each-other", [
        block(ONE, {0: four, 1: minus_four}),
        block(ONE, {0: minus_four, 1: four}),
        block(ONE, {127: four, 128: minus_four}),
        block(ONE, {0: four, 255: minus_four}),
        block(ONE, {0: minus_four, 255: four}),
    ]
    yield "extremes-tie-many", [[minus_four if i % 5 == 4 else four for i in range(256)]]
    yield "extremes-one-step-apart", [
        block(0, {9: ulps(four, 1), 8: minus_four}),
        block(0, {9: four, 8: ulps(minus_four, 1)}),
    ]
    for extreme in (SMALLEST_LEGAL, 0x03FDFFFF, FLT_MAX):
        yield f"extremes-tie-{extreme:08x}", [
            block(0, {3: extreme, 250: extreme | SIGN}),
            block(0, {3: extreme | SIGN, 250: extreme}),
        ]


def edge_cases():
    for extreme in EDGE_EXTREMES:
        yield f"extreme-{extreme:08x}", [fractions_of(extreme), fractions_of(extreme | SIGN)]
    # 0x02FE0001 is a little over 127 * 2^-128, so 2^-126, the least normal, gets code 4.
    yield "subnormal-values-count", [[i << 15 for i in range(255)] + [SMALLEST_LEGAL | SIGN]]
    yield "subnormal-value-of-normal-block", [block(0, {0: ONE, 1: 1, 2: 0x807FFFFF})]
    yield "flt-max-everywhere", [block(FLT_MAX), block(FLT_MAX | SIGN)]
    yield "flt-max-alone", [block(0, {100: FLT_MAX}), block(SIGN, {100: FLT_MAX | SIGN})]
    yield "flt-max-among-fractions", [fractions_of(FLT_MAX), fractions_of(FLT_MAX | SIGN)]
    yield "flt-max-with-the-least", [block(1, {0: FLT_MAX, 1: 0x00800000, 2: 0x80000001})]


def domain_cases():
    good = fractions_of(ONE)
    tiny = block(0, {31: 0x02FE0000})
    for bits, place in zip(NON_FINITE, (0, 1, 2, 3, 63, 64, 127, 128, 254, 255)):
        yield f"nonfinite-{bits:08x}-at-{place}", [block(ONE, {place: bits})]
    yield "nonfinite-everywhere", [block(NAN), block(INFINITY)]
    yield "nonfinite-lowest-element", [block(0, {200: NAN, 199: INFINITY, 255: INFINITY | SIGN})]
    yield "nonfinite-among-zeros", [block(SIGN, {17: INFINITY})]
    yield "nonfinite-beats-overflow", [block(0, {0: 1, 90: 0xFF800001})]
    yield "overflow-zeros-elsewhere", [tiny, block(SIGN, {31: 0x82FE0000})]
    yield "overflow-tie", [block(0, {0: 0x02FE0000, 1: 0x82FE0000})]
    yield "overflow-all-subnormal", [
        block(1),
        block(0x807FFFFF),
        [i * 32749 | SIGN * (i % 2) for i in range(256)],
        block(0x00800000),
    ]
    yield "lowest-bad-record-is-last", [good, good, good, tiny]
    yield "lowest-bad-record-is-first", [block(0, {255: NAN}), good, good, block(0, {0: NAN})]
    yield "lowest-bad-record-overflows", [good, tiny, block(ONE, {4: INFINITY}), good]
    yield "lowest-bad-record-nonfinite", [good, block(ONE, {4: 0xFFC00001}), tiny, tiny, good]
    yield "every-record-bad", [tiny, block(NAN), block(INFINITY | SIGN), block(1)]
    yield "good-record-anywhere", [good, tiny, good, block(NAN), block(0), good]


# --- Hand-made cases of quantized_dot ------------------------------------------------------------

F16_SPECIALS = (
    0x0001, 0x03FF, 0x0400, 0x7BFF, 0x8000, 0x8001, 0x83FF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE00,
    0x7C01, 0xFFFF,
)

DS_SPECIALS = (
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x802094D4, 0x7C010204,
    0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF,
)

FOLD_LENGTHS = (1, 2, 3, 5, 7, 8, 9, 31, 33, 64, 65, 127, 129)


def dot_cases():
    """(name, record pairs) of every hand-made case."""
    yield "no-records", []
    yield "zeros", [(bytes(Q4K_BYTES), bytes(Q8K_BYTES))]
    yield from decoding_cases()
    yield from statistic_cases()
    yield from special_value_cases()
    yield from rounding_cases()
    yield from fold_cases()


def decoding_cases():
    """Each shows one field at one place; what aliases or loses it changes the result."""
    # Sub-block s has sum wq*xq = primes[s] and sum xq = primes[8 + s], split over both its bsum.
    primes = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)
    wq, xq = [0] * 256, [0] * 256
    for s in range(8):
        wq[32 * s + s], xq[32 * s + s] = 1, primes[s]
        xq[32 * s + 16 + s] = primes[8 + s] - primes[s]
    weights = q4k_encode(Q4K(ONE_16, ONE_16, [0] * 8, [0] * 8, wq))
    codes = q8k_encode(q8k_legal(ONE, xq))
    for bit in range(96):
        scales = (1 << bit).to_bytes(12, "little")
        yield f"scale-byte-{4 + bit // 8:02}-bit-{bit % 8}", [
            (weights[:4] + scales + weights[16:], codes)
        ]
    yield "every-scale-bit", [(weights[:4] + b"\xff" * 12 + weights[16:], codes)]

    ones = [1] * 8
    no_min = [0] * 8
    # 167 is prime to 256: every code from -128 to 127 once, neighbours far apart.
    every_code = [(167 * i + 41) % 256 - 128 for i in range(256)]
    every_code_record = q8k_encode(q8k_legal(ONE, every_code))
    for i in range(256):
        one_nibble = [int(j == i) for j in range(256)]
        lhs = q4k_encode(Q4K(ONE_16, ONE_16, ones, no_min, one_nibble))
        yield f"nibble-of-element-{i:03}", [(lhs, every_code_record)]
    for nibble in range(16):
        q = [15] * 256
        q[70], q[102] = nibble, 15 - nibble
        lhs = q4k_encode(Q4K(ONE_16, ONE_16, ones, no_min, q))
        yield f"nibble-{nibble:02}-low-{15 - nibble:02}-high", [(lhs, every_code_record)]

    sc = [1, 3, 5, 7, 11, 13, 17, 19]
    nibbles = [(7 * i + i // 16) % 15 + 1 for i in range(256)]
    lhs = q4k_encode(Q4K(ONE_16, ONE_16, sc, no_min, nibbles))
    for word in range(0, 64, 4):
        q = [0] * 256
        q[4 * word : 4 * word + 4] = [1, -2, 37, -128]
        yield f"code-word-{word:02}", [(lhs, q8k_encode(q8k_legal(ONE, q)))]
    for code in (-128, -127, 127, -1):
        for lane in range(4):
            q = [0] * 256
            q[132 + lane] = code
            yield f"code-{code & 255:02x}-lane-{lane}", [(lhs, q8k_encode(q8k_legal(ONE, q)))]

    mins = q4k_encode(Q4K(ONE_16, ONE_16, no_min, [1, 3, 5, 7, 11, 13, 17, 19], [0] * 256))
    for j in range(16):
        bsum = [0] * 16
        bsum[j] = (32767, -32768, -1, 1, 0x00FF, 0x0100, -256, 0x7F80)[j % 8]
        yield f"bsum-{j:02}-alone", [(mins, q8k_encode(Q8K(ONE, [0] * 256, bsum)))]
    for name, value in (("highest", 32767), ("lowest", -32768)):
        rhs = q8k_encode(Q8K(ONE, [0] * 256, [value] * 2 + [0] * 14))
        yield f"bsum-pair-of-17-bits-{name}", [(mins, rhs)]

    legal = q8k_legal(ONE, every_code)
    lhs = q4k_encode(Q4K(ONE_16, 0x4000, sc, sc, nibbles))
    for name, bsum in (
        ("right", legal.bsum),
        ("zero", [0] * 16),
        ("negated", [-b for b in legal.bsum]),
        ("shifted", legal.bsum[1:] + legal.bsum[:1]),
        ("swapped-in-pairs", [legal.bsum[j ^ 1] for j in range(16)]),
    ):
        yield f"stored-bsum-{name}", [(lhs, q8k_encode(Q8K(ONE, every_code, bsum)))]
    yield "stored-bsum-of-zero-codes", [(lhs, q8k_encode(Q8K(ONE, [0] * 256, legal.bsum)))]


def full_scale(code, bsum, d=ONE_16, dmin=ONE_16):
    """All scales 63 and nibbles 15, one code and one bsum everywhere."""
    lhs = q4k_encode(Q4K(d, dmin, [63] * 8, [63] * 8, [15] * 256))
    return lhs, q8k_encode(Q8K(ONE, [code] * 256, [bsum] * 16))


def statistic_cases():
    for name, code in (("highest", 127), ("lowest", -128)):
        yield f"s-{name}-legal", [full_scale(code, 16 * code, dmin=0)]
        yield f"t-{name}-legal", [full_scale(code, 16 * code, d=0)]
        yield f"s-and-t-{name}-legal", [full_scale(code, 16 * code)]
    for name, bsum in (("highest", 32767), ("lowest", -32768)):
        yield f"t-{name}", [full_scale(0, bsum)]
        yield f"t-{name}-against-s", [full_scale(127 if bsum < 0 else -128, bsum)]
    for n in (16777215, 16777216, 16777217, 16777218, 16777219, 16777221, 16777223, 25165823):
        for sign_name, value in (("plus", n), ("minus", -n)):
            yield f"s-{sign_name}-{n}", [record_pair(value, 0)]
            yield f"t-{sign_name}-{n}", [record_pair(0, value)]
    # Sums too large for 16 bits or for f32, that cancel but for one.
    for places in ((0, 1), (0, 7), (3, 4)):
        wq, xq = [15] * 256, [0] * 256
        for s, code in zip(places, (127, -127)):
            xq[32 * s : 32 * s + 32] = [code] * 32
        xq[32 * places[0] + 31] = 126
        lhs = q4k_encode(Q4K(ONE_16, ONE_16, [63] * 8, [1] * 8, wq))
        yield f"s-cancels-between-{places[0]}-and-{places[1]}", [
            (lhs, q8k_encode(q8k_legal(ONE, xq)))
        ]
    near_full = [127] * 255 + [126]
    lhs = q4k_encode(Q4K(ONE_16, 0, [63] * 7 + [61], [0] * 8, [15] * 255 + [1]))
    yield "s-odd-and-near-full-scale", [(lhs, q8k_encode(q8k_legal(ONE, near_full)))]


def special_value_cases():
    for bits in F16_SPECIALS:
        yield f"d-{bits:04x}", [record_pair(1001, 77, d=bits)]
        yield f"d-{bits:04x}-s-zero", [record_pair(0, 77, d=bits)]
        yield f"dmin-{bits:04x}", [record_pair(77, 1001, dmin=bits)]
        yield f"dmin-{bits:04x}-t-zero", [record_pair(77, 0, dmin=bits)]
    for bits in DS_SPECIALS:
        yield f"ds-{bits:08x}", [record_pair(1001, 77, ds=bits)]
        yield f"ds-{bits:08x}-difference-zero", [record_pair(77, 77, ds=bits)]
    for name, d, dmin in (
        ("inf-minus-inf", 0x7C00, 0x7C00),
        ("inf-minus-negative-inf", 0x7C00, 0xFC00),
        ("negative-inf-minus-inf", 0xFC00, 0x7C00),
        ("negative-inf-minus-negative-inf", 0xFC00, 0xFC00),
    ):
        yield name, [record_pair(3, 2, d=d, dmin=dmin)]
    yield "inf-times-zero-ds", [record_pair(3, 2, d=0x7C00, ds=0)]
    yield "inf-times-negative-zero-ds", [record_pair(3, 2, d=0x7C00, ds=SIGN)]
    yield "record-of-a-bad-block", [(record_pair(3, 2)[0], BAD_RECORD)]
    yield "record-of-a-zero-block", [(record_pair(3, 2)[0], ZERO_RECORD)]

    minus_one_16, minus_one = 0xBC00, ONE | SIGN
    for name, pair in (
        ("s-and-t-zero", record_pair(0, 0)),
        ("s-and-t-zero-negative-ds", record_pair(0, 0, ds=minus_one)),
        ("negative-d", record_pair(0, 0, d=minus_one_16)),
        ("negative-dmin", record_pair(0, 0, dmin=minus_one_16)),
        ("negative-d-and-dmin", record_pair(0, 0, d=minus_one_16, dmin=minus_one_16)),
        ("negative-d-negative-ds", record_pair(0, 0, d=minus_one_16, ds=minus_one)),
        ("x-minus-x", record_pair(12345, 12345)),
        ("x-minus-x-negative-ds", record_pair(12345, 12345, ds=minus_one)),
        ("negative-x-minus-x-negative-ds", record_pair(-12345, -12345, ds=minus_one)),
    ):
        yield f"zero-from-{name}", [pair]


def scale_order_traps(count):
    """(d, S, ds) where R32(R32(ds * d) * S) is not R32(ds * R32(d * S))."""
    stream, found = SplitMix64(0x5CA1E), []
    while len(found) < count:
        d = 0x3800 | stream.below(0x800)
        s = stream.between(1, 20000000)
        ds = 0x3F000000 | stream.below(0x1000000)
        wide, statistic = f16_to_f32(d), i32_to_f32(s)
        other = f32_mul(f32_mul(ds, wide), statistic)
        if other != f32_mul(ds, f32_mul(wide, statistic)):
            found.append((d, s, ds))
    return found


def distribution_traps(count):
    """(S, T, ds) where R32(R32(ds*S) - R32(ds*T)) is not R32(ds * R32(S - T))."""
    stream, found = SplitMix64(0xD15), []
    while len(found) < count:
        s, t = stream.between(1, 20000000), stream.between(1, 20000000)
        ds = 0x3F000000 | stream.below(0x1000000)
        p, n = i32_to_f32(s), i32_to_f32(t)
        if f32_sub(f32_mul(ds, p), f32_mul(ds, n)) != f32_mul(ds, f32_sub(p, n)):
            found.append((s, t, ds))
    return found


def rounding_cases():
    one_and_half, one_and_half_16 = f32(Fraction(3, 2)), 0x3E00
    # 1.5 times an odd number over 2^23 lies in the middle between two f32.
    for odd in (8388609, 8388611, 8388613):
        yield f"p-tie-{odd}", [record_pair(odd, 0, d=one_and_half_16)]
        yield f"n-tie-{odd}", [record_pair(0, odd, dmin=one_and_half_16)]
        yield f"v-tie-{odd}", [record_pair(odd, 0, ds=one_and_half)]
    # 2047 times these: in the middle between two f32, the lower of them even, but for one bit below.
    for bit in range(10):
        rest = ((1 << 10) + (1 << bit)) * pow(2047, -1, 1 << 12) % (1 << 12)
        yield f"p-tie-broken-by-bit-{bit}", [record_pair((4095 << 12) + rest, 0, d=0x3FFF)]
    for s, t in ((16777216, -1), (16777218, -1), (16777216, -3), (-16777216, 1), (16777216, 1)):
        yield f"difference-tie-{s}-{t}", [record_pair(s, t)]
    yield "difference-cancels-to-one", [record_pair(16777215, 16777214)]
    yield "difference-cancels-after-rounding", [record_pair(16777217, 16777216)]

    # Fused, these two would give -1/2 and +1/2.
    yield "contracted-p", [record_pair(8388609, 12582914, d=one_and_half_16)]
    yield "contracted-n", [record_pair(12582914, 8388609, dmin=one_and_half_16)]
    # Fused, 0.99999988; separate rounding cancels the running sum to +0.
    yield "contracted-fold", [
        term_pair(f32(-16777216)),
        record_pair(16777215, 0, ds=ulps(ONE, 1)),
    ]
    # Fused, what the rounding of the second term dropped.
    inexact = record_pair(12345677, 0, ds=0x3F9E0651)
    yield "contracted-fold-residue", [term_pair(term(*inexact) ^ SIGN), inexact]
    for i, (d, s, ds) in enumerate(scale_order_traps(4)):
        yield f"scales-multiplied-first-{i}", [record_pair(s, 0, d=d, ds=ds)]
    for i, (s, t, ds) in enumerate(distribution_traps(4)):
        yield f"ds-distributed-{i}", [record_pair(s, t, ds=ds)]

    half_16 = 0x3800
    # Half of it is a tie that rounds up to the least normal; a flush before rounding gives 0.
    yield "v-subnormal-tie-up-to-normal", [record_pair(1, 0, d=half_16, ds=0x00FFFFFF)]
    yield "v-subnormal-tie-down", [record_pair(1, 0, d=half_16, ds=0x00FFFFFD)]
    yield "v-half-of-the-least", [record_pair(1, 0, d=half_16, ds=1)]
    yield "v-half-of-the-least-negative", [record_pair(1, 0, d=half_16, ds=SIGN | 1)]
    yield "v-three-halves-of-the-least", [record_pair(3, 0, d=half_16, ds=1)]
    yield "v-five-halves-of-the-least", [record_pair(5, 0, d=half_16, ds=1)]
    yield "v-just-over-half-of-the-least", [record_pair(1025, 0, d=0x1000, ds=1)]
    for s in (1, -1, 0, 30, 15000000):
        yield f"least-d-times-subnormal-ds-{s}", [record_pair(s, 0, d=0x0001, ds=0x802094D4)]
    yield "largest-d-times-subnormal-ds", [record_pair(16777217, 5, d=0x7BFF, ds=0x802094D4)]
    yield "v-from-subnormal-to-normal", [record_pair(3, 0, ds=0x00555555)]
    for s in (1, -1, 16777217, 0):
        yield f"largest-d-times-largest-ds-{s}", [record_pair(s, 0, d=0x7BFF, ds=0x7C010204)]
    # 18631 * 1801 = 2^25 - 1: their product lies between FLT_MAX and 2^128.
    overflow_ds = f32(1801 * 2**103)
    yield "v-overflow-tie", [record_pair(18631, 0, ds=overflow_ds)]
    yield "v-just-no-overflow", [record_pair(18631, 0, ds=ulps(overflow_ds, -1))]
    yield "v-largest-finite", [record_pair(1, 0, ds=FLT_MAX)]


def spread_pair(stream):
    """A legal pair of random fields, with terms of both signs and some 24 bits of spread."""
    q = [stream.between(-127, 127) for _ in range(256)]
    d, dmin = (0x2400 + stream.below(0x2000) for _ in range(2))
    ds = stream.below(2) << 31 | stream.between(110, 122) << 23 | stream.below(1 << 23)
    lhs = struct.pack("<HH", d, dmin) + stream.bytes(140)
    return lhs, q8k_encode(q8k_legal(ds, q))


def order_sensitive(g):
    """g pairs whose sequential, pairwise and reversed sums differ, where g lets them."""
    stream = SplitMix64(0x0DDE4 + g)
    while True:
        pairs = [spread_pair(stream) for _ in range(g)]
        terms = dot_terms(*join(pairs))
        sums = {sequential(terms), pairwise(terms), sequential(terms[::-1])}
        # Up to three terms sequential and pairwise are one sum, up to two reversed is too.
        if len(sums) == (1 if g < 3 else 2 if g == 3 else 3):
            return pairs


def fold_cases():
    for g in FOLD_LENGTHS:
        yield f"order-{g:03}", order_sensitive(g)
    for g in (1, 2, 3, 5, 9):
        yield f"negative-zeros-{g}", [term_pair(SIGN)] * g
    for g in (2, 3, 5):
        zero_last = [term_pair(SIGN)] * (g - 1) + [term_pair(0)]
        yield f"negative-zeros-then-zero-{g}", zero_last

    huge, one = f32(10**30), ONE
    two_24 = f32(2**24)
    for name, terms in (
        ("huge-minus-huge-plus-one", (huge, huge | SIGN, one)),
        ("one-minus-huge-plus-huge", (one, huge | SIGN, huge)),
        ("huge-plus-one-minus-huge", (huge, one, huge | SIGN)),
        ("ones-after-2-24", (two_24, one, one, one, one)),
        ("ones-before-2-24", (one, one, one, one, two_24)),
        ("odd-last-term-passes-up", (one, one, one, one, two_24, one, one)),
        ("tie-to-even-down", (two_24, one)),
        ("tie-to-even-up", (ulps(two_24, 1), one)),
        ("tie-broken-by-the-last-bit", (two_24, ulps(one, 1))),
        ("difference-tie", (ulps(two_24, 3), one | SIGN)),
        ("x-minus-x", (f32(Fraction(1, 3)), f32(Fraction(-1, 3)))),
        ("minus-x-plus-x", (f32(Fraction(-1, 3)), f32(Fraction(1, 3)))),
        ("zero-then-negative-zero", (0, SIGN)),
        ("negative-zero-then-x", (SIGN, one)),
        ("subnormals-to-normal", (0x007FFFFF, 1)),
        ("subnormals-cancel-to-the-least", (0x007FFFFF, 0x807FFFFE)),
        ("normals-cancel-to-subnormal", (0x00800001, 0x80800000)),
        ("subnormal-below-half-a-step", (one, 0x007FFFFF)),
        ("overflow", (FLT_MAX, FLT_MAX)),
        ("overflow-tie", (FLT_MAX, 0x73000000)),
        ("just-no-overflow", (FLT_MAX, 0x72FFFFFF)),
        ("negative-overflow", (FLT_MAX | SIGN, FLT_MAX | SIGN)),
        ("overflow-then-back", (FLT_MAX, FLT_MAX, FLT_MAX | SIGN, FLT_MAX | SIGN)),
        ("no-overflow-in-this-order", (FLT_MAX, FLT_MAX | SIGN, FLT_MAX, FLT_MAX | SIGN)),
        ("inf-plus-finite", (INFINITY, FLT_MAX | SIGN, one)),
        ("inf-plus-inf", (INFINITY, INFINITY, one)),
        ("inf-minus-inf", (INFINITY, one, INFINITY | SIGN)),
        ("negative-inf-plus-inf", (INFINITY | SIGN, INFINITY)),
        ("nan-first", (NAN, one, one)),
        ("nan-last", (one, one, one, one, 0xFFFFFFFF)),
        ("nan-after-inf", (INFINITY, 0x7F800001)),
    ):
        yield f"fold-{name}", [term_pair(v) for v in terms]


# --- Bulk cases ----------------------------------------------------------------------------------

BULK_LENGTHS = (0, 1, 2, 5, 33, 129, 255, 256, 257)


def bulk_cases():
    stream = SplitMix64(0xB01C)
    for g in BULK_LENGTHS:
        yield stream.next(), g
    yield MASK64, 4  # seed + 1 wraps
