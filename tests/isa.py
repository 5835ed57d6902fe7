#!/usr/bin/env python3
"""What RADV makes of every kernel for GPUs that needn't be here, against the committed table.

isa.py check|write ISA_DUMP TABLE

Compiles all kernels of the pack for each of FAMILIES, which needs no GPU: RADV has a device that only
compiles. check: compares with TABLE, and shows what differs; write: makes TABLE anew. Of each kernel

  valu, quarter         vector instructions; those of them that take four times as long: 32-bit multiplies
  lds, vmem             instructions that touch shared memory, and buffers
  scalar                all others, once for a whole wave
  vgprs                 registers of a lane
  shared, code          bytes of shared memory, of a workgroup, and of code
  record                valu, lds and vmem of all lanes that work on a record, by WORK
  issue                 the same without lds and vmem, and with quarter counted four times

Exit 1: the table differs; a kernel spills registers or takes scratch memory, for which it is never
written; or WORK doesn't fit. Exit 77: no RADV, or not the version of TABLE, whose counts would differ.
"""
import difflib
import os
import platform
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

FAMILIES = ['POLARIS10', 'VEGA10', 'NAVI21']

# Lanes and the records, or terms, that they do together; how often the code outside of loops runs for
# them, and then each loop that the compiler left.
WORK = {
    'quantize.base': (16, 1, [1]),
    'quantize.aligned': (8, 1, [1]),
    'quantized_dot_terms.base': (1, 1, [1, 8]),
    'quantized_dot_terms.columns': (1, 4, [1, 5]),
    'quantized_dot_terms_shared.base': (1, 1, [1, 2]),
    'quantized_dot_terms_shared.aligned': (1, 1, [1, 2]),
    'quantized_dot_terms_shared.packed': (1, 1, [1, 2]),
    'quantized_dot_sequential.base': (1, 1, [0, 1, 0]),  # a long dot: what comes once is nothing
    'quantized_dot_pairwise.base': (64, 512, [1, 6, 6, 1]),  # a whole chunk
    'primitive.base': (1, 1, [1]),
}
NONE_OF = ['Spilled SGPRs', 'Spilled VGPRs', 'Scratch size']
COLUMNS = ['valu', 'quarter', 'lds', 'vmem', 'scalar', 'vgprs', 'shared', 'code', 'record', 'issue']
KINDS = {
    'lds': r'ds_',
    'vmem': r'(buffer|tbuffer|global|flat|scratch|image)_',
    'quarter': r'v_(mul_lo_u32|mul_hi_[iu]32|mul_lo_i32|mad_[iu]64_[iu]32)',
    'valu': r'v_(?!nop)',
    'scalar': r's_|v_nop',
}


class Wrong(Exception):
    """What the kernels or this file have to answer for."""


