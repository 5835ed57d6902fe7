#!/usr/bin/env python3
"""Writes a header that puts calls of every public function between float_enter and float_leave.

usage: float_guard.py OUTPUT HEADER...

A test that is compiled with `-include OUTPUT` makes them in the floating-point state of
float_state.h, and fails where one comes back with another.
"""
import re
import sys
from pathlib import Path

output, *headers = sys.argv[1:]
DECLARATION = re.compile(r'^KQ_API ([\w ]+?[ *])(kq_\w+)\(', re.M)
lines = ['#include "float_state.h"']
names = []
for header in headers:
    lines.append(f'#include <kquant/{Path(header).name}>')
    declared = DECLARATION.findall(Path(header).read_text())
    assert len(declared) == len(re.findall(r'^KQ_API ', Path(header).read_text(), re.M)), header
    names += declared
for kind, name in names:
    call = f'{name}(__VA_ARGS__)'
    if kind.strip() == 'void':
        body = f'float_enter(); {call}; float_leave("{name}");'
    else:
        body = (f'float_enter(); {kind}float_result = {call}; float_leave("{name}"); '
                'float_result;')
    lines.append(f'#define {name}(...) __extension__({{ {body} }})')
assert len(names) > 25
Path(output).write_text('\n'.join(lines) + '\n')
