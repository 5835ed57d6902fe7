#!/usr/bin/env python3
"""Writes the library as one C file, which needs the public headers and nothing else of kquant.

amalgamate.py OUT.c OUT.d FOLDER FILE... [MACRO FILE...]

Files after a macro, KQ_HAS_VULKAN say, are for where that is defined. Quoted includes are looked up in
FOLDER and put in where they are first met, so one that files with and without a macro share must be
met first in one without. OUT.d is a depfile of all that was read.
"""
import re
import sys
from pathlib import Path

HEAD = '''\
// kquant as one file, made by src/amalgamate.py; no place for changes.
//
//     cc -std=c11 -c -I INCLUDE_FOLDER kquant.c
//
// Alone it is the reference. -DKQ_HAS_VULKAN adds Vulkan with its kernels, and includes
// <vulkan/vulkan_core.h> and <volk.h>, with volk.c beside it; -DKQ_HAS_OPENCL adds OpenCL, and
// includes <CL/cl_icd.h>. Link with -ldl where dlopen is in a library of its own. A program that has
// volk already says -DKQ_VOLK_ELSEWHERE.
'''


def put_in(path, folder, read):
    read.append(path)
    lines = [f'\n// --- {path.name}\n']
    for line in path.read_text().splitlines():
        include = re.fullmatch(r'#\s*include "([^"]+)"', line)
        if include is None:
            lines.append(line)
        elif folder / include.group(1) not in read:
            lines.append(put_in(folder / include.group(1), folder, read))
    return '\n'.join(lines)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    out, depfile, folder, *arguments = sys.argv[1:]
    read = []
    parts = [HEAD]
    macro = None
    for argument in arguments:
        if argument.startswith('KQ_'):
            macro = argument
            continue
        text = put_in(Path(argument), Path(folder), read) + '\n'
        parts.append(f'\n#ifdef {macro}{text}#endif\n' if macro else text)
    Path(out).write_text(''.join(parts))
    Path(depfile).write_text(f'{out}: {" ".join(map(str, read))}\n')


main()
