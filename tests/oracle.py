#!/usr/bin/env python3
"""kquant's two operations, defined in exact arithmetic, and the judge of kquant's test vectors.

This file is a second definition, written from include/kquant/CONTRACT.md alone. It shares nothing
with the C, GLSL or OpenCL code: every number here is an exact rational held in Python integers, and
the only inexact step is r32, one rounding of such a rational to f32. A Python float never appears.

f32 numbers travel as their 32 bits in an int, so that zeros keep their signs. Read in this order:
exact numbers, f32 arithmetic, records, quantized_dot, quantize. What follows is vectors and cases.
"""

import argparse
import pathlib
import struct
import sys
import typing
from fractions import Fraction

# --- Exact numbers -------------------------------------------------------------------------------

SIGN = 0x80000000
INFINITY = 0x7F800000
NAN = 0x7FC00000  # the one NaN pattern kquant ever gives

# Every finite f32 is a whole number of units of 2^-149, every finite f16 one of 2^-24.
F32_UNIT = 1 << 149
F16_UNIT = 1 << 24


def is_nan(bits):
    return bits & ~SIGN > INFINITY


def is_infinite(bits):
    return bits & ~SIGN == INFINITY


def is_finite(bits):
    return bits & ~SIGN < INFINITY


def is_zero(bits):
    return bits & ~SIGN == 0


def f32_units(bits):
    """The exact value of a finite f32, in units of 2^-149. Both zeros give 0."""
    exponent = bits >> 23 & 255
    fraction = bits & 0x7FFFFF
    units = fraction if exponent == 0 else (0x800000 + fraction) << (exponent - 1)
    return -units if bits & SIGN else units


def f32_from_units(negative, units):
    """The f32 of a sign and a magnitude that f32 holds exactly; 2^128 and more is infinity."""
    sign = SIGN if negative else 0
    if units >= F32_UNIT << 128:
        return sign | INFINITY
    if units < 0x800000:
        return sign | units
    spare = units.bit_length() - 24
    return sign | (spare + 1) << 23 | (units >> spare) - 0x800000


def nearest_even(numerator, denominator):
    """The whole number nearest to a rational >= 0, the even one where two are equally near."""
    whole, rest = divmod(numerator, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1):
        return whole + 1
    return whole


def r32(negative, numerator, denominator):
    """R32: the exact magnitude numerator / denominator, with a sign, rounded once to f32."""
    if numerator == 0:
        return f32_from_units(negative, 0)
    exponent = numerator.bit_length() - denominator.bit_length()
    if numerator << max(-exponent, 0) < denominator << max(exponent, 0):
        exponent -= 1
    # Now 2^exponent <= magnitude < 2^(exponent + 1). Neighbouring f32 numbers there are 2^step
    # apart; below 2^-126, among the subnormals, the step stays 2^-149.
    step = max(exponent, -126) - 23
    count = nearest_even(numerator << max(-step, 0), denominator << max(step, 0))
    return f32_from_units(negative, count << (step + 149))


# --- f32 arithmetic with IEEE 754 special values -------------------------------------------------


def f32_mul(a, b):
    if is_nan(a) or is_nan(b):
        return NAN
    negative = (a ^ b) & SIGN
    if is_infinite(a) or is_infinite(b):
        return NAN if is_zero(a) or is_zero(b) else negative | INFINITY
    return r32(negative, abs(f32_units(a) * f32_units(b)), F32_UNIT * F32_UNIT)


def f32_div(a, b):
    if is_nan(a) or is_nan(b):
        return NAN
    negative = (a ^ b) & SIGN
    if is_infinite(a):
        return NAN if is_infinite(b) else negative | INFINITY
    if is_infinite(b):
        return negative
    if is_zero(b):
        return NAN if is_zero(a) else negative | INFINITY
    return r32(negative, abs(f32_units(a)), abs(f32_units(b)))


def f32_add(a, b):
    if is_nan(a) or is_nan(b):
        return NAN
    if is_infinite(a):
        return NAN if is_infinite(b) and a != b else a
    if is_infinite(b):
        return b
    total = f32_units(a) + f32_units(b)
    if total == 0:
        return a & b & SIGN  # -0 only from -0 + -0; x + -x is +0
    return r32(total < 0, abs(total), F32_UNIT)


def f32_sub(a, b):
    return f32_add(a, b ^ SIGN)