def dump(program, family):
    """What isa_dump prints for a family."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(('RADV_', 'ACO_', 'MESA_', 'VK_'))}
    driver = f'/usr/share/vulkan/icd.d/radeon_icd.{platform.machine()}.json'
    if not Path(driver).exists():
        sys.exit(skip('RADV is not installed: mesa-vulkan-drivers'))
    environment.update(VK_DRIVER_FILES=driver, VK_ICD_FILENAMES=driver, RADV_FORCE_FAMILY=family,
                       VK_LOADER_LAYERS_DISABLE='~implicit~', MESA_SHADER_CACHE_DISABLE='true')
    done = subprocess.run([program], env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode == 77:
        sys.exit(77)
    if done.returncode != 0:
        raise Wrong(f'isa_dump, for {family}, ended with {done.returncode}')
    if family not in done.stdout.partition('\n')[0]:
        raise Wrong(f'the device should be {family}, not ' + done.stdout.partition('\n')[0])
    return done.stdout


def skip(reason):
    print(f'isa.py: {reason}', file=sys.stderr)
    return 77


def kinds_of(instruction):
    found = [kind for kind, pattern in KINDS.items() if re.match(pattern, instruction)]
    if not found:
        raise Wrong(f'what is {instruction}?')
    return found


def loops(blocks):
    """(first, last) of the blocks of each loop, in the order of the code: a loop ends where a block
    jumps back to its first, or to itself."""
    place = {name: i for i, (name, _) in enumerate(blocks)}
    found = {}
    for i, (_, code) in enumerate(blocks):
        for line in code:
            target = re.match(r's_c?branch\S* (BB\d+)', line)
            if target and place[target.group(1)] <= i:
                found[place[target.group(1)]] = i
    return sorted(found.items())


def measure(name, statistics, blocks):
    """The columns of a kernel."""
    if name not in WORK:
        raise Wrong(f'WORK doesn\'t say how many lanes of {name} do a record')
    for what in NONE_OF:
        if statistics[what] != 0:
            raise Wrong(f'{name}: {what} {statistics[what]}')
    lanes, records, times = WORK[name]
    inside = loops(blocks)
    if len(inside) != len(times) - 1:
        raise Wrong(f'{name}: {len(inside)} loops, of which WORK knows {len(times) - 1}')
    counts = dict.fromkeys(KINDS, 0)
    weighed = dict.fromkeys(KINDS, 0)
    for i, (_, code) in enumerate(blocks):
        weight = times[0]
        for loop, (first, last) in enumerate(inside, 1):
            if first <= i <= last:
                weight = times[loop]
        for line in code:
            for kind in kinds_of(line):
                counts[kind] += 1
                weighed[kind] += weight
    if sum(counts.values()) - counts['quarter'] != statistics['Instructions'] or counts['valu'] == 0:
        raise Wrong(f'{name}: {statistics["Instructions"]} instructions, of which {counts} were read')
    share = Fraction(lanes, records)
    return {
        **counts,
        'vgprs': statistics['VGPRs'],
        'shared': statistics['LDS size'],
        'code': statistics['Code size'],
        'record': round(share * (weighed['valu'] + weighed['lds'] + weighed['vmem'])),
        'issue': round(share * (weighed['valu'] + 3 * weighed['quarter'])),
    }


def read(text):
    """The driver's name, and (name, columns) of each kernel."""
    lines = iter(text.splitlines()[1:])
    driver = next(lines).partition(' ')[2]
    kernels = []
    for line in lines:
        word, _, rest = line.partition(' ')
        if word == 'kernel':
            name, statistics, blocks = rest, {}, []
        elif word == 'statistic':
            what, _, value = rest.partition(': ')
            statistics[what] = int(value)
        elif word == 'end':
            kernels.append((name, measure(name, statistics, blocks)))
        elif line.startswith('BB'):
            blocks.append((line.rstrip(':'), []))
        elif line.startswith('\t'):
            blocks[-1][1].append(line.strip())
    return driver, kernels


def width(column):
    return max(len(column), 5) + 2


def make_table(program):
    rows = []
    for family in FAMILIES:
        driver, kernels = read(dump(program, family))
        rows += [(name, family, columns) for name, columns in kernels]
    if {name for name, _, _ in rows} != set(WORK):
        raise Wrong('WORK has kernels that the pack hasn\'t')
    first = f'# {driver}; isa.py says what the columns mean, isa.sh makes them.'
    head = f'{"kernel":<40}{"GPU":<10}' + ''.join(f'{c:>{width(c)}}' for c in COLUMNS)
    order = list(WORK)
    rows.sort(key=lambda row: order.index(row[0]))
    lines = [f'{name:<40}{family:<10}' + ''.join(f'{columns[c]:>{width(c)}}' for c in COLUMNS)
             for name, family, columns in rows]
    return [first, head, *lines]


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ['check', 'write']:
        sys.exit(__doc__)
    program, path = sys.argv[2], Path(sys.argv[3])
    table = make_table(program)
    if sys.argv[1] == 'write':
        path.write_text('\n'.join(table) + '\n')
        print('\n'.join(table))
        return 0
    committed = path.read_text().splitlines()
    if committed[0] != table[0]:
        return skip(f'nothing spills, but there are no counts to compare with those here\n{table[0]}')
    difference = list(difflib.unified_diff(committed, table, 'committed', 'here', n=0, lineterm=''))
    if difference:
        print('\n'.join([' ' + table[1]] + [line for line in difference if line[:2] not in ['--', '++', '@@']]))
        print('isa.py: the code is not what the table says; if it is meant to be, isa.sh write')
        return 1
    print(f'{len(table) - 2} rows are as committed, and nothing spills')
    return 0


try:
    sys.exit(main())
except Wrong as error:
    sys.exit(f'isa.py: {error}')
