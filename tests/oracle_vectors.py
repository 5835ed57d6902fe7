"""Lines of the vector files: making them from inputs, and judging those that are there."""

import struct

from oracle_definition import (
    BLOCK_BYTES, Q4K_BYTES, Q8K_BYTES, cut, dot_terms, pairwise, quantize, sequential)

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
