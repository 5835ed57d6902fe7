"""Facts the contract states, held against the definition."""

import struct
from fractions import Fraction

from oracle_definition import (
    F32_UNIT, INFINITY, MINUS_127, NAN, ONE, Q4K_BYTES, Q8K_BYTES, SIGN, block_extreme,
    dot_terms, f16_to_f32, f32_add, f32_div, f32_mul, f32_sub, f32_to_i8, f32_units,
    i32_to_f32, pairwise, q4k_decode, q4k_encode, q8k_decode, q8k_encode, quantize,
    quantize_block, r32, sequential, statistic_s, statistic_t, term)
from oracle_vectors import SplitMix64, fnv1a64
from oracle_cases import (
    FLT_MAX, SMALLEST_LEGAL, block, dot_cases, f32, f32_value, full_scale, join, pack_blocks,
    quantize_cases, record_pair, rounding_cases, ulps)
from oracle_draws import (
    draw_equal_magnitudes, draw_mixed, draw_plain, draw_subnormals, random_normal)

# --- Facts the contract states, held against this definition -------------------------------------


def nearest_facts():
    """r32 against its meaning: no neighbour is nearer, and a tie goes to the even one."""
    stream = SplitMix64(32)
    wrong = 0
    for _ in range(3000):
        numerator = stream.next() >> stream.below(64) | 1
        denominator = (stream.next() >> stream.below(64) | 1) << stream.below(170)
        if stream.below(2):  # exactly between two f32
            bits = stream.below(FLT_MAX)
            numerator, denominator = f32_units(bits) + f32_units(bits + 1), 2 * F32_UNIT
        exact = Fraction(numerator, denominator)
        result = r32(False, numerator, denominator)
        distance = abs(exact - f32_value(result))
        for other in (result - 1, result + 1):
            if 0 <= other <= FLT_MAX:
                other_distance = abs(exact - f32_value(other))
                if other_distance < distance or other_distance == distance and result % 2:
                    wrong += 1
    return wrong == 0


def facts():
    """(what is claimed, what this definition says, what the contract says)."""
    yield "r32 gives the nearest f32, ties to even", nearest_facts(), True
    yield "FLT_MAX plus half a step overflows", r32(0, 2**128 - 2**103, 1), INFINITY
    yield "FLT_MAX plus less does not", r32(0, 2**128 - 2**103 - 1, 1), FLT_MAX
    yield "half the least subnormal is a tie to 0", r32(1, 1, 2**150), SIGN
    yield "a little more is the least", r32(0, 2**50 + 1, 2**200), 1
    yield "0x3F000000 * 0x00FFFFFF", f32_mul(0x3F000000, 0x00FFFFFF), 0x00800000
    yield "16777217 to f32", i32_to_f32(16777217), f32(16777216)
    yield "16777219 to f32", i32_to_f32(16777219), f32(16777220)
    yield "-30965760 to f32", i32_to_f32(-30965760), 0xCBEC4000
    yield "inf * 0", f32_mul(INFINITY, SIGN), NAN
    yield "inf / inf", f32_div(INFINITY, INFINITY), NAN
    yield "0 / 0", f32_div(0, SIGN), NAN
    yield "1 / -0", f32_div(ONE, SIGN), INFINITY | SIGN
    yield "inf - inf", f32_sub(INFINITY, INFINITY), NAN
    yield "any NaN becomes the one", f32_add(0xFF800001, ONE), NAN
    yield "x - x is +0", f32_sub(ONE | SIGN, ONE | SIGN), 0
    yield "-0 + -0 is -0", f32_add(SIGN, SIGN), SIGN
    yield "-0 - +0 is -0", f32_sub(SIGN, 0), SIGN
    yield "-0 + +0 is +0", f32_add(SIGN, 0), 0

    for half, single in (
        (0x0001, 0x33800000), (0x03FF, 0x387FC000), (0x0400, 0x38800000), (0x3C00, ONE),
        (0x7BFF, 0x477FE000), (0x8000, SIGN), (0x8001, 0xB3800000), (0x7C00, INFINITY),
        (0xFC00, INFINITY | SIGN), (0x7E00, NAN), (0xFC01, NAN),
    ):
        yield f"f16 0x{half:04X}", f16_to_f32(half), single
    rising = [f16_to_f32(half) for half in range(0x7C01)]
    yield "f16 rise with their bits", rising == sorted(set(rising)), True
    mirrored = all(f16_to_f32(h | 0x8000) == rising[h] | SIGN for h in range(0x7C01))
    yield "negative f16 mirror them", mirrored, True
    halves_and_codes = (
        (1, 0), (3, 2), (5, 2), (-1, 0), (-3, -2), (253, 126), (255, 127), (-257, -128)
    )
    for n, code in halves_and_codes:
        yield f"round {n}/2 to i8", f32_to_i8(f32(Fraction(n, 2))), code
    yield "saturate 1e30", f32_to_i8(f32(10**30)), 127
    yield "saturate -inf", f32_to_i8(INFINITY | SIGN), -128

    yield from quantize_facts()
    yield from dot_facts()

    stream = SplitMix64(0)
    yield "splitmix64 of 0", stream.next(), 0xE220A8397B1DCDAF
    yield "and the second", stream.next(), 0x6E789E6AA1B965F4
    yield "FNV-1a of nothing", fnv1a64(b""), 0xCBF29CE484222325
    yield "FNV-1a of 'a'", fnv1a64(b"a"), 0xAF63DC4C8601EC8C


