#!/usr/bin/env python3
"""Runs samples/gguf_matvec over good and broken GGUF files; judges results with the oracle.

usage: gguf_test.py GGUF_MATVEC MAKE_GGUF.py

Only the reference device is used, so no driver is needed.
"""

import importlib.util
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile

SECONDS = 60  # for one run, sanitizers and valgrind included; an ordinary run takes milliseconds
# Files that hold no driver, so that what drivers do is no part of this test.
NO_DRIVERS = dict.fromkeys(["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "OCL_ICD_VENDORS"], "/dev/null")

program, maker = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(maker).resolve().parent))
spec = importlib.util.spec_from_file_location("make_gguf", maker)
make_gguf = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_gguf)
import oracle_definition as oracle  # noqa: E402  found beside make_gguf.py
import oracle_vectors  # noqa: E402

passed = failed = 0


def check(what, *problems):
    """A problem is a text, or a false value where there is none."""
    global passed, failed
    problems = [problem for problem in problems if problem]
    passed += not problems
    failed += bool(problems)
    for problem in problems:
        print(f"FAIL {what}: {problem}", flush=True)


class Run:
    """One run on the reference; problems says what no run may do, whatever its arguments."""

    def __init__(self, *arguments, device="reference", status=None, words=()):
        command = [program, *([f"--device={device}"] if device else []), *map(str, arguments)]
        self.problems = []
        try:
            done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False,
                                  env={**os.environ, **NO_DRIVERS})
        except subprocess.TimeoutExpired:
            self.status, self.out, self.err = None, "", ""
            self.problems.append(f"took longer than {SECONDS} s")
            return
        self.status = done.returncode
        self.out, self.err = done.stdout.decode("latin-1"), done.stderr.decode("latin-1")
        if self.status < 0:
            self.problems.append(f"ended by {signal.Signals(-self.status).name}")
        if re.search("[^\n -~]", self.out + self.err):
            self.problems.append("printed what isn't printable ASCII")
        if status is not None and self.status != status:
            self.problems.append(f"exit {self.status}, not {status}: {self.err or self.out}")
        if self.status and len(self.err.splitlines()) != 1:
            self.problems.append(f"not one line on stderr: {self.err!r}")
        missing = [word for word in words if word not in self.out + self.err]
        if missing:
            self.problems.append(f"doesn't say {missing}: {self.err or self.out}")

    def digest(self):
        found = re.search(r"^reference .* ([0-9a-f]{16}) is it$", self.out, re.MULTILINE)
        return found and found[1]


def expect(what, *arguments, **expected):
    run = Run(*arguments, **expected)
    check(what, *run.problems)
    return run


# --- What the results must be --------------------------------------------------------------------


def drawn(seed, count):
    """The activations of --seed."""
    stream = oracle_vectors.SplitMix64(seed)
    numbers = [((stream.next() >> 40) - (1 << 23)) / (1 << 22) for _ in range(count)]
    return struct.pack(f"<{count}f", *numbers)


def expected_digest(tensors, values, order):
    status, records = oracle.quantize(values)
    assert status == "ok"
    output = [records]
    for tensor in tensors:
        g = tensor.dims[0] // 256
        for row in oracle.cut(tensor.data, 144 * g):
            terms = oracle.dot_terms(row, records[: 292 * g])
            output.append(struct.pack("<I", order(terms)))
    return f"{oracle_vectors.fnv1a64(b''.join(output)):016x}"


