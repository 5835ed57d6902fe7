#!/usr/bin/env python3
"""Small GGUF files, the same bytes every time: good ones from known records, and broken ones.

tests/data/small.gguf is the case `small`. Each broken case is the case `tiny` with one thing wrong.
"""

import argparse
import pathlib
import struct
import sys

from oracle_definition import Q4K, q4k_encode
from oracle_vectors import SplitMix64, bulk_q4k

# Numbers of the format
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
PACKED = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?"}
PACKED |= {U64: "Q", I64: "q", F64: "d"}
TENSOR_F32, TENSOR_Q8_0, TENSOR_Q4_K, TENSOR_I8 = 0, 8, 12, 24

# --- Writing -------------------------------------------------------------------------------------


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    """kind is a number, or a list: [STRING] is an array of strings, [[U8]] one of arrays of u8."""
    if isinstance(kind, list):
        inner = ARRAY if isinstance(kind[0], list) else kind[0]
        head = struct.pack("<IQ", inner, len(content))
        return head + b"".join(value(kind[0], each) for each in content)
    if kind == STRING:
        return string(content)
    return struct.pack("<" + PACKED[kind], content)


def pair(key, kind, content):
    number = ARRAY if isinstance(kind, list) else kind
    return string(key) + struct.pack("<I", number) + value(kind, content)


def padding(size, alignment):
    return bytes(-size % alignment)


class Tensor:
    def __init__(self, name, dims, kind, data, offset=None):
        self.name, self.dims, self.kind, self.data = name, dims, kind, data
        self.offset = offset  # what the file says; None: where the data is


def gguf(tensors, pairs=(), version=3, alignment=32, **wrong):
    """The bytes of a file. wrong may hold other counts than the true ones: tensor_count and
    pair_count."""
    pairs = list(pairs)
    if alignment != 32:
        pairs.append(pair("general.alignment", U32, alignment))
    infos, data = b"", b""
    for tensor in tensors:
        offset = len(data) if tensor.offset is None else tensor.offset
        infos += string(tensor.name) + struct.pack("<I", len(tensor.dims))
        infos += b"".join(struct.pack("<Q", n) for n in tensor.dims)
        infos += struct.pack("<IQ", tensor.kind, offset)
        data += tensor.data + padding(len(tensor.data), alignment)
    counts = (wrong.get("tensor_count", len(tensors)), wrong.get("pair_count", len(pairs)))
    head = b"GGUF" + struct.pack("<IQQ", version, *counts) + b"".join(pairs) + infos
    return head + padding(len(head), alignment) + data


# --- Good files ----------------------------------------------------------------------------------


