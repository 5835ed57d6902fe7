"""Judges the known answers of the self-test: src/known_answers.h and the constants of
src/self_test.c. What each primitive gives is said here in exact arithmetic, from its description;
nothing is shared with exact.h and records.h.
"""

import collections
import re
import struct
from fractions import Fraction

from oracle_definition import (
    F32_UNIT, INFINITY, NAN, Q4K_BYTES, SIGN, f16_to_f32, f32_add, f32_div, f32_mul, f32_sub,
    f32_to_i8, f32_units, i32_to_f32, is_finite, is_infinite, is_nan, is_zero, pairwise,
    quantize_block, sequential, term)
from oracle_vectors import SplitMix64, bulk_values, fnv1a64

WORD = 0xFFFFFFFF

# --- The primitives ------------------------------------------------------------------------------


def signed(bits, value):
    """A two's complement number of so many bits."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def bytes_of(word):
    return struct.pack("<I", word)


def word_of(four):
    return struct.unpack("<I", bytes(four))[0]


def fields_high(a, b):
    return word_of(low & 15 | high >> 6 << 4 for high, low in zip(bytes_of(a), bytes_of(b)))


def dot4(a, b):
    if any(code > 15 for code in bytes_of(a)):
        raise ValueError("a code is above 15")
    return sum(code * signed(8, lane) for code, lane in zip(bytes_of(a), bytes_of(b))) & WORD


Primitive = collections.namedtuple("Primitive", "name operands result")

PRIMITIVES = {
    1: Primitive("f16 to f32", 1, lambda a: f16_to_f32(a & 0xFFFF)),
    2: Primitive("i32 to f32", 1, lambda a: i32_to_f32(signed(32, a))),
    3: Primitive("multiply", 2, f32_mul),
    4: Primitive("add", 2, f32_add),
    5: Primitive("subtract", 2, f32_sub),
    6: Primitive("divide", 2, f32_div),
    7: Primitive("f32 to i8", 1, lambda a: 0 if is_nan(a) else f32_to_i8(a) & WORD),
    8: Primitive("low fields", 1, lambda a: word_of(byte & 63 for byte in bytes_of(a))),
    9: Primitive("high fields", 2, fields_high),
    10: Primitive("dot of four", 2, dot4),
    11: Primitive("sum of two", 1, lambda a: signed(16, a) + signed(16, a >> 16) & WORD),
    12: Primitive("extreme key", 1, lambda a: (a << 1 | a >> 31) & WORD),
    13: Primitive("u32 divide", 2, lambda a, b: a // b if b != 0 else 0),
}


# --- What a row is there for ---------------------------------------------------------------------


def is_subnormal(bits):
    return 0 < bits & ~SIGN < 0x800000


def rounding(exact, result):
    """How an exact number of units of 2^-149 became the f32 `result`: exact, tie, up or down in
    magnitude."""
    exact, given = abs(exact), result & ~SIGN
    if exact == f32_units(given):
        return "exact"
    up = exact < f32_units(given)
    other = f32_units(given - 1 if up else given + 1)
    if abs(exact - other) == abs(exact - f32_units(given)):
        return "tie up" if up else "tie down"
    return "up" if up else "down"


def exact_units(number, a, b):
    """The exact result of multiply, add, subtract or divide, in units of 2^-149."""
    x, y = f32_units(a), f32_units(b)
    return {3: lambda: Fraction(x * y, F32_UNIT), 4: lambda: x + y, 5: lambda: x - y,
            6: lambda: Fraction(x * F32_UNIT, y)}[number]()


def classes(row):
    """What the row is an example of."""
    number, a, b, result = row
    operands = (a, b)[: PRIMITIVES[number].operands]
    if number in (3, 4, 5, 6):
        for name, has in ("nan", is_nan), ("infinity", is_infinite), ("zero", is_zero):
            if any(map(has, operands)):
                yield name + " operand"
        if result == NAN and not any(map(is_nan, operands)):
            yield "invalid"
        if any(map(is_subnormal, operands)):
            yield "subnormal operand"
        if is_subnormal(result):
            yield "subnormal result"
        if all(map(is_finite, operands)) and not (number == 6 and is_zero(b)):
            how = rounding(exact_units(number, a, b), result)
            yield how
            if is_infinite(result):
                yield "overflow"
            if is_zero(result):
                yield "zero result" if how == "exact" else "underflow"
            if result == SIGN:
                yield "negative zero"
    elif number == 1:
        h = a & 0x7FFF
        kinds = ("nan", h > 0x7C00), ("infinity", h == 0x7C00), ("zero", h == 0), \
            ("subnormal", 0 < h < 0x400), ("normal", 0x400 <= h < 0x7C00), \
            ("negative", a & 0x8000), ("upper half set", a >> 16)
        yield from (name for name, has in kinds if has)
    elif number == 2:
        yield rounding(signed(32, a) * F32_UNIT, result)
        if a & SIGN:
            yield "negative"
    elif number == 7:
        if is_nan(a):
            yield "nan"
        elif not is_finite(a) or abs(f32_units(a)) >= 129 * F32_UNIT:
            yield "saturated"
        else:
            rest = abs(f32_units(a)) % F32_UNIT
            yield "exact" if rest == 0 else "tie" if 2 * rest == F32_UNIT else "rounded"
        if a & SIGN:
            yield "negative"
    elif number == 13:
        if a >> 24:
            yield "beyond f32"
        if b != 0 and a % b == 0:
            yield "exact"
        if b != 0 and a % b == b - 1:
            yield "a quotient below"


SUM = {"nan operand": 3, "infinity operand": 4, "zero operand": 4, "invalid": 1,
       "subnormal operand": 6, "subnormal result": 3, "overflow": 2, "zero result": 5,
       "negative zero": 1, "exact": 14, "tie up": 4, "tie down": 2, "up": 4, "down": 3}

# The fewest rows of each class that leave no mistake of CONTRACT.md's last chapter to luck.
FEWEST = {
    1: {"rows": 20, "nan": 2, "infinity": 2, "zero": 2, "subnormal": 6, "normal": 6, "negative": 6,
        "upper half set": 2},
    2: {"rows": 25, "exact": 12, "tie up": 4, "tie down": 4, "up": 1, "down": 2, "negative": 6},
    3: {"rows": 40, "nan operand": 4, "infinity operand": 5, "zero operand": 4, "invalid": 2,
        "subnormal operand": 7, "subnormal result": 6, "overflow": 3, "zero result": 2,
        "negative zero": 2, "underflow": 3, "exact": 8, "tie up": 2, "tie down": 4, "up": 7,
        "down": 4},
    4: SUM | {"rows": 35},
    5: SUM | {"rows": 35},
    6: {"rows": 35, "nan operand": 2, "infinity operand": 3, "zero operand": 4, "invalid": 2,
        "subnormal operand": 7, "subnormal result": 6, "overflow": 3, "zero result": 2,
        "negative zero": 1, "underflow": 1, "exact": 6, "tie up": 2, "tie down": 2, "up": 5,
        "down": 4},
    7: {"rows": 25, "nan": 2, "saturated": 6, "exact": 3, "tie": 8, "rounded": 4, "negative": 8},
    8: {"rows": 4},
    9: {"rows": 5},
    10: {"rows": 8},
    11: {"rows": 5},
    12: {"rows": 6},
    13: {"rows": 4, "exact": 1, "a quotient below": 1, "beyond f32": 4},
}

# --- The files -----------------------------------------------------------------------------------

ROW = re.compile(r"\{(\d+), 0x([0-9A-F]{8}), 0x([0-9A-F]{8}), 0x([0-9A-F]{8})\}")


def rows_of(text):
    """The rows of the table, and what is wrong with its form."""
    table = re.search(r"kq_known_answers\[\]\[4\] = \{(.*?)\n\};", text, re.S)
    if not table:
        return [], ["no table kq_known_answers"]
    body = re.sub(r"//.*", "", table[1])
    rows = [(int(n), *(int(word, 16) for word in words)) for n, *words in ROW.findall(body)]
    rest = re.sub(r"[\s,]", "", ROW.sub("", body))
    return rows, [f"not a row: {rest[:60]!r}"] if rest else []


def judge_row(row):
    number, a, b, given = row
    where = f"{{{number}, 0x{a:08X}, 0x{b:08X}, 0x{given:08X}}}"
    primitive = PRIMITIVES.get(number)
    if primitive is None:
        return f"{where}: there is no such primitive"
    if primitive.operands == 1 and b != 0:
        return f"{where}: {primitive.name} has no operand b"
    try:
        exact = primitive.result(*(a, b)[: primitive.operands])
    except ValueError as error:
        return f"{where}: {error}"
    return None if given == exact else f"{where}: {primitive.name} gives 0x{exact:08X}"


def judge_table(text):
    """(rows, faults) of src/known_answers.h."""
    rows, faults = rows_of(text)
    faults += filter(None, map(judge_row, rows))
    faults += [f"row {row} is there {count} times"
               for row, count in collections.Counter(rows).items() if count > 1]
    if [row[0] for row in rows] != sorted(row[0] for row in rows):
        faults.append("the rows are not in the order of their primitives")
    for number, fewest in FEWEST.items():
        own = [row for row in rows if row[0] == number]
        counts = collections.Counter(name for row in own if not judge_row(row)
                                     for name in classes(row))
        counts["rows"] = len(own)
        faults += [f"{PRIMITIVES[number].name}: {counts[name]} of class {name!r}, fewer than {least}"
                   for name, least in fewest.items() if counts[name] < least]
    return len(rows), faults


# --- The operations ------------------------------------------------------------------------------

VALUES_SEED, LHS_BYTES, RECORD_STRIDE = 30, 864, 293


def finite_f16(byte):
    """A byte that is no upper one of an infinite f16 or a NaN."""
    return byte ^ 0x40 if byte & 0x7C == 0x7C else byte


def placed(size, pieces):
    """What is left of poison by pieces of bytes at offsets."""
    data = bytearray(b"\xA5" * size)
    for at, piece in pieces:
        data[at : at + len(piece)] = piece
    return bytes(data)


def quantized(blocks):
    """(status words, records) of blocks of 256 words."""
    reasons, records = zip(*map(quantize_block, blocks))
    bad = [g for g, reason in enumerate(reasons) if reason]
    return [min(bad, default=WORD), len(bad), len(records), 0], records


Dots = collections.namedtuple(
    "Dots", "step size skip fold G lhs rhs lhs_stride rhs_stride count lhs_step rhs_step result_step")

# Places, stride and steps of rhs are counted in records: those of the first quantize, then those of
# the second. lhs is the known answers, of which TINY is one, and bytes of its own, from LHS on.
ITEM, LEVELS = 16, 10
TINY, LHS = 30 * ITEM, 273 * ITEM
DOTS = [
    Dots("sequential dot", 8, 1, sequential, 6, LHS, 0, 144, 1, (1, 1), (0, 0), (0, 0), (0, 0)),
    Dots("pairwise dot", 16, 3, pairwise, 601, LHS, 0, 1, 0, (2, 1), (31, 0), (1, 0), (5, 0)),
    Dots("repeat of dots", 64, 0, sequential, 3, LHS, 0, 147, 1, (4, 3), (7, 31), (1, 2), (5, 22)),
    Dots("repeat of dots", 96, 2, pairwise, 3, LHS, 0, 150, 1, (6, 2), (31, 7), (1, 2), (17, 5)),
    Dots("repeat of dots", 64, 0, sequential, 2, TINY, LEVELS, ITEM, 0, (8, 2),
         (5 * ITEM, LHS - TINY), (0, 1), (4, 32)),
    Dots("dots of shared records", 292, 1, sequential, 5, LHS, 0, 144, 1, (10, 7), (1, 13), (0, 0),
         (4, 41)),
    Dots("dots of shared records", 284, 2, pairwise, 5, LHS, 0, 144, 1, (10, 7), (13, 1), (0, 0),
         (28, 4)),
    Dots("dots of shared records", 128, 0, pairwise, 2, TINY, LEVELS, ITEM, 0, (16, 2),
         (3 * ITEM, 64 * ITEM), (0, 0), (4, 64)),
    Dots("dots of shared records", 128, 0, pairwise, 2, LHS, LEVELS + 1, 1, 0, (16, 2), (3, 400),
         (0, 0), (4, 64)),
    Dots("dots of shared records", 280, 0, sequential, 5, LHS, 0, ITEM, 1, (10, 7), (ITEM, 5 * ITEM),
         (0, 0), (4, 40)),
    Dots("columns of dots", 1320, 0, sequential, 2, LHS - 24 * ITEM, 4, 2 * ITEM, 1, (66, 5),
         (ITEM, 0), (0, 1), (4, 264)),
]


def exact_results(dots, lhs, records):
    """The results of some dots, at their offsets."""
    def along(first, stride, step, i, j):
        return [first + g * stride + i * step[0] + j * step[1] for g in range(dots.G)]

    for j in range(dots.count[1]):
        for i in range(dots.count[0]):
            left = along(dots.lhs, dots.lhs_stride, dots.lhs_step, i, j)
            right = along(dots.rhs, dots.rhs_stride, dots.rhs_step, i, j)
            terms = [term(lhs[at : at + Q4K_BYTES], records[g]) for at, g in zip(left, right)]
            yield (dots.skip + i * dots.result_step[0] + j * dots.result_step[1],
                   struct.pack("<I", dots.fold(terms)))


def exact_outputs(rows):
    """[(step, FNV-1a)] of what the operations write behind these known answers, and the statuses of
    quantize."""
    values = list(struct.unpack(f"<{256 * 5}I", bulk_values(VALUES_SEED, 5)))[:1066]
    values[3::4] = [bits - (120 << 23) for bits in values[3::4]]
    values[-1] = INFINITY + 1  # a NaN
    levels = 0x02FE0001, 0xFF7FFFFF, 0x80000000, 0x8000C001, 0x00000081, 0x7F800000
    lhs = b"".join(struct.pack("<4I", *row) for row in rows)
    lhs += bytes(map(finite_f16, SplitMix64(2).bytes(LHS_BYTES)))
    first, records = quantized([values[5 * g :: 4][:256] for g in range(10)])
    second, level_records = quantized([[level] * 256 for level in levels])
    packed = values[:267] + values[-1:]
    third, packed_records = quantized([packed[4 * g :][:256] for g in range(4)])
    outputs = [
        ("quantize", placed(2932, [(3 + RECORD_STRIDE * g, r) for g, r in enumerate(records)])),
        ("quantize", b"".join(level_records)),
        ("quantize", b"".join(packed_records)),
    ]
    records += level_records
    outputs += [(dots.step, placed(dots.size, exact_results(dots, lhs, records))) for dots in DOTS]
    return [(step, fnv1a64(data)) for step, data in outputs], [first, second, third]


def judge_constants(text, table):
    """(constants, faults) of src/self_test.c, for which the rows of src/known_answers.h are too."""
    outputs, statuses = exact_outputs(rows_of(table)[0])
    given = [(step, int(known, 16)) for step, known in
             re.findall(r'\.output = \{"([^"]*)", [^}]*\bUINT64_C\((0x[0-9A-F]{16})\)\}', text)]
    stated = [[int(word) for word in words.split(",")]
              for words in re.findall(r"\.known_status = \{([^}]*)\}", text)]
    faults = [f"{step}: 0x{was:016X}, exactly 0x{known:016X}"
              for (_, was), (step, known) in zip(given, outputs) if was != known]
    if [step for step, _ in given] != [step for step, _ in outputs]:
        faults.append(f"outputs of {[step for step, _ in given]}, "
                      f"not {[step for step, _ in outputs]}")
    if stated != statuses:
        faults.append(f"statuses {stated}, exactly {statuses}")
    return len(given) + len(stated), faults
