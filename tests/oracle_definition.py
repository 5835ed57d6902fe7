"""The exact definition of kquant's two operations: f32 arithmetic, records, quantized_dot, quantize.

Written from include/kquant/CONTRACT.md alone: it shares nothing with the C, GLSL or OpenCL code.
Every number is an exact rational held in Python integers, and the only inexact step is r32, one
rounding of such a rational to f32. A Python float never appears. f32 numbers travel as their 32
bits in an int, so that zeros keep their signs.
"""

import struct
import typing

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
