#!/usr/bin/env python3
"""The device code of README.md compiles from an installed prefix, and gives the vectors' bits.

usage: device_code_test.py README.md BUILD DOT_TSV

GLSL by glslangValidator, OpenCL C by clang, C by cc, with gcc's and clang's warnings; each finds nothing
but what is installed. The C is run on the vectors of two records. Each language is then compiled once
more without exact.h, which must fail. Exit 77: a tool is missing.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HEADERS = ['exact.h', 'params.h', 'prelude.cl', 'prelude.glsl', 'prelude.h', 'primitive.h',
           'records.h']

MAIN = '''
#include <stdio.h>
int main(void)
{
    uint32_t words[2 * 36 + 2 * 73];
    while (fread(words, sizeof words, 1, stdin) == 1) {
        printf("%08x\\n", (unsigned)dot_of_two(words, words + 2 * 36));
    }
    return 0;
}
'''


def run(*command, **more):
    return subprocess.run([str(part) for part in command], capture_output=True, **more)


def commands(folder, include, code):
    """A language's compilers, each on its file, which is written here."""
    device = include / 'kquant/device'
    named = {}
    for ending, text in code.items():
        named[ending] = folder / f'code.{ending}'
        named[ending].write_text(text)
    strict = ['-Wall', '-Wextra', '-Werror']
    yield 'GLSL', ['glslangValidator', '-V', '--target-env', 'vulkan1.0', f'-I{device}',
                   '-o', folder / 'code.spv', named['comp']]
    for bits in ('spir', 'spir64'):
        yield 'OpenCL C', ['clang-14', '-x', 'cl', '-cl-std=CL1.2', '-target',
                           f'{bits}-unknown-unknown', '-Xclang', '-finclude-default-header', *strict,
                           f'-I{device}', '-c', '-emit-llvm', '-o', folder / 'code.bc', named['cl']]
    for cc in ('clang-14', 'gcc'):
        yield 'C', [cc, '-std=c11', '-pedantic', *strict, f'-I{include}', '-o', folder / 'code',
                    named['c']]


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    readme, build, vectors = sys.argv[1:]
    missing = [tool for tool in ('glslangValidator', 'clang-14', 'gcc') if shutil.which(tool) is None]
    if missing:
        print(f'device_code_test: no {", ".join(missing)}')
        return 77
    blocks = re.findall(r'^```(\w+)\n(.*?)^```', Path(readme).read_text(), re.M | re.S)
    glsl, = [text for kind, text in blocks if kind == 'glsl']
    opencl, = [text for kind, text in blocks if kind == 'opencl']
    c, = [text for kind, text in blocks if kind == 'c' and 'kquant/device/' in text]
    code = {'comp': glsl, 'cl': opencl, 'c': c + MAIN}
    wrong = 0
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        staged = run('meson', 'install', '-C', build, '--no-rebuild', '--destdir', tmp)
        if staged.returncode != 0:
            sys.exit(staged.stderr.decode())
        exact, = folder.rglob('kquant/device/exact.h')
        found = sorted(path.name for path in exact.parent.iterdir())
        if found != HEADERS:
            print(f'device_code_test: installed are {found}')
            wrong += 1
        include = exact.parent.parent.parent
        for language, command in commands(folder, include, code):
            answer = run(*command)
            if answer.returncode != 0:
                print(f'{language}: {(answer.stdout + answer.stderr).decode()}')
                wrong += 1
        wrong += not runs(folder / 'code', vectors)
        exact.unlink()
        for language, command in commands(folder, include, code):
            if run(*command).returncode == 0:
                print(f'{language} compiles without exact.h, so it has another one')
                wrong += 1
    print(f'device_code_test: {wrong} wrong')
    return 1 if wrong else 0


def runs(program, vectors):
    """Whether the C gives the bits of each vector of two records."""
    rows = [line.split('\t') for line in Path(vectors).read_text().splitlines()]
    rows = [row for row in rows if row[0][0] != '#' and row[1] == '2']
    given = b''.join(bytes.fromhex(row[2] + row[3]) for row in rows)
    bits = run(program, input=given).stdout.decode().split()
    print(f'{len(rows)} vectors of two records')
    if not rows or bits != [row[4] for row in rows]:
        print(f'device_code_test: the C gives {bits}')
        return False
    return True


sys.exit(main())