def i32_to_f32(n):
    return r32(n < 0, abs(n), 1)


def f16_to_f32(bits):
    """Exact: every f16 is an f32. An f16 NaN gives the one NaN."""
    negative = bits & 0x8000
    exponent = bits >> 10 & 31
    fraction = bits & 1023
    if exponent == 31:
        return NAN if fraction else (SIGN if negative else 0) | INFINITY
    units = fraction if exponent == 0 else (1024 + fraction) << (exponent - 1)
    return r32(negative, units, F16_UNIT)


def f32_to_i8(bits):
    """saturate_i8(round_nearest_even(x)); an infinity saturates, no NaN may reach this."""
    if is_nan(bits):
        raise ValueError("a NaN has no nearest integer")
    if is_infinite(bits):
        return -128 if bits & SIGN else 127
    nearest = nearest_even(abs(f32_units(bits)), F32_UNIT)
    return max(-128, min(127, -nearest if bits & SIGN else nearest))


# --- Records -------------------------------------------------------------------------------------

BLOCK_BYTES = 1024
Q4K_BYTES = 144
Q8K_BYTES = 292


class Q4K(typing.NamedTuple):
    d: int  # f16 bits
    dmin: int  # f16 bits
    sc: list
    m: list
    q: list


class Q8K(typing.NamedTuple):
    ds: int  # f32 bits
    q: list
    bsum: list


