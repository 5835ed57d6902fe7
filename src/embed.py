#!/usr/bin/env python3
"""Writes the C table behind kq_kernels(), a file's text as a C string, or the list of exports.

embed.py kernels OUT.c [KERNEL...]    KERNEL is name|api|op|caps|address_bits|[SPIRV][|SOURCE|FOLDER...]
embed.py text OUT.c SYMBOL FILE...    ASCII files, one after the other, as unsigned char SYMBOL[]
embed.py source OUT.cl SOURCE FOLDER...  SOURCE with its own includes resolved, and no idle function
embed.py exports OUT.def HEADER...    what the headers declare with KQ_API, as a linker for Windows takes it
embed.py version KQUANT.H             prints it
"""
import re
import struct
import sys
from pathlib import Path


def resolve(path, folders, seen):
    """The text of an OpenCL C file, its quoted includes put in once each, comments taken out, and
    the blanks that align."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/', '', Path(path).read_text(), flags=re.S)
    text = re.sub(r'(?<=\S)[ \t]{2,}', ' ', text)
    lines = []
    for line in text.splitlines():
        include = re.fullmatch(r'\s*#\s*include\s+"([^"]+)"\s*', line)
        if include is None:
            if line.strip():
                lines.append(line.rstrip())
            continue
        name = include.group(1)
        if name not in seen:
            seen.add(name)
            found = [f for f in (Path(d) / name for d in folders) if f.exists()]
            if not found:
                sys.exit(f'{path}: no {name} in {folders}')
            lines.append(resolve(found[0], folders, seen).rstrip('\n'))
    return '\n'.join(lines) + '\n'


def without_absent(text):
    """Without what records.h has for record loads that the kernel doesn't define."""
    block = re.compile(r'^#\s*if(?:def | defined).*KQ_Q[48]_K_.*\n(?:(?!#\s*if).*\n)*?#\s*endif\n', re.M)
    for found in reversed(list(block.finditer(text))):
        names = re.findall(r'KQ_Q[48]_K_\w+', found[0].partition('\n')[0])
        if not all(re.search(rf'^#\s*define {name}\b', text, re.M) for name in names):
            text = text[:found.start()] + text[found.end():]
    return text


def without_idle(text):
    """Without functions, structs and macros that nothing names, for headers have more than a kernel takes."""
    function = re.compile(r'^(?:KQ_FN|static inline) \w+ (\w+)\([^)]*\)\n\{\n.*?^\}\n', re.M | re.S)
    macro = re.compile(r'^# *define (\w+)(?:.*\\\n)*.*\n', re.M)
    struct = re.compile(r'^typedef struct (\w+) \{\n(?:.*\n)*?\} \1;\n', re.M)
    while True:
        idle = [found for pattern, own in [(macro, 1), (function, 1), (struct, 2)]
                for found in pattern.finditer(text)
                if len(re.findall(rf'\b{found[1]}\b', text)) == own]
        if not idle:
            return text
        for found in sorted(idle, key=lambda found: -found.start()):
            text = text[:found.start()] + text[found.end():]


def source_text(path, folders):
    text = without_idle(without_absent(resolve(path, folders, set())))
    return '\n'.join(line.strip() for line in text.splitlines()) + '\n'


def array(ctype, name, values, width, per_line):
    lines = [f'static const {ctype} {name}[] = {{']
    for i in range(0, len(values), per_line):
        lines.append('    ' + ', '.join(f'0x{v:0{width}X}' for v in values[i:i + per_line]) + ',')
    return '\n'.join(lines) + '\n};\n'


def kernels(out, specs):
    arrays = {}
    rows = {}
    sources = {}
    for i, spec in enumerate(specs):
        name, api, op, caps, address_bits, spirv, *source = spec.split('|')
        mine = arrays.setdefault(api, [])
        spirv_name, spirv_bytes = 'NULL', 0
        if spirv:
            data = Path(spirv).read_bytes()
            words = struct.unpack(f'<{len(data) // 4}I', data)
            if words[0] != 0x07230203:
                sys.exit(f'{spirv}: not SPIR-V')
            mine.append(array('uint32_t', f'spirv_{i}', words, 8, 8))
            spirv_name, spirv_bytes = f'spirv_{i}', len(data)
        source_name, source_bytes = 'NULL', 0
        if source:
            text = source_text(source[0], source[1:]).encode()
            # The same for 32 and 64 address bits, and for kernels of one program.
            if text not in sources:
                sources[text] = i
                # Bytes and not a string, since some compilers end strings at 16 kB.
                mine.append(array('unsigned char', f'source_{i}', text + b'\0', 2, 16))
            source_name, source_bytes = f'(const char *)source_{sources[text]}', len(text)
        rows.setdefault(api, []).append(
            f'    {{"{name}", {api}, {op}, {caps}, {address_bits}, {spirv_name}, '
            f'{spirv_bytes}, {source_name}, {source_bytes}}},\n')

    def where_built(parts):
        """The parts of each API, where that is built: KQ_API_X goes with KQ_HAS_X."""
        return ''.join(f'#ifdef {api.replace("API", "HAS")}\n{"".join(part)}#endif\n'
                       for api, part in parts.items())

    # C11 has no empty array, so the last row isn't counted.
    Path(out).write_text(
        f'#include "kernels.h"\n\n{where_built(arrays)}\n'
        f'const kq_kernel kq_kernel_table[] = {{\n{where_built(rows)}    {{0}},\n}};\n'
        'const size_t kq_kernel_table_count = sizeof kq_kernel_table / sizeof *kq_kernel_table - 1;\n')


def embed_text(out, symbol, files):
    """A string literal, for compilers take seconds over an array of a million numbers."""
    text = ''.join(Path(f).read_text(encoding='ascii') for f in files)
    escapes = str.maketrans({'\n': '\\n', '\t': '\\t', '"': '\\"', '\\': '\\\\'})
    pieces = (text[i:i + 4000].translate(escapes) for i in range(0, len(text), 4000))
    Path(out).write_text(
        f'#include <stddef.h>\nextern const unsigned char {symbol}[];\n'
        f'extern const size_t {symbol}_bytes;\nconst unsigned char {symbol}[] =\n' +
        '\n'.join(f'    "{piece}"' for piece in pieces) +
        f';\nconst size_t {symbol}_bytes = sizeof {symbol} - 1;\n')


def exports(out, headers):
    text = ''.join(re.sub(r'//.*|^\s*#.*', '', Path(h).read_text(), flags=re.M) for h in headers)
    names = re.findall(r'\bKQ_API [^;(]*\b(kq_\w+)\s*\(', text)
    Path(out).write_text('EXPORTS\n' + ''.join(f'    {name}\n' for name in sorted(names)))


def print_version(header):
    text = Path(header).read_text()
    print('.'.join(re.search(rf'#define KQ_VERSION_{part} (\d+)', text).group(1)
                   for part in ['MAJOR', 'MINOR', 'PATCH']))


def main():
    if len(sys.argv) < (3 if sys.argv[1:2] in (['kernels'], ['version']) else 4):
        sys.exit(__doc__)
    command, out, *rest = sys.argv[1:]
    if command == 'kernels':
        kernels(out, rest)
    elif command == 'version':
        print_version(out)
    elif command == 'text':
        embed_text(out, rest[0], rest[1:])
    elif command == 'exports':
        exports(out, rest)
    elif command == 'source':
        Path(out).write_text(source_text(rest[0], rest[1:]))
    else:
        sys.exit(__doc__)


main()