def counted_q4k(count):
    """Legal records whose every field is a formula of its place: easy to know again in a dump."""
    records = []
    for g in range(count):
        d = 0x2C00 + 37 * g % 1024  # f16 in [1/16, 1/8)
        dmin = 0x3000 + 91 * g % 1024
        sc = [(7 * s + g) % 64 for s in range(8)]
        m = [(63 - 5 * s + g) % 64 for s in range(8)]
        q = [(i + i // 16 + g) % 16 for i in range(256)]
        records.append(q4k_encode(Q4K(d, dmin, sc, m, q)))
    return b"".join(records)


def any_bytes(seed, count):
    return SplitMix64(seed).bytes(144 * count)


# Q4_K tensors of small: rows of 4, 8 and 1 records, the last with 3 dimensions and any bits at all,
# infinities and NaNs included.
SMALL_Q4_K = [
    Tensor("blk.0.attn_output.weight", [1024, 96], TENSOR_Q4_K, bulk_q4k(11, 4 * 96)),
    Tensor("blk.0.ffn_down.weight", [2048, 40], TENSOR_Q4_K, counted_q4k(8 * 40)),
    Tensor("blk.1.any_bits.weight", [256, 5, 3], TENSOR_Q4_K, any_bytes(13, 15)),
]
SMALL_OTHERS = [
    Tensor("blk.0.attn_norm.weight", [640], TENSOR_F32, SplitMix64(14).bytes(4 * 640)),
    Tensor("token_embd.weight", [640, 2], TENSOR_Q8_0, SplitMix64(15).bytes(2 * 20 * 34)),
]
PAIRS = [
    pair("general.architecture", STRING, "none"),
    pair("general.name", STRING, "kquant's small test model"),
    pair("general.file_type", U32, 15),
    pair("general.quantization_version", U32, 2),
    pair("general.tags", [STRING], ["a", "", "text of some length", "\u00e9\u4e16"]),
    pair("test.numbers", [I32], [0, -1, 2**31 - 1]),
    pair("test.nested", [[U8]], [[1, 2, 3], [], [255]]),
    pair("test.deeper", [[[STRING]]], [[["x"], []], [["y", "z"]]]),
    pair("test.empty", [F64], []),
    pair("test.all.i8", I8, -128),
    pair("test.all.u16", U16, 65535),
    pair("test.all.i16", I16, -1),
    pair("test.all.f32", F32, 1.5),
    pair("test.all.bool", BOOL, True),
    pair("test.all.u64", U64, 2**64 - 1),
    pair("test.all.i64", I64, -(2**63)),
    pair("test.all.f64", F64, -0.0),
]


def small(**options):
    first, *rest = SMALL_OTHERS
    return gguf([first, *SMALL_Q4_K, *rest], PAIRS, **options)


def odd_offsets():
    """Alignment 1, and every Q4_K tensor at an odd byte of the file, each odd in its own way."""
    for first in range(1, 5):
        tensors = []
        for count, q4k in zip((first, 2, 4), SMALL_Q4_K):
            tensors += [Tensor(f"before.{q4k.name}", [count], TENSOR_I8, bytes(count)), q4k]
        data = gguf(tensors, PAIRS, alignment=1)
        places = [data.index(tensor.data) for tensor in SMALL_Q4_K]
        if [place % 4 for place in places] == [1, 3, 3]:
            return data
    raise AssertionError("the tensors' sizes are no longer multiples of 4")


RECORD = bulk_q4k(21, 1)
TINY_PAIRS = [
    pair("general.architecture", STRING, "none"),
    pair("general.tags", [STRING], ["a", "b"]),
    pair("test.nested", [[U16]], [[1], [2, 3]]),
]


def tensor(name="blk.0.w", dims=(256, 1), kind=TENSOR_Q4_K, data=RECORD, offset=None):
    return Tensor(name, list(dims), kind, data, offset)


def tiny(*tensors, **options):
    pairs = options.pop("pairs", TINY_PAIRS)
    return gguf(tensors or [tensor()], pairs, **options)


def patched(at, form, *content):
    data = bytearray(tiny())
    struct.pack_into(form, data, at, *content)
    return bytes(data)


def nested(depth):
    arrays = struct.pack("<IQ", ARRAY, 1) * (depth - 1) + struct.pack("<IQB", U8, 1, 7)
    return tiny(pairs=[string("test.nested") + struct.pack("<I", ARRAY) + arrays])


def array_of(kind, count):
    return tiny(pairs=[string("test.array") + struct.pack("<IIQ", ARRAY, kind, count)])


# --- Cases ---------------------------------------------------------------------------------------

GOOD = {
    "small": lambda: small(),
    "version-2": lambda: small(version=2),
    "alignment-1": lambda: odd_offsets(),
    "alignment-8": lambda: small(alignment=8),
    "alignment-4096": lambda: small(alignment=4096),
    "tiny": lambda: tiny(),
    "nested-8": lambda: nested(8),
    "name-empty": lambda: tiny(tensor(name="")),
    "name-not-utf8": lambda: tiny(tensor(name=b"blk.\xff\xc0.w")),
    "name-control": lambda: tiny(tensor(name="blk\x1b[31m\n\0\u202e")),
    "name-long": lambda: tiny(tensor(name="n" * 5000)),
    "type-unknown": lambda: tiny(tensor(), tensor("new.w", (7, 3), 4000)),
}

# What each is, and words that the error must hold.
BAD = {
    "empty": (lambda: b"", "the file is empty"),
    "magic": (lambda: patched(0, "4s", b"GGML"), "not a GGUF file"),
    "magic-short": (lambda: b"GG", "ends inside the header"),
    "version-0": (lambda: patched(4, "<I", 0), "version 0"),
    "version-1": (lambda: patched(4, "<I", 1), "version 1"),
    "version-4": (lambda: patched(4, "<I", 4), "version 4"),
    "big-endian": (lambda: patched(4, ">I", 3), "big-endian"),
    "tensors-2^60": (lambda: patched(8, "<Q", 2**60), f"{2**60} tensors"),
    "tensors-2^64-1": (lambda: patched(8, "<Q", 2**64 - 1), f"{2**64 - 1} tensors"),
    "tensors-9": (lambda: patched(8, "<Q", 9), "9 tensors"),
    "tensors-2": (lambda: patched(8, "<Q", 2), 'tensor "": has 0 dimensions'),
    "pairs-2^60": (lambda: patched(16, "<Q", 2**60), f"{2**60} metadata entries"),
    "pairs-2^64-1": (lambda: patched(16, "<Q", 2**64 - 1), f"{2**64 - 1} metadata entries"),
    "pairs-4": (lambda: patched(16, "<Q", 4), "tensor 0: its name is said to have"),
    "key-2^63": (lambda: patched(24, "<Q", 2**63), "metadata entry 0: its key"),
    "string-2^63": (
        lambda: tiny(pairs=[string("test.text") + struct.pack("<IQ", STRING, 2**63)]),
        'metadata entry "test.text": a string',
    ),
    "value-type": (
        lambda: tiny(pairs=[string("test.x") + struct.pack("<II", 13, 0)]),
        'metadata entry "test.x": values of type 13',
    ),
    "array-type": (lambda: array_of(13, 0), 'metadata entry "test.array": arrays of type 13'),
    "array-2^61": (lambda: array_of(F64, 2**61 + 1), f"{2**61 + 1} elements"),
    "array-2^64-1": (lambda: array_of(U8, 2**64 - 1), f"{2**64 - 1} elements"),
    "array-of-strings": (lambda: array_of(STRING, 2**60), f"{2**60} elements"),
    "array-of-arrays": (lambda: array_of(ARRAY, 2**60), f"{2**60} elements"),
    "nested-9": (lambda: nested(9), "nested deeper"),
    "nested-99999": (lambda: nested(99999), "nested deeper"),
    "alignment-0": (
        lambda: tiny(pairs=[pair("general.alignment", U32, 0)]),
        '"general.alignment": must be a power of two, is 0',
    ),
    "alignment-24": (
        lambda: tiny(pairs=[pair("general.alignment", U32, 24)]),
        '"general.alignment": must be a power of two, is 24',
    ),
    "alignment-u64": (
        lambda: tiny(pairs=[pair("general.alignment", U64, 32)]),
        '"general.alignment": must be a uint32',
    ),
    "alignment-twice": (
        lambda: tiny(pairs=[pair("general.alignment", U32, 32)] * 2),
        '"general.alignment": is there twice',
    ),
    "alignment-2^31": (
        lambda: tiny(pairs=[pair("general.alignment", U32, 2**31)]),
        'tensor "blk.0.w": its offset 0 is beyond the end; the file has 0 bytes of data',
    ),
    "name-2^63": (
        lambda: tiny(pairs=[])[:24] + struct.pack("<Q", 2**63) + bytes(200),
        "tensor 0: its name",
    ),
    "no-dimensions": (lambda: tiny(tensor(dims=())), 'tensor "blk.0.w": has 0 dimensions'),
    "five-dimensions": (
        lambda: tiny(tensor(dims=(256, 1, 1, 1, 1))),
        'tensor "blk.0.w": has 5 dimensions',
    ),
    "dimensions-2^32-1": (
        lambda: patched(tiny().index(b"blk.0.w") + 7, "<I", 2**32 - 1),
        'tensor "blk.0.w": has 4294967295 dimensions',
    ),
    "row-0": (lambda: tiny(tensor(dims=(0, 1))), 'tensor "blk.0.w": dimension 0 is 0'),
    "rows-0": (lambda: tiny(tensor(dims=(256, 0))), 'tensor "blk.0.w": dimension 1 is 0'),
    "rows-overflow": (
        lambda: tiny(tensor(dims=(256, 2**32, 2**32))),
        'tensor "blk.0.w": its dimensions multiply',
    ),
    "rows-overflow-to-1": (
        lambda: tiny(tensor(dims=(256, 2**33, 2**33, 2**63))),
        'tensor "blk.0.w": its dimensions multiply',
    ),
    "row-2^63": (lambda: tiny(tensor(dims=(2**63, 1))), 'tensor "blk.0.w": its'),
    "row-2^63-rows-2": (
        lambda: tiny(tensor(dims=(2**63, 2**10))),
        'tensor "blk.0.w": its dimensions multiply',
    ),
    "row-255": (lambda: tiny(tensor(dims=(255, 1))), 'tensor "blk.0.w": is of type Q4_K'),
    "row-257": (lambda: tiny(tensor(dims=(257, 1))), 'tensor "blk.0.w": is of type Q4_K'),
    "row-640": (
        lambda: tiny(tensor(dims=(640, 1), data=3 * RECORD)),
        'tensor "blk.0.w": is of type Q4_K, but its row of 640 values is not a multiple of 256',
    ),
    "row-640-of-rows-2": (
        lambda: tiny(tensor(dims=(640, 2), data=5 * RECORD)),
        'tensor "blk.0.w": is of type Q4_K, but its row of 640 values is not a multiple of 256',
    ),
    "offset-beyond": (
        lambda: tiny(tensor(offset=2**20)),
        f'tensor "blk.0.w": its offset {2**20} is beyond the end',
    ),
    "offset-at-end": (lambda: tiny(tensor(offset=160)), 'tensor "blk.0.w": its 144 bytes'),
    "offset-overflow": (
        lambda: tiny(tensor(offset=2**64 - 32)),
        f'tensor "blk.0.w": its offset {2**64 - 32} is beyond the end',
    ),
    "offset-unaligned": (
        lambda: tiny(tensor(data=RECORD + bytes(160), offset=8)),
        'tensor "blk.0.w": its offset 8 is not a multiple',
    ),
    "one-row-too-many": (lambda: tiny(tensor(dims=(256, 2))), 'tensor "blk.0.w": its 288 bytes'),
    "two-of-a-name": (
        lambda: tiny(tensor(), tensor("other.w"), tensor()),
        'tensor "blk.0.w": there are two of this name',
    ),
    "overlap": (
        lambda: tiny(tensor(), tensor("other.w", offset=128)),
        'tensor "other.w": its bytes overlap those of tensor "blk.0.w"',
    ),
    "offset-of-unknown-type": (
        lambda: tiny(tensor(), tensor("new.w", (7, 3), 4000, b"", offset=2**20)),
        f'tensor "new.w": its offset {2**20} is beyond the end',
    ),
    "no-q4k": (
        lambda: tiny(tensor(kind=TENSOR_F32, dims=(36,))),
        "holds no Q4_K tensor",
    ),
    "no-tensor": (lambda: gguf([]), "holds no Q4_K tensor"),
}

CASES = GOOD | {name: make for name, (make, _) in BAD.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the cases' names")
    parser.add_argument("--all", metavar="FOLDER", help="write every case to FOLDER/CASE.gguf")
    parser.add_argument("case", nargs="?", choices=CASES, metavar="CASE")
    parser.add_argument("file", nargs="?", metavar="FILE", help="where to write the case")
    given = parser.parse_args()
    if given.list:
        print("\n".join(CASES))
    elif given.all:
        for name, make in CASES.items():
            pathlib.Path(given.all, f"{name}.gguf").write_bytes(make())
    elif given.case and given.file:
        pathlib.Path(given.file).write_bytes(CASES[given.case]())
    else:
        parser.error("say CASE and FILE, --all or --list")


if __name__ == "__main__":
    sys.exit(main())