def q4k_decode(a):
    d, dmin = struct.unpack_from("<HH", a)
    fields = []
    for r in (0, 1):
        first = [a[4 + 4 * r + i] & 63 for i in range(4)]
        last = [a[12 + t] >> 4 * r & 15 | a[4 + 4 * r + t] >> 6 << 4 for t in range(4)]
        fields.append(first + last)
    q = [a[16 + 32 * (i // 64) + i % 32] >> (0 if i % 64 < 32 else 4) & 15 for i in range(256)]
    return Q4K(d, dmin, fields[0], fields[1], q)


def q4k_encode(record):
    a = bytearray(struct.pack("<HH", record.d, record.dmin) + bytes(140))
    for r, field in enumerate((record.sc, record.m)):
        for i in range(4):
            a[4 + 4 * r + i] |= field[i] | field[4 + i] >> 4 << 6
            a[12 + i] |= (field[4 + i] & 15) << 4 * r
    for i, q in enumerate(record.q):
        a[16 + 32 * (i // 64) + i % 32] |= q << (0 if i % 64 < 32 else 4)
    return bytes(a)


def q8k_decode(a):
    ds, *rest = struct.unpack("<I256b16h", a)
    return Q8K(ds, rest[:256], rest[256:])


def q8k_encode(record):
    return struct.pack("<I256b16h", record.ds, *record.q, *record.bsum)


def bsum_of(q):
    return [sum(q[16 * j : 16 * j + 16]) for j in range(16)]


def q8k_legal(ds, q):
    return Q8K(ds, q, bsum_of(q))


def cut(data, size):
    """The consecutive pieces of size bytes that data consists of."""
    if len(data) % size:
        raise ValueError(f"{len(data)} bytes are no multiple of {size}")
    return [data[at : at + size] for at in range(0, len(data), size)]


# --- quantized_dot -------------------------------------------------------------------------------


def statistic_s(w, x):
    return sum(
        w.sc[s] * sum(w.q[32 * s + i] * x.q[32 * s + i] for i in range(32)) for s in range(8)
    )


def statistic_t(w, x):
    return sum(w.m[s] * (x.bsum[2 * s] + x.bsum[2 * s + 1]) for s in range(8))


def term(lhs, rhs):
    """v, what one Q4_K record and one Q8_K record (as bytes) add to a dot."""
    w, x = q4k_decode(lhs), q8k_decode(rhs)
    p = f32_mul(f16_to_f32(w.d), i32_to_f32(statistic_s(w, x)))
    n = f32_mul(f16_to_f32(w.dmin), i32_to_f32(statistic_t(w, x)))
    return f32_mul(x.ds, f32_sub(p, n))


def sequential(terms):
    """((v0 + v1) + v2) + ...; it starts from v0, so that a lone -0 stays -0."""
    if not terms:
        return 0
    total = terms[0]
    for v in terms[1:]:
        total = f32_add(total, v)
    return total


def pairwise(terms):
    """Level by level t[2i] + t[2i+1]; an odd last term passes up unchanged."""
    if not terms:
        return 0
    while len(terms) > 1:
        sums = [f32_add(terms[i], terms[i + 1]) for i in range(0, len(terms) - 1, 2)]
        terms = sums + terms[2 * len(sums) :]
    return terms[0]


def dot_terms(lhs, rhs):
    """v[0], v[1], ... of the G records in lhs and in rhs."""
    left, right = cut(lhs, Q4K_BYTES), cut(rhs, Q8K_BYTES)
    if len(left) != len(right):
        raise ValueError(f"lhs has {len(left)} records and rhs {len(right)}")
    return [term(w, x) for w, x in zip(left, right)]


# --- quantize ------------------------------------------------------------------------------------

MINUS_127 = 0xC2FE0000
ONE = 0x3F800000

ZERO_RECORD = q8k_encode(q8k_legal(0, [0] * 256))
BAD_RECORD = q8k_encode(q8k_legal(NAN, [0] * 256))


def block_extreme(values):
    """The f32 bits of the extreme of a finite block; the minimum wins where magnitudes tie."""
    units = [f32_units(bits) for bits in values]
    low, high = min(units), max(units)
    extreme = high if abs(high) > abs(low) else low
    return f32_from_units(extreme < 0, abs(extreme))


def quantize_block(values):
    """(reason, record bytes) of the 256 f32 of one block; reason is None for a legal one."""
    for element, bits in enumerate(values):
        if not is_finite(bits):
            return f"nonfinite-input@{element}", BAD_RECORD
    extreme = block_extreme(values)
    if is_zero(extreme):
        return None, ZERO_RECORD
    inverse = f32_div(MINUS_127, extreme)
    if is_infinite(inverse):
        return "inverse-overflow", BAD_RECORD
    ds = f32_div(ONE, inverse)
    scaled = [f32_mul(bits, inverse) for bits in values]
    # The contract says that no third reason exists.
    assert is_finite(ds) and all(is_finite(bits) for bits in scaled)
    return None, q8k_encode(q8k_legal(ds, [f32_to_i8(bits) for bits in scaled]))


def quantize(values):
    """(status, record bytes) of the f32 bytes of G blocks; the status names the lowest bad one."""
    status, records = "ok", []
    for g, data in enumerate(cut(values, BLOCK_BYTES)):
        reason, record = quantize_block(struct.unpack("<256I", data))
        if reason and status == "ok":
            status = f"domain-error:{g}:{reason}"
        records.append(record)
    return status, b"".join(records)


# --- Deterministic inputs ------------------------------------------------------------------------

MASK64 = (1 << 64) - 1


class SplitMix64:
    def __init__(self, seed):
        self.state = seed & MASK64

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK64
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
        return z ^ z >> 31

    def below(self, n):
        return self.next() % n

    def between(self, low, high):
        return low + self.below(high - low + 1)

    def pick(self, choices):
        return choices[self.below(len(choices))]

    def bits(self):
        return self.next() & 0xFFFFFFFF

    def bytes(self, size):
        words = -(-size // 8)
        return b"".join(struct.pack("<Q", self.next()) for _ in range(words))[:size]


def fnv1a64(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 & MASK64
    return digest


def bulk_values(seed, g):
    stream = SplitMix64(seed)
    words = []
    for _ in range(256 * g):
        x = stream.bits()
        words.append(x & 0x807FFFFF | 120 + (x >> 23 & 255) % 8 << 23)
    return struct.pack(f"<{256 * g}I", *words)


def bulk_q4k(seed, g):
    stream = SplitMix64(seed)
    records = []
    for _ in range(g):
        record = stream.bytes(Q4K_BYTES)
        scales = [h & 0x83FF | 8 + (h >> 10 & 7) << 10 for h in struct.unpack_from("<HH", record)]
        records.append(struct.pack("<HH", *scales) + record[4:])
    return b"".join(records)


# --- Lines of the vector files -------------------------------------------------------------------

COLUMNS = {
    "quantize.tsv": ("name", "G", "values", "status", "records"),
    "dot.tsv": ("name", "G", "lhs", "rhs", "sequential", "pairwise"),
    "bulk.tsv": ("seed", "G", "fnv1a64", "sequential", "pairwise"),
}

HEADERS = {
    "quantize.tsv": "# name\tG\tvalues f32 LE hex\tok | domain-error:RECORD:REASON\t"
    "every output byte, hex",
    "dot.tsv": "# name\tG\tlhs Q4_K hex\trhs Q8_K hex\tsequential f32 bits\tpairwise f32 bits",
    "bulk.tsv": "# seed\tG\tfnv1a64 of the Q8_K records quantized from values(seed)\t"
    "sequential and pairwise f32 bits of dot(q4(seed+1), those records)",
}


def to_hex(data):
    return data.hex() or "-"


def from_hex(text):
    return b"" if text == "-" else bytes.fromhex(text)


def quantize_line(name, values):
    status, records = quantize(values)
    return name, str(len(values) // BLOCK_BYTES), to_hex(values), status, to_hex(records)


def dot_line(name, lhs, rhs):
    terms = dot_terms(lhs, rhs)
    results = f"{sequential(terms):08x}", f"{pairwise(terms):08x}"
    return name, str(len(terms)), to_hex(lhs), to_hex(rhs), *results


def bulk_line(seed, g):
    seed &= MASK64
    status, records = quantize(bulk_values(seed, g))
    assert status == "ok"
    terms = dot_terms(bulk_q4k(seed + 1, g), records)
    digest = f"{fnv1a64(records):016x}"
    return f"{seed:016x}", str(g), digest, f"{sequential(terms):08x}", f"{pairwise(terms):08x}"


def exact_line(file_name, line):
    """The line as it must be, from the inputs that it holds."""
    if len(line) != len(COLUMNS[file_name]):
        raise ValueError(f"{len(line)} columns, not {len(COLUMNS[file_name])}")
    if file_name == "quantize.tsv":
        return quantize_line(line[0], from_hex(line[2]))
    if file_name == "dot.tsv":
        return dot_line(line[0], from_hex(line[2]), from_hex(line[3]))
    seed, g = int(line[0], 16), int(line[1])
    if g < 0:
        raise ValueError(f"G is {g}")
    return bulk_line(seed, g)


def place_in_records(given, exact):
    """Record and field of the first byte in which two hex texts of Q8_K records differ."""
    pairs = zip(cut(given, 2), cut(exact, 2))
    at = next(i for i, (one, other) in enumerate(pairs) if one != other)
    record, byte = divmod(at, Q8K_BYTES)
    if byte < 4:
        field = "ds"
    elif byte < 260:
        field = f"q[{byte - 4}]"
    else:
        field = f"bsum[{(byte - 260) // 2}]"
    given, exact = given[2 * at : 2 * at + 2], exact[2 * at : 2 * at + 2]
    return f"record {record}, {field}, byte {byte}: file {given}, exact {exact}"


def difference(file_name, line):
    """What is wrong with a line, in words, or None."""
    try:
        exact = exact_line(file_name, line)
    except ValueError as error:
        return str(error)
    for column, given, right in zip(COLUMNS[file_name], line, exact):
        if given == right:
            continue
        if column in ("values", "lhs", "rhs"):
            return f"{column}: not plain lower-case hex, or `-` for none"
        if column == "records" and len(given) == len(right):
            return f"{column}: {place_in_records(given, right)}"
        if column == "records":
            return f"{column}: {len(given)} characters in the file, {len(right)} in the exact line"
        return f"{column}: file {given!r}, exact {right!r}"
    return None


def write_vectors(directory, file_name, lines):
    """Writes one file and says how many cases it has."""
    directory.mkdir(parents=True, exist_ok=True)
    count = 0
    with open(directory / file_name, "w", encoding="ascii", newline="\n") as out:
        out.write(HEADERS[file_name] + "\n")
        for line in lines:
            out.write("\t".join(line) + "\n")
            count += 1
    print(f"{file_name}: {count} cases")


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


# --- Commands ------------------------------------------------------------------------------------

SHOWN = 20  # mismatches named for each file


def check_file(path):
    """Recomputes every line. Returns (cases, wrong)."""
    cases = wrong = 0
    with open(path, encoding="ascii", errors="replace", newline="\n") as lines:
        for number, text in enumerate(lines, 1):
            text = text.removesuffix("\n")
            if text.startswith("#"):
                continue
            line = tuple(text.split("\t"))
            cases += 1
            trouble = difference(path.name, line)
            if trouble:
                wrong += 1
                if wrong <= SHOWN:
                    print(f"{path.name}:{number}: {line[0]}: {trouble}")
    return cases, wrong


def run_check(arguments):
    paths = [arguments.dir / file_name for file_name in COLUMNS]
    paths = [path for path in paths if path.is_file()]
    if not paths:
        print(f"oracle: nothing to check: no {', '.join(COLUMNS)} in {arguments.dir}",
              file=sys.stderr)
        return 77
    results = []
    for path in paths:
        cases, wrong = check_file(path)
        print(f"{path.name}: {cases} cases, {wrong} wrong")
        results.append((cases, wrong))
    if any(wrong for _, wrong in results):
        return 1
    if not all(cases for cases, _ in results):
        print("oracle: a file without cases tests nothing", file=sys.stderr)
        return 77
    return 0


def run_make(arguments):
    quantize_lines = (quantize_line(n, pack_blocks(blocks)) for n, blocks in quantize_cases())
    write_vectors(arguments.dir, "quantize.tsv", quantize_lines)
    write_vectors(arguments.dir, "dot.tsv", (dot_line(n, *join(pairs)) for n, pairs in dot_cases()))
    write_vectors(arguments.dir, "bulk.tsv", (bulk_line(seed, g) for seed, g in bulk_cases()))
    return 0


def run_draw(arguments):
    draws, seed = arguments.draws, arguments.seed
    blocks = ((name, pack_blocks(blocks)) for name, blocks in quantize_draws(draws, seed))
    write_vectors(arguments.dir, "quantize.tsv", (quantize_line(*case) for case in blocks))
    pairs = ((name, *join(pairs)) for name, pairs in dot_draws(draws, seed))
    write_vectors(arguments.dir, "dot.tsv", (dot_line(*case) for case in pairs))
    return 0


def run_selftest(_):
    count = wrong = 0
    for claim, ours, contract in facts():
        count += 1
        if ours != contract:
            wrong += 1
            print(f"{claim}: {show(ours)}, the contract says {show(contract)}")
    print(f"selftest: {count} facts, {wrong} wrong")
    return 1 if wrong else 0


def show(value):
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value} (0x{value & 0xFFFFFFFF:08x})"
    return str(value)


def whole_number(low, high):
    def parse(text):
        number = int(text, 0)
        if not low <= number <= high:
            raise ValueError
        return number

    parse.__name__ = f"number from {low} to {high}"
    return parse


def command_line():
    parser = argparse.ArgumentParser(
        prog="oracle.py",
        description=__doc__.split("\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""\
A vector file is tab-separated text, one case a line, `-` for empty bytes:
  quantize.tsv  name, G, values, ok | domain-error:RECORD:REASON, records
  dot.tsv       name, G, lhs records, rhs records, sequential and pairwise result bits
  bulk.tsv      seed, G, digest of the records, sequential and pairwise result bits

  oracle.py check tests/vectors              is every line of those files exactly right?
  oracle.py make tests/vectors/edges         write the hand-made cases again
  oracle.py draw /tmp/d --draws=50 --seed=7  50 random cases of each operation
  oracle.py selftest                         does this file say what the contract says?

Exit status: 0 all right, 1 something is wrong, 2 the command line is, 77 nothing to check.
""",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, run, text, directory=None):
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(run=run)
        if directory:
            sub.add_argument("dir", metavar="DIR", type=pathlib.Path, help=directory)
        return sub

    command(
        "check", run_check, "recompute every line of DIR's vector files and compare every column",
        "folder with any of quantize.tsv, dot.tsv and bulk.tsv",
    )
    command(
        "make", run_make, "write the hand-made cases, always the same bytes",
        "folder for quantize.tsv, dot.tsv and bulk.tsv; made if missing, files are replaced",
    )
    draw = command(
        "draw", run_draw, "write random cases; the same seed gives the same bytes",
        "folder for quantize.tsv and dot.tsv; made if missing, files are replaced",
    )
    draw.add_argument(
        "--draws", metavar="N", type=whole_number(1, 10**9), default=2000,
        help="cases of each operation (default %(default)s); more leave the first ones as they are",
    )
    draw.add_argument(
        "--seed", metavar="N", type=whole_number(0, MASK64), default=1,
        help="which cases, 0 to 2^64-1, 0x for hex (default %(default)s)",
    )
    command("selftest", run_selftest, "hold this definition against facts the contract states")
    return parser


def main():
    arguments = command_line().parse_args()
    try:
        return arguments.run(arguments)
    except OSError as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 99


if __name__ == "__main__":
    sys.exit(main())