def check_results(folder):
    small = folder / "small.gguf"
    q4k = make_gguf.SMALL_Q4_K
    longest = max(tensor.dims[0] for tensor in q4k)

    def same(what, wanted, *arguments):
        run = Run(*arguments, status=0)
        got = run.digest()
        check(what, *run.problems, got != wanted and f"digest {got}, the oracle's is {wanted}")

    sequential = expected_digest(q4k, drawn(1, longest), oracle.sequential)
    pairwise = expected_digest(q4k, drawn(1, longest), oracle.pairwise)
    check("orders differ", sequential == pairwise and "the test can't tell them apart")
    same("small", sequential, small)
    same("small, said in full", sequential, "--seed=1", "--order=sequential", small)
    same("small, pairwise", pairwise, "--order=pairwise", small)
    for name in ("version-2", "alignment-1", "alignment-8", "alignment-4096"):
        same(name, sequential, folder / f"{name}.gguf")
        same(f"{name}, pairwise", pairwise, "--order=pairwise", folder / f"{name}.gguf")
    for tensor in q4k:
        values = drawn(0xFFFFFFFFFFFFFFFF, tensor.dims[0])
        wanted = expected_digest([tensor], values, oracle.sequential)
        arguments = (f"--tensor={tensor.name}", "--seed=0xffffffffffffffff")
        same(tensor.name, wanted, *arguments, small)
        same(f"{tensor.name} at an odd byte", wanted, *arguments, folder / "alignment-1.gguf")

    file = folder / "values.f32"
    values = oracle_vectors.bulk_values(5, longest // 256)
    file.write_bytes(values + b"more than is needed")
    same("--values", expected_digest(q4k, values, oracle.sequential), f"--values={file}", small)
    file.write_bytes(values[: 4 * 1024])
    wanted = expected_digest(q4k[:1], values[: 4 * 1024], oracle.sequential)
    same("--values, just enough", wanted, f"--values={file}", f"--tensor={q4k[0].name}", small)


# --- Arguments -----------------------------------------------------------------------------------


def check_values(folder):
    small, file = folder / "small.gguf", folder / "values.f32"

    def bad(what, data, *words):
        file.write_bytes(data)
        expect(f"--values {what}", f"--values={file}", small, status=1, words=words)

    full = bytearray(oracle_vectors.bulk_values(5, 8))
    bad("empty", b"", '"blk.0.attn_output.weight"', "1024", "has 0")
    bad("too few", full[:8188], '"blk.0.ffn_down.weight"', "2048", "has 2047")
    bad("cut in a value", full[:8191], '"blk.0.ffn_down.weight"', "2048", "has 2047")
    for name, bits in (("NaN", 0x7FC00000), ("infinity", 0xFF800000)):
        data = full[:]
        struct.pack_into("<I", data, 4 * 1300, bits)
        bad(name, data, "activation 1300", "not finite")
    data = full[: 4 * 256] + struct.pack("<256I", *[0x02FE0000] * 256) + full[8 * 256 :]
    bad("too small", data, "activation 256", "too small")
    expect("--values missing", f"--values={folder / 'none'}", small, status=1, words=["none"])
    expect("--values folder", f"--values={folder}", small, status=1, words=[str(folder)])


def check_arguments(folder):
    small = folder / "small.gguf"
    expect("no file", status=1, words=["MODEL.gguf", "--help"])
    expect("two files", small, small, status=1, words=["only one file"])
    for option in ("--nonsense", "--seed=", "--seed=-1", "--seed=1x", "--seed=99999999999999999999",
                   "--order=", "--order=fast", "--device=", "--list=1", "-x"):
        expect(option, option, small, status=1, words=[option.split("=")[0]])
    expect("-- and a file", "--", small, status=0)
    expect("no such file", folder / "none.gguf", status=1, words=["none.gguf", "No such file"])
    expect("a folder", folder, status=1, words=[str(folder), "directory"])
    expect("a device file", "/dev/null", status=1, words=["/dev/null", "not a regular file"])
    os.mkfifo(folder / "pipe.gguf")
    expect("a pipe", folder / "pipe.gguf", status=1, words=["not a regular file"])
    run = expect("--help", "--help", status=0, words=["usage: gguf_matvec", "--tensor=", "99"])
    check("--help, quiet", run.err and "wrote to stderr")
    check("missing device", *Run(small, device="no such device", status=99).problems)

    # ESC [ 2 J, CSI as one character, a right-to-left override: printed is what Run lets through.
    evil, shown = "e\x1b[2J\x9b31m\u202ez", "e\\x1b[2J\\xc2\\x9b31m\\xe2\\x80\\xaez"
    expect("no file of a steering name", folder / evil, status=1, words=[shown])
    (folder / evil).write_bytes(small.read_bytes())
    expect("a steering name", folder / evil, status=0, words=[shown])
    expect("a steering name, other errors", "--tensor=none", folder / evil, status=1, words=[shown])
    expect("a steering name of values", f"--values={folder / evil}", small, status=1, words=["not finite"])
    expect("an option that steers", f"--{evil}", small, status=1, words=[shown])
    expect("a device that steers", small, device=evil, status=99, words=[shown])

    run = expect("--list", "--list", small, status=0, words=[t.name for t in make_gguf.SMALL_Q4_K])
    check("--list stops", run.digest() and "ran")
    check("--list, others", "skipped: 1 F32, 1 Q8_0" not in run.out and "no count of other types")
    for tensor in make_gguf.SMALL_OTHERS:
        kind = {make_gguf.TENSOR_F32: "F32", make_gguf.TENSOR_Q8_0: "Q8_0"}[tensor.kind]
        expect(f"--tensor of type {kind}", f"--tensor={tensor.name}", small, status=1,
               words=[f'"{tensor.name}": is of type {kind}', "Q4_K"])
    expect("--tensor of no name", "--tensor=blk.0", small, status=1, words=['no tensor "blk.0"'])
    expect("--tensor of type 4000", "--tensor=new.w", folder / "type-unknown.gguf", status=1,
           words=['"new.w": is of type unknown (4000)'])
    if pathlib.Path("/dev/full").exists():
        with open("/dev/full", "wb") as full:
            done = subprocess.run([program, "--list", small], stdout=full, stderr=subprocess.PIPE,
                                  timeout=SECONDS, check=False)
        check("a full disk", done.returncode != 1 and f"exit {done.returncode}")


# --- Broken files --------------------------------------------------------------------------------


def check_cases(folder):
    for name in make_gguf.GOOD:
        expect(name, folder / f"{name}.gguf", status=0)
    for name, (_, words) in make_gguf.BAD.items():
        file = folder / f"{name}.gguf"
        run = expect(name, file, status=1, words=[str(file), words])
        check(f"{name}, nothing on stdout", run.out and repr(run.out))


def check_damage(folder):
    """No length and no byte of a file is trusted."""
    file = folder / "damaged.gguf"

    def damaged(what, data, *statuses):
        file.write_bytes(data)
        run = Run(file)
        wrong = run.status not in statuses and f"exit {run.status}: {run.err or run.out}"
        check(what, *run.problems, wrong)

    tiny = make_gguf.tiny()
    end = len(tiny) - -144 % 32  # padding after the last tensor may be missing
    for length in range(len(tiny)):
        damaged(f"tiny cut to {length} bytes", tiny[:length], 1 if length < end else 0)
    for at in range(end - 144):
        for mask in (0xFF, 0x01, 0x80):
            data = bytearray(tiny)
            data[at] ^= mask
            damaged(f"tiny with byte {at} changed by {mask:#x}", data, 0, 1)
    small = make_gguf.small()
    for length in range(0, len(small), 997):
        damaged(f"small cut to {length} bytes", small[:length], 1)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case, make in make_gguf.CASES.items():
            (folder / f"{case}.gguf").write_bytes(make())
        kept = pathlib.Path(maker).resolve().parent / "data/small.gguf"
        as_made = kept.read_bytes() == (folder / "small.gguf").read_bytes()
        check("data/small.gguf", not as_made and "is not what make_gguf.py makes")
        check_results(folder)
        check_values(folder)
        check_arguments(folder)
        check_cases(folder)
        check_damage(folder)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