def quantize_facts():
    def of(values):
        reason, record = quantize_block(values)
        return reason or q8k_decode(record)

    yield "a record of -0 is all zero bytes", quantize_block(block(SIGN)), (None, bytes(292))
    yield "below the smallest legal extreme", of(block(0, {0: 0x02FE0000})), "inverse-overflow"
    yield "and negative", of(block(0, {0: 0x82FE0000})), "inverse-overflow"
    yield "inverse of the smallest legal extreme", f32_div(MINUS_127, SMALLEST_LEGAL), 0xFF7FFFFF
    for extreme, ds in (
        (SMALLEST_LEGAL, 0x80200000), (SMALLEST_LEGAL | SIGN, 0x00200000), (0x03014EAB, 0x802094D4),
        (0x03FDFFFF, 0x807FFFFF), (0x03FE0000, 0x80800000), (FLT_MAX, 0xFC010204),
        (FLT_MAX | SIGN, 0x7C010204), (0x40B191CC, 0xBD32F7BC), (f32(127), 0xBF800000),
    ):
        yield f"ds of extreme 0x{extreme:08X}", of(block(0, {9: extreme})).ds, ds
    yield "0x40B191CC / -127 is another", f32_div(0x40B191CC, MINUS_127), 0xBD32F7BB
    yield "FLT_MAX has code -127", of(block(0, {9: FLT_MAX})).q[9], -127
    inverse = f32_div(MINUS_127, FLT_MAX) & ~SIGN
    yield "the least inverse is normal", inverse >= 0x00800000, True

    ties = [f32(127)] + [f32(Fraction(n, 2)) for n in (1, 3, 5, -1, -3)] + [0] * 250
    yield "0.5 1.5 2.5 -0.5 -1.5 under 127", of(ties).q[1:6], [0, -2, -2, 0, 2]
    for name, plus, minus in (("first", 10, 200), ("last", 200, 10)):
        record = of(block(0, {plus: f32(4), minus: f32(-4)}))
        found = record.ds, record.q[plus], record.q[minus]
        yield f"4 and -4, 4 {name}", found, (0x3D010204, 127, -127)
    for extreme, value, code in (
        (0x401F585A, 0x40031D5C, -104), (0x3F3DE9C5, 0x3D33720D, -8), (0x3FD8F267, 0x3F4472AD, -57)
    ):
        yield f"code of 0x{value:08X}", of(block(0, {0: extreme, 1: value})).q[1], code
    larger_inverse = ulps(f32_div(MINUS_127, 0x401F585A), 1)
    yield "and with the next inverse", f32_to_i8(f32_mul(0x40031D5C, larger_inverse)), -105

    stream = SplitMix64(127)
    largest, unequal, agree = 0, 0, 0
    for _ in range(4000):
        extreme = random_normal(stream, 6, 254)
        inverse = f32_div(MINUS_127, extreme)
        largest = max(largest, f32_mul(extreme, inverse) & ~SIGN)
        unequal += f32_div(ONE, inverse) != f32_div(extreme, MINUS_127)
    yield "largest |R32(extreme * inverse)|", largest, 0x42FE0001
    yield "1/(-127/m) is not -m/127 in about 29 %", 1080 <= unequal <= 1240, True
    classes = (draw_plain, draw_equal_magnitudes, draw_subnormals, draw_mixed)
    for draw in classes * 10:
        values = draw(stream)
        top = max(values, key=lambda bits: (bits << 1 | bits >> 31) & 0xFFFFFFFF)
        agree += top == block_extreme(values)
    yield "the maximum of rotl(bits, 1) is the extreme", agree, 10 * len(classes)

    bad = struct.pack("<I", NAN) + bytes(288)
    blocks = [block(ONE), block(ONE, {7: INFINITY, 6: NAN}), block(1), block(ONE)]
    status, records = quantize(pack_blocks(blocks))
    good = quantize_block(block(ONE))[1]
    yield "lowest bad record", status, "domain-error:1:nonfinite-input@6"
    yield "bad records and good", records, good + bad + bad + good
    yield "quantize of nothing", quantize(b""), ("ok", b"")


