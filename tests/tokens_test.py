#!/usr/bin/env python3
"""The arithmetic is written once: GLSL, OpenCL C and C compile the same tokens of it.

usage: tokens_test.py [GLSLANG [CLANG [CC]]]

Preprocesses src/exact.h, src/records.h and src/primitive.h after each language's prelude and
compares the streams, then the functions that every kernel and the C reference got from them. Holds
these headers to the few operators that drivers get right, and shaders/ and cl/ to having no arithmetic of their own,
but what is for CPUs, where u32 is a vector, to having no float.

Exit 1: a difference or a broken rule, each named. Exit 77: a tool is missing.
It first shows on changed copies that each rule can fail.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ('exact.h', 'records.h', 'primitive.h')
FEWEST_TOKENS = 1000

TOKEN = re.compile(r'''
    [A-Za-z_]\w* | 0[xX][0-9A-Fa-f]+\w* | \d[\w.]* | \.\d[\w.]* | "(?:[^"\\]|\\.)*"
    | <<= | >>= | \+\+ | -- | << | >> | <= | >= | == | != | && | \|\| | [-+*/%&|^]= | -> | \S
''', re.VERBOSE)

# How a language's stream begins: its prelude, then what a kernel defines to reach records.
PRELUDES = {'c': 'prelude.h', 'cl': 'prelude.cl', 'comp': 'prelude.glsl'}
LOADS = '''#define KQ_Q4_K q4_k
#define KQ_Q8_K q8_k
#define KQ_Q4_K_WORD(record, k) q4_k_word(record, k)
#define KQ_Q8_K_WORD(record, k) q8_k_word(record, k)
'''


class Tools:
    """The three preprocessors, and where they look for includes."""

    def __init__(self, glslang, clang, cc, source):
        self.source = source  # the folder of HEADERS
        folders = ['-I' + str(source), '-I' + str(ROOT / 'shaders'), '-I' + str(ROOT / 'cl'),
                   '-I' + str(ROOT / 'src'), '-I' + str(ROOT / 'include')]
        self.commands = {
            'c': [cc, '-E', '-P', *folders],
            'cl': [clang, '-E', '-P', '-x', 'cl', '-cl-std=CL1.2', '-target',
                   'spir-unknown-unknown', *folders],
            'comp': [glslang, '-E', '-S', 'comp', *folders],
        }

    def tokens(self, language, path):
        answer = subprocess.run([*self.commands[language], str(path)], capture_output=True,
                                text=True)
        if answer.returncode != 0:
            sys.exit(f'{path}: {answer.stderr}{answer.stdout}')
        text = re.sub(r'^\s*#.*$', '', answer.stdout, flags=re.M)
        return map_back(TOKEN.findall(text))


def map_back(tokens):
    """Undoes what the preludes do: the name of the one type, the qualifiers of functions and of
    parameters; the headers themselves have none."""
    mapped = []
    for token in tokens:
        if token == 'inline' and mapped[-1:] == ['static']:
            mapped.pop()
        elif token != 'const':
            mapped.append('u32' if token in ('uint', 'uint32_t') else token)
    return mapped


# --- Streams

def stream(tools, folder, language, defines):
    """The tokens of each of HEADERS, as a file of that language gets them."""
    path = Path(folder) / f'stream.{language}'
    start = ''
    if language == 'comp':
        start = '#version 450\n#extension GL_GOOGLE_include_directive : require\n'
    path.write_text(f'{start}#include "{PRELUDES[language]}"\nkq_mark\n'
                    f'#include "exact.h"\nkq_mark\n{defines}#include "records.h"\nkq_mark\n'
                    '#include "primitive.h"\nkq_mark\n')
    tokens = tools.tokens(language, path)
    marks = [i for i, token in enumerate(tokens) if token == 'kq_mark']
    if len(marks) != len(HEADERS) + 1:
        sys.exit(f'{language}: {len(marks)} marks')
    return [tokens[begin + 1:end] for begin, end in zip(marks, marks[1:])]


def difference(name, expected, tokens):
    """The first difference of two streams in words, or None."""
    for i, (ours, theirs) in enumerate(zip(expected, tokens)):
        if ours != theirs:
            before = ' '.join(tokens[max(i - 6, 0):i])
            return f'{name}: token {i} is {theirs!r} after {before!r}, in C it is {ours!r}'
    if len(expected) != len(tokens):
        return f'{name}: {len(tokens)} tokens, in C there are {len(expected)}'
    return None


def check_streams(tools, folder):
    c = stream(tools, folder, 'c', LOADS)
    for language in ('comp', 'cl'):
        other = stream(tools, folder, language, LOADS)
        for header, expected, tokens in zip(HEADERS, c, other):
            yield difference(f'{header} in {PRELUDES[language]}', expected, tokens)
    count = sum(map(len, c))
    if count <= FEWEST_TOKENS:
        yield f'{count} tokens in all; that is too few to be true'


# --- What each kernel got

def is_for_cpus(path):
    return re.fullmatch(r'(\w+\.)?cpu(_\w+)?\.cl', path.name) is not None


def functions(tokens):
    """The definitions at file scope whose names start with kq_: {name: tokens}."""
    found = {}
    depth = 0
    tokens = list(tokens)
    for i, token in enumerate(tokens):
        depth += (token in '({') - (token in ')}')
        if depth == 0 and token.startswith('kq_') and tokens[i + 1:i + 2] == ['(']:
            end = i + 1
            open_ = 0
            while end < len(tokens):
                open_ += (tokens[end] in '({') - (tokens[end] in ')}')
                if open_ == 0 and tokens[end] in ('}', ';'):
                    break
                end += 1
            if tokens[end:end + 1] == ['}']:
                found[token] = tokens[i - 1:end + 1]
    return found


def neutral_loads(text):
    """What a file defines to reach records, each macro a call of its name in small letters."""
    pattern = re.compile(r'^# *define (KQ_Q[48]_K\w*)(\([^)]*\))?.*\n', flags=re.M)
    return pattern.sub(lambda m: f'#define {m[1]}{m[2] or ""} {m[1].lower()}{m[2] or ""}\n',
                       text.replace('\\\n', ' '))


def check_kernel(tools, folder, path):
    """The functions of a kernel are those that C gets from the same record loads."""
    language = path.suffix[1:]
    text = neutral_loads(path.read_text())
    defines = ''.join(re.findall(r'^#define KQ_Q[48]_K.*\n', text, flags=re.M))
    exact, records, primitive = map(functions, stream(tools, folder, 'c', defines))
    copy = Path(folder) / path.name
    copy.write_text(text)
    found = functions('u32' if token == CPU_VECTOR and is_for_cpus(path) else token
                      for token in tools.tokens(language, copy))
    expected = dict(exact)
    for header in (records, primitive):
        expected |= header if any(name in found for name in header) else {}
    # Functions of the library that a C file holds beside those are none of ours.
    if language == 'c':
        found = {name: found[name] for name in found if name in exact | records | primitive}
    for name in sorted(expected.keys() ^ found.keys()):
        yield f'{path.name}: {name} is {"missing" if name in expected else "its own"}'
    for name in sorted(expected.keys() & found.keys()):
        yield difference(f'{name} of {path.name}', expected[name], found[name])


# --- Rules for the text

OPERATORS = {
    '+', '-', '*', '<<', '>>', '&', '|', '^', '~', '<', '>', '<=', '>=', '==', '!=', '?', ':',
    '&&', '||', '=', '+=', '++', '(', ')', '{', '}', ';', ',',
}
# What kernels do to indices is one of the steps to be asked for, but no other step has it.
DIVISION = ('primitive.h', '/')
KEYWORDS = {'for', 'if', 'return'}
TYPES = {'u32', 'KQ_COUNTER', 'KQ_FN', 'KQ_IN', 'KQ_Q4_K', 'KQ_Q8_K'}
# What a kernel defines to reach records, or records.h makes from that.
LOAD_MACRO = re.compile(r'KQ_Q[48]_K_\w+')
CONDITION = re.compile(r'ifndef KQ_((EXACT|RECORDS|PRIMITIVE)_H|COUNTER|HAS_CLZ)|ifdef KQ_Q[48]_K_\w+|endif'
                       r'|if defined \( KQ_Q[48]_K_\w+ \)( && defined \( KQ_Q[48]_K_\w+ \))*')
CONSTANT = re.compile(r'define KQ_(\w+( (0[xX][0-9A-F]+|\d+)u)?|COUNTER u32)')
LOAD = re.compile(r'define KQ_Q[48]_K_\w+ \( [a-z_]+( , [a-z_]+)* \) ')
OTHER_TYPES = set('''
    int uint unsigned signed char uchar short ushort long ulong size_t bool float double half
    int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t ivec2 ivec3 ivec4 uvec2 uvec3
    uvec4 int2 int4 uint2 uint4 uchar4 char4 struct union enum const static inline volatile
'''.split())


def without_comments(text):
    return re.sub(r'//[^\n]*|/\*.*?\*/', '', text, flags=re.S)


def check_header(path):
    """One of HEADERS: the operators that every driver gets right, on 32-bit words."""
    for line in without_comments(path.read_text()).replace('\\\n', ' ').splitlines():
        tokens = TOKEN.findall(line)
        where = f'{path.name}: {line.strip()!r}'
        if tokens[:1] == ['#']:
            directive = ' '.join(tokens[1:])
            load = LOAD.match(directive)
            if load is None:
                if not CONDITION.fullmatch(directive) and not CONSTANT.fullmatch(directive):
                    yield f'{where}: the directive {directive}'
                continue
            tokens = directive[load.end():].split()
        for i, token in enumerate(tokens):
            following = tokens[i + 1] if i + 1 < len(tokens) else ''
            if re.match(r'[A-Za-z_]', token):
                if token in OTHER_TYPES:
                    yield f'{where}: the type {token}'
                elif following == '(' and token not in KEYWORDS and \
                        not token.startswith('kq_') and not LOAD_MACRO.fullmatch(token):
                    yield f'{where}: a call of {token}'
                elif token.startswith('KQ_') and token not in TYPES and \
                        not re.match(r'KQ_(F32|EXPONENT|Q4_K|Q8_K|PRIMITIVE)_', token):
                    yield f'{where}: the macro {token}'
            elif re.match(r'\.?\d', token):
                # Shifts by a literal and increments of it are the only plain numbers.
                is_shift = i > 0 and tokens[i - 1] in ('<<', '>>')
                if not re.fullmatch(r'(0x[0-9A-F]{1,8}|\d+)u', token) and \
                        not (is_shift and token.isdecimal()):
                    yield f'{where}: the number {token}'
                elif is_shift and int(token.rstrip('u'), 0) > 31:
                    yield f'{where}: a shift by {token}'
            elif token not in OPERATORS and (path.name, token) != DIVISION:
                yield f'{where}: the operator {token}'


FLOAT_WORDS = re.compile(r'''
    float\d* | double\d* | half\d* | d?vec[234] | d?mat[234]\w* | precise | fma | mad | mad24
    | mul24 | ldexp | frexp | exp2? | log2? | sqrt | inversesqrt | rsqrt | rint | round(?:Even)?
    | floor | ceil | trunc | fabs | fmin | fmax | native_\w+ | half_\w+ | convert_\w+ | as_\w+
    | vload\w* | vstore\w* | (?:un)?pack(?:Half|Snorm|Unorm|Double)\w* | \w*[bB]its?To\w+
    | bitCount | popcount | findMSB | findLSB | clz | [ui]mulExtended | mul_hi | bitfield\w+
    | (?:u?int)?(?:8|16|64)_t | u?char\d* | u?short\d* | u?long\d*
''', re.VERBOSE)
# What these have that vectors of a CPU are made and read with; and what a u32 is there.
VECTOR_WORDS = re.compile(r'(convert|as)_u?(char|short|int)\d+|v(load|store)\d+|u?(char|short|long)\d*|as_ulong\d')
CPU_VECTOR = 'uint16'
# Masks of whole words and halves. The fields of an f32 or f16 are for exact.h to know.
MASKS = {'0xFFFFFFFFu', '0xFFFFu'}
FIELDS = {'10', '23', '126', '127', '128', '149', '150', '254', '255'}


def check_kernel_text(path):
    """A file of shaders/ or cl/: nothing that takes an f32 apart, or is one."""
    text = without_comments(path.read_text())
    for line in text.splitlines():
        where = f'{path.name}: {line.strip()!r}'
        for token in TOKEN.findall(line):
            if is_for_cpus(path):
                if FLOAT_WORDS.fullmatch(token) and not VECTOR_WORDS.fullmatch(token):
                    yield f'{where}: the word {token}'
            elif FLOAT_WORDS.fullmatch(token):
                yield f'{where}: the word {token}'
            elif re.match(r'0[xX]', token) and token not in MASKS:
                yield f'{where}: the mask {token}'
            elif re.fullmatch(r'\d+u?', token) and token.rstrip('u') in FIELDS:
                yield f'{where}: the number {token}, a field or bias of a float'
            elif re.match(r'\.?\d', token) and not re.match(r'0[xX]', token) and \
                    not re.fullmatch(r'\d+u?', token):
                yield f'{where}: the number {token}'


def device_files():
    """All device code but the shared headers, and the C that is built from these."""
    folders = [ROOT / name for name in ('shaders', 'cl', 'src')]
    return [path for folder in folders for path in sorted(folder.iterdir())
            if path.suffix in ('.comp', '.glsl', '.cl') or path.name in ('reference.c', 'self_test.c')]


def check_headers(tools, folder):
    yield from check_streams(tools, folder)
    for header in HEADERS:
        yield from check_header(tools.source / header)


def check_files(tools, folder, files):
    for path in files:
        if path.suffix != '.c':
            yield from check_kernel_text(path)
        if path.suffix != '.glsl' and '"exact.h"' in path.read_text():
            yield from check_kernel(tools, folder, path)


# --- That each rule can fail

TERMS = 'quantized_dot_terms'

# A file, a line put at its end or, in a kernel, after exact.h, a part of what must be said then.
FAULTS = (
    ('exact.h', '#ifdef __OPENCL_C_VERSION__\nu32 x;\n#endif', 'exact.h in prelude.cl: '),
    ('exact.h', '#ifdef __OPENCL_C_VERSION__\n#endif', 'the directive ifdef'),
    ('exact.h', '#define half_of(x) (x >> 1)', 'the directive define'),
    ('exact.h', '#define KQ_THREE(x) (x >> 1)', 'the directive define'),
    ('exact.h', 'KQ_FN u32 kq_x(ulong x) { return x; }', 'the type ulong'),
    ('exact.h', 'KQ_FN uint kq_x(u32 x) { return x; }', 'the type uint'),
    ('records.h', '#if defined(GL_core_profile)\nu32 x;\n#endif', 'records.h in prelude.glsl: '),
    ('records.h', '#define KQ_Q8_K_X(x) ((x) / 2u)', 'the operator /'),
    ('records.h', 'KQ_FN u32 kq_x(u32 x) { return x % 3u; }', 'the operator %'),
    ('records.h', 'KQ_FN u32 kq_x(u32 x) { return x - 65536; }', 'the number 65536'),
    ('records.h', 'KQ_FN u32 kq_x(u32 x) { return x << 32; }', 'a shift by 32'),
    ('records.h', 'KQ_FN u32 kq_x(u32 x) { return (float)x; }', 'the type float'),
    ('records.h', 'KQ_FN u32 kq_x(u32 x) { return abs(x); }', 'a call of abs'),
    ('records.h', 'KQ_FN u32 kq_x(u32 x) { return KQ_LANES; }', 'the macro KQ_LANES'),
    ('exact.h', 'KQ_FN u32 kq_x(u32 x) { return x / 3u; }', 'the operator /'),
    ('primitive.h', 'KQ_FN u32 kq_x(u32 x) { return x % 3u; }', 'the operator %'),
    (TERMS + '.comp', 'uint kq_own(uint x) { return x; }', 'kq_own is its own'),
    (TERMS + '.comp', '#define kq_f32_mul_normal(a, b) ((a) * (b))', 'kq_v of'),
    (TERMS + '.comp', 'uint f(uint x) { return (x >> 23) & 1u; }', 'the number 23'),
    (TERMS + '.comp', 'uint f(uint x) { return uint(float(x)); }', 'the word float'),
    (TERMS + '.comp', 'uint f(uint x) { return x & 0x7FFFFFu; }', 'the mask 0x7FFFFF'),
    (TERMS + '.cl', 'u32 f(u32 x) { return as_uint(x); }', 'the word as_uint'),
    (TERMS + '.cl', 'u32 f(u32 x) { return x * 2.5f; }', 'the number 2.5f'),
    (TERMS + '.cl', 'u32 kq_own(u32 x) { return x; }', 'kq_own is its own'),
    (TERMS + '_shared.cl', '#define kq_f32_sub kq_f32_add', 'kq_v of'),
    (TERMS + '_shared.cl', 'u32 f(u32 x) { return x - 127u; }', 'the number 127'),
    ('primitive.comp', '#define kq_f32_sub kq_f32_add', 'kq_primitive of'),
    ('reference.c', '#define kq_f32_sub(a, b) kq_f32_add(b, a)', 'kq_v of reference.c'),
)


def show_faults(glslang, clang, cc):
    """Yields a line for each fault of the table that is not found."""
    for name, line, expected in FAULTS:
        with tempfile.TemporaryDirectory() as copies:
            copies = Path(copies)
            for header in HEADERS:
                shutil.copy(ROOT / 'src' / header, copies)
            path = copies / name
            tools = Tools(glslang, clang, cc, copies)
            if path.exists():
                before, mark, after = path.read_text().rpartition('#endif')
                found = check_headers(tools, copies)
            else:
                text = next(f for f in device_files() if f.name == name).read_text()
                before, mark, after = text.partition('#include "exact.h"\n')
                before, mark = before + mark, ''
                found = check_files(tools, copies, [path])
            path.write_text(f'{before}{line}\n{mark}{after}')
            found = [fault for fault in found if fault]
            if not any(expected in fault for fault in found):
                yield f'{expected!r} is not found in {name} with {line!r}: {found[:3]}'


def main():
    given = sys.argv[1:]
    defaults = ('glslangValidator', shutil.which('clang-14') or 'clang', 'cc')
    glslang, clang, cc = given + list(defaults[len(given):])
    missing = [tool for tool in (glslang, clang, cc) if shutil.which(tool) is None]
    if missing:
        print(f'tokens_test: no {", ".join(missing)}')
        return 77
    tools = Tools(glslang, clang, cc, ROOT / 'src')
    found = list(show_faults(glslang, clang, cc))
    files = device_files()
    with tempfile.TemporaryDirectory() as folder:
        found += [fault for fault in check_headers(tools, folder) if fault]
        found += [fault for fault in check_files(tools, folder, files) if fault]
        streams = stream(tools, folder, 'c', LOADS)
    for fault in found:
        print(fault)
    counts = ', '.join(f'{len(tokens)} tokens of {header}'
                       for tokens, header in zip(streams, HEADERS))
    print(f'tokens_test: {counts} in three languages, {len(files)} files beside them, '
          f'{len(FAULTS)} faulty ones tried; {len(found)} differences and broken rules')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
