#!/usr/bin/env python3
"""The judge of kquant's test vectors: checks them, makes them, draws more of them.

What is right is defined in oracle_definition.py, in exact arithmetic.
"""

import argparse
import pathlib
import sys

from oracle_answers import judge_constants, judge_table
from oracle_vectors import (
    COLUMNS, MASK64, bulk_line, difference, dot_line, quantize_line, write_vectors)
from oracle_cases import bulk_cases, dot_cases, join, pack_blocks, quantize_cases
from oracle_draws import dot_draws, quantize_draws
from oracle_facts import facts

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


def run_answers(arguments):
    wrong = 0
    for path, judge, what in (arguments.table, judge_table, "known answers"), \
            (arguments.constants, judge_constants, "constants"):
        count, faults = judge(path.read_text(encoding="utf-8"))
        for fault in faults[:SHOWN]:
            print(f"{path.name}: {fault}")
        print(f"{path.name}: {count} {what}, {len(faults)} faults")
        wrong += len(faults)
    return 1 if wrong else 0


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
  oracle.py answers src/known_answers.h src/self_test.c
                                             are the library's known answers right, and enough?
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
    answers = command("answers", run_answers, "judge the known answers of the library's self-test")
    answers.add_argument("table", metavar="KNOWN_ANSWERS_H", type=pathlib.Path,
                         help="has the table kq_known_answers")
    answers.add_argument("constants", metavar="SELF_TEST_C", type=pathlib.Path,
                         help="has what the operations give")
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
