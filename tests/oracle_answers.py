"""Judges the known answers of the self-test: src/known_answers.h and the constants of
src/self_test.c. What each primitive gives is said here in exact arithmetic, from its description;
nothing is shared with exact.h and records.h.
"""

import collections
import re
import struct
from fractions import Fraction

from oracle_definition import (
    F32_UNIT, NAN, Q4K_BYTES, Q8K_BYTES, SIGN, f16_to_f32, f32_add, f32_div, f32_mul,
    f32_sub, f32_to_i8, f32_units, i32_to_f32, is_finite, is_infinite, is_nan, is_zero, quantize,
    term)
from oracle_vectors import bulk_line, bulk_q4k, bulk_values

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


def exact_constants():
    """Of the operands values(seed = 1) and q4(seed = 2), 8 records each."""
    _, _, digest, sequential, pairwise = bulk_line(1, 8)
    lhs = bulk_q4k(2, 8)
    _, records = quantize(bulk_values(1, 8))
    shared = [term(lhs[at : at + Q4K_BYTES], records[:Q8K_BYTES])
              for at in range(0, len(lhs), Q4K_BYTES)]
    return {"known_records": [int(digest, 16)], "known_sequential": [int(sequential, 16)],
            "known_pairwise": [int(pairwise, 16)], "known_shared": shared}


def judge_constants(text):
    """(constants, faults) of src/self_test.c."""
    faults, count = [], 0
    for name, exact in exact_constants().items():
        found = re.search(rf"\b{name}(?:\[\w+\])? = ([^;]*);", text)
        given = [int(word, 16) for word in re.findall(r"0x[0-9A-Fa-f]+", found[1])] if found else []
        count += len(given)
        if given != exact:
            faults.append(f"{name}: {[f'0x{word:08X}' for word in given]}, "
                          f"exactly {[f'0x{word:08X}' for word in exact]}")
    return count, faults