def dot_facts():
    def statistics(pair):
        w, x = q4k_decode(pair[0]), q8k_decode(pair[1])
        return statistic_s(w, x), statistic_t(w, x)

    yield "S and T of least codes", statistics(full_scale(-128, -2048)), (-30965760, -2064384)
    yield "S and T of greatest codes", statistics(full_scale(127, 2032)), (30723840, 2048256)
    yield "T of least bsum", statistics(full_scale(0, -32768)), (0, -33030144)
    yield "T of greatest bsum", statistics(full_scale(0, 32767)), (0, 33029136)
    for s, t in ((16777217, -16777219), (-1, 62), (64, -63), (26000000, 28000000)):
        yield f"S {s} and T {t}", statistics(record_pair(s, t)), (s, t)
    stream = SplitMix64(4)
    whole = True
    for _ in range(50):
        lhs, rhs = stream.bytes(Q4K_BYTES), stream.bytes(Q8K_BYTES)
        whole = whole and q4k_encode(q4k_decode(lhs)) == lhs and q8k_encode(q8k_decode(rhs)) == rhs
    yield "records survive decoding and encoding", whole, True
    scales = bytes([0x40, 0, 0, 0, 0, 0xC1, 0, 0, 0, 0x23, 0, 0])
    fields = q4k_decode(bytes(4) + scales + bytes(128))
    yield "sc[4] takes its high bits from byte 4", fields.sc, [0, 0, 0, 0, 16, 3, 0, 0]
    yield "m[5] takes its high bits from byte 9", fields.m, [0, 1, 0, 0, 0, 50, 0, 0]

    yield "no terms", (sequential([]), pairwise([])), (0, 0)
    yield "one -0", (sequential([SIGN]), pairwise([SIGN])), (SIGN, SIGN)
    seven = [f32(n) for n in (2**24, 1, 1, 1, 1, 1, 1)]
    yield "seven terms", (sequential(seven), pairwise(seven)), (f32(2**24), f32(2**24 + 4))
    rounded = dict(rounding_cases())
    trap = dot_terms(*join(rounded["contracted-fold"]))
    yield "contraction trap", sequential(trap), 0
    fused = f32_value(ulps(ONE, 1)) * 16777215 - 16777216
    yield "which fused is 0.99999988", f32(fused), f32(1 - Fraction(1, 2**23))
    yield "p - n in two roundings is +0", dot_terms(*join(rounded["contracted-p"])), [0]
    yield "v half a step over FLT_MAX", dot_terms(*join(rounded["v-overflow-tie"])), [INFINITY]
    names = [name for name, _ in quantize_cases()], [name for name, _ in dot_cases()]
    yield "no two cases share a name", [len(set(n)) for n in names], [len(n) for n in names]
    yield "a negative ds makes x - x -0", term(*record_pair(9, 9, ds=ONE | SIGN)), SIGN
    huge = [f32(10**30), f32(-(10**30)), ONE]
    yield "record order matters", (sequential(huge), sequential(huge[::-1])), (ONE, 0)
