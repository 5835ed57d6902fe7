#!/usr/bin/env python3
"""Writes the manifest: all that an engine must know to drive the kernels without the library.

usage: manifest.py OUT.json VERSION PARAMS.H TOOLCHAIN.json [MODULE_OR_SOURCE...]

The files are those that are installed: STEM.base.spv for Vulkan; STEM.base.32.spv, STEM.base.64.spv
and STEM.base.cl for OpenCL; and the same of variants, STEM.aligned.spv, STEM.cpu.cl. Digests, capabilities, entry
points and local sizes are the files' own, parameters and constants those of params.h; what no file
says stands in the tables here.
"""
import collections
import hashlib
import json
import re
import struct
import sys
from pathlib import Path

FORMAT = 1

NOTES = [
    'Words as in CONTRACT.md; include/kquant/device/params.h says what params mean. Files are named '
    'from the folder of this one. All numbers are unsigned. Strides and steps are taken as they are: '
    'packed records are 144 or 292 bytes apart, packed blocks 1024 and values 4; 0 is the same one each '
    'time.',
    'Without `features` no feature and no extension is needed of Vulkan 1.0, nor of OpenCL 1.2, embedded profile included, '
    'for opencl_source. All modules are SPIR-V 1.0, which OpenCL takes from version 2.1 on, or with '
    'cl_khr_il_program.',
    'Vulkan: bindings are storage buffers of set 0; params are push constants of 4 bytes at these '
    'offsets.',
    'OpenCL: a binding is three arguments of these indices: the buffer, then the first word of the '
    'bound range as two uints, & 0x3FFFFFFF and >> 30. Params are uints. opencl_32 and opencl_64 are '
    'one kernel for devices of so many address bits, opencl_source is the same as OpenCL C. opencl_cpu '
    'is OpenCL C for devices of CL_DEVICE_TYPE_CPU whose CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR is above 1, '
    'and goes with opencl_source there.',
    'A bound range starts at a multiple of 4 bytes and goes on to the end of the 4-byte word of its '
    'last byte. An offset in params counts from its start; scratch is bound from its first word on. Of 0 '
    'bytes it is not touched, so any range will do. limits: a range has at most range_bytes, and starts '
    'at a multiple of range_alignment, in Vulkan also of minStorageBufferOffsetAlignment.',
    'workgroups is the product of its factors; a factor is the product of what it is `of`, divided by '
    '`per` and rounded up. A name is a param; {"doubled_above": [...], "of": name} is 1, doubled for '
    'each number that the param is above, {"of": name, "over": name} one param divided by another, which '
    'goes without a remainder. Products take 64 bits. Dispatch x times y workgroups, x within '
    'the limit of its API (maxComputeWorkGroupCount[0]), with x * y at least that many and y as small as '
    'it can be; where that is 0, none. In OpenCL the global size is x times the local size, and y.',
    'A kernel is KERNEL.base, or a variant that does the same work faster for some shapes. A variant '
    'may be there for one API alone. One that has `features` is in no operation: where they are enabled '
    'it may be taken in place of the kernel that in_place_of names.',
    'An operation is its passes in order. A pass takes the first of its kernels that has a file of the '
    'sort that is used and whose `where` holds for the params; `least` and `most` are inclusive, and '
    'all must hold. One that is no .base may be passed over. from_at, to_at, resumes and '
    'ends, and count of a dot, are 0 where nothing here sets them, or the area they name is left out. '
    'Dots that are cut along their records (kq_part) are left to the library.',
    'Where one of the kernels of `whole` would be taken like that, it does all of the operation in one '
    'dispatch and leaves scratch alone; resumes is as given there.',
    'scratch is areas of words, one behind the other in this order; one whose `where` does not hold is '
    'left out, and takes no place. from_at and to_at of a pass name the areas whose first words they '
    'are. Scratch bytes are 4 times the words of all areas.',
    'A pass that folds is dispatched until one had ends = 1. At first G values are left; each dispatch '
    'has count = the values left, but at most `takes`. With `takes`, what is left then is less by '
    'count and from_at more by count * dots, and all but the first have resumes = 1; the one after '
    'which none is left ends. With `leaves_one_of`, what is left then is count divided by that and '
    'rounded up, and from_at and to_at change places; the one that leaves at most one ends.',
    'Each dispatch reads what the one before wrote. Vulkan: between any two a barrier from '
    'COMPUTE_SHADER, SHADER_WRITE to COMPUTE_SHADER, SHADER_READ | SHADER_WRITE; OpenCL: an in-order '
    'queue or events. preset is what the caller writes to a binding before: 4-byte words.',
    'toolchain is what made the modules, by the words of its programs; the same source gives the same bytes '
    'with the same of them.',
    'bandwidth is for benches: a workgroup copies 16384 bytes, or reads as many and writes 256; both ranges '
    'start at multiples of 16 bytes.',
]


def constants(params):
    """The numbers that params.h defines: KQ_LANES 64u and so on."""
    return {name: int(value)
            for name, value in re.findall(r'^#define KQ_(\w+) +(\d+)u$', params, re.M)}


def field_lists(params):
    """The lists of params.h: of QUANTIZE, DOT, ... the fields in order."""
    return {name: re.findall(r'field\((\w+)\)', block) for name, block in
            re.findall(r'#define KQ_(\w+)_PARAMS\(field\)((?:.*\\\n)*.*\n)', params)}


def per(divisor, *of):
    return {'of': list(of), 'per': divisor}


Kernel = collections.namedtuple('Kernel', 'op params bindings workgroups')


def kernel_table(c):
    """A row a kernel: operation, its list in params.h, bindings by role, factors of workgroups.
    A variant has its own row where it differs from its base."""
    inputs = {'lhs': (0, 'read'), 'rhs': (1, 'read'), 'scratch': (3, 'write')}
    folds = {'result': (2, 'read_write'), 'scratch': (3, 'read_write')}
    columns = {'of': 'dots', 'over': 'inner'}
    # A dot takes a lane for each few of its values, rounded up to a power of two.
    lanes = {'doubled_above': [c['PAIRWISE_VALUES'] << i for i in range(c['LANES'].bit_length() - 1)], 'of': 'count'}
    return {
        'quantize': Kernel(
            'quantize', 'QUANTIZE',
            {'values': (0, 'read'), 'records': (1, 'read_write'), 'status': (2, 'read_write')},
            [per(c['LANES'] // c['LANES_PER_BLOCK'], 'G')]),
        'quantize.aligned': Kernel(
            'quantize', 'QUANTIZE',
            {'values': (0, 'read'), 'records': (1, 'write'), 'status': (2, 'read_write')},
            [per(c['LANES'] // c['LANES_PER_ALIGNED_BLOCK'], 'G')]),
        'quantized_dot_terms': Kernel(
            'quantized_dot', 'DOT', inputs, [per(c['LANES'], 'G', 'dots')]),
        'quantize.cpu': Kernel(
            'quantize', 'QUANTIZE',
            {'values': (0, 'read'), 'records': (1, 'read_write'), 'status': (2, 'read_write')},
            [per(c['CPU_LANES'], 'G')]),
        'quantized_dot.cpu': Kernel(
            'quantized_dot', 'DOT',
            {'lhs': (0, 'read'), 'rhs': (1, 'read'), 'result': (2, 'read_write')},
            [per(c['CPU_LANES'], 'inner'), per(c['COLUMNS'], columns)]),
        'quantized_dot_terms.cpu': Kernel(
            'quantized_dot', 'DOT', inputs, [per(c['CPU_LANES'], 'dots'), per(c['CPU_RECORDS'], 'G')]),
        'quantized_dot_terms.columns': Kernel(
            'quantized_dot', 'DOT', inputs,
            [per(1, 'G'), per(c['LANES'], 'inner'),
             per(c['COLUMNS'], columns)]),
        'quantized_dot_terms_shared': Kernel(
            'quantized_dot', 'DOT', inputs, [per(1, 'G'), per(c['LANES'], 'dots')]),
        'quantized_dot_sequential': Kernel(
            'quantized_dot', 'DOT', folds, [per(c['LANES'], 'dots')]),
        'quantized_dot_pairwise': Kernel(
            'quantized_dot', 'DOT', folds,
            [per(c['LANES'], 'dots', lanes), per(c['PAIRWISE_CHUNK'], 'count')]),
        'primitive': Kernel(
            'self_test', 'PRIMITIVE', {'items': (0, 'read_write')}, [per(c['LANES'], 'count')]),
        'bandwidth': Kernel(
            'self_test', 'BANDWIDTH', {'from': (0, 'read'), 'to': (1, 'write')}, [per(1, 'count')]),
    }


def operation_table(c):
    """Passes, scratch and presets, of whole operations; parts (kq_part) are the library's."""
    steps, chunk = c['SEQUENTIAL_STEPS'], c['PAIRWISE_CHUNK']
    shared = {'dots': {'least': c['LANES'] // 2},
              'rhs_inner_step': {'most': 0}, 'rhs_outer_step': {'most': 0}}
    # Where there is but one column, rhs_outer_step is 0.
    columns = {'inner': {'least': c['LANES'] // 2}, 'rhs_inner_step': {'most': 0},
               'lhs_outer_step': {'most': 0}}
    aligned = {name: {'multiple_of': 16}
               for name in ('lhs_offset', 'lhs_stride', 'lhs_inner_step', 'lhs_outer_step')}
    aligned_blocks = {'values_offset': {'multiple_of': 16}, 'values_stride': {'multiple_of': 16},
                      'value_stride': {'least': 4, 'most': 4}, 'records_offset': {'multiple_of': 4},
                      'records_stride': {'multiple_of': 4}}
    side_by_side = {'inner': {'least': c['CPU_LANES']}}
    whole = [{'name': 'quantized_dot.cpu',
              'where': {**side_by_side, 'G': {'least': 1, 'most': c['CPU_RECORDS']}}},
             {'name': 'quantized_dot.cpu',
              'where': {**side_by_side, 'G': {'least': 1}, 'dots': {'least': c['CPU_DOTS']}}}]
    terms = {'kernels': [{'name': 'quantized_dot_terms.cpu'},
                         {'name': 'quantized_dot_terms_shared.aligned', 'where': {**shared, **aligned}},
                         {'name': 'quantized_dot_terms_shared.base', 'where': shared},
                         {'name': 'quantized_dot_terms.columns', 'where': {**aligned, **columns}},
                         {'name': 'quantized_dot_terms.base'}],
             'to_at': 'terms'}
    terms_area = {'area': 'terms', 'words': [per(1, 'G', 'dots')]}
    sequential = [{'name': 'quantized_dot_sequential.base'}]
    pairwise = [{'name': 'quantized_dot_pairwise.base', 'where': {'G': {'least': 1}}}]
    return {
        'quantize': {
            'scratch': [],
            'passes': [{'kernels': [{'name': 'quantize.cpu'},
                                    {'name': 'quantize.aligned', 'where': aligned_blocks},
                                    {'name': 'quantize.base'}]}],
            'preset': {'status': [0xFFFFFFFF, 0, 0, 0]}},
        'quantized_dot.sequential': {
            'whole': {'kernels': whole, 'resumes': 1},
            'scratch': [{'area': 'sums', 'words': [per(1, 'dots')],
                         'where': {'G': {'least': steps + 1}}}, terms_area],
            'passes': [terms, {'kernels': sequential, 'from_at': 'terms', 'to_at': 'sums',
                               'takes': steps}],
            'preset': {}},
        'quantized_dot.pairwise': {
            'whole': {'kernels': whole, 'resumes': 0},
            'scratch': [terms_area, {'area': 'sums', 'words': [per(chunk, 'G'), per(1, 'dots')],
                                     'where': {'G': {'least': chunk + 1}}}],
            # Of no records a dot is the +0 that the sequential fold starts from.
            'passes': [terms, {'kernels': pairwise + sequential, 'from_at': 'terms', 'to_at': 'sums',
                               'leaves_one_of': chunk}],
            'preset': {}},
        'primitive': {
            'scratch': [], 'passes': [{'kernels': [{'name': 'primitive.base'}]}], 'preset': {}},
        'bandwidth': {
            'scratch': [], 'passes': [{'kernels': [{'name': 'bandwidth.base'}]}], 'preset': {}},
    }


# What kernels and their params can't say: all offsets are of 32 bits.
LIMITS = {'range_bytes': 0xFFFFFFFF, 'range_alignment': 4}

CAPABILITIES = {1: 'Shader', 4: 'Addresses', 5: 'Linkage', 6: 'Kernel', 11: 'Int64',
                6018: 'DotProductInput4x8BitPacked', 6019: 'DotProduct'}

# Kernels that need features of Vulkan, and whose place they take.
FEATURES = {'quantized_dot_terms_shared.packed':
            {'features': ['shaderIntegerDotProduct'],
             'in_place_of': 'quantized_dot_terms_shared.aligned'}}


def instructions(words):
    """(opcode, operands) of a module; the header is 5 words."""
    at = 5
    while at < len(words):
        yield words[at] & 0xFFFF, words[at + 1:at + (words[at] >> 16)]
        at += words[at] >> 16


def describe_module(path):
    """Capabilities, entry point and local size, as the module has them."""
    data = path.read_bytes()
    capabilities, entry_point, local_size = [], None, None
    for opcode, operands in instructions(struct.unpack(f'<{len(data) // 4}I', data)):
        if opcode == 17:  # OpCapability
            capabilities.append(CAPABILITIES[operands[0]])
        elif opcode == 15:  # OpEntryPoint; the name is behind the execution model and the function
            name = struct.pack(f'<{len(operands) - 2}I', *operands[2:])
            entry_point = name[:name.index(0)].decode()
        elif opcode == 16 and operands[1] == 17:  # OpExecutionMode LocalSize
            local_size = list(operands[2:5])
    return entry_point, capabilities, local_size


ENDINGS = {'vulkan': '.spv', 'opencl_32': '.32.spv', 'opencl_64': '.64.spv',
           'opencl_source': '.base.cl', 'opencl_cpu': '.cpu.cl'}


def names_of(path):
    """The kernels of a file. A source names its own, of which it may have several."""
    stem, variant, *_ = path.name.split('.')
    stems = [stem] if path.suffix == '.spv' else re.findall(r'^kernel void (\w+)\(', path.read_text(), re.M)
    return [f'{stem}.{variant}' for stem in stems]


def source_size(path, numbers):
    """The local size that OpenCL C asks for, in numbers or constants of params.h."""
    sizes = re.search(r'reqd_work_group_size\((\w+), (\w+), (\w+)\)', path.read_text()).groups()
    return [numbers.get(size.removeprefix('KQ_')) or int(size) for size in sizes]


def files_of(name, paths, numbers):
    """The installed files of a kernel, and the local size that they have in common."""
    stem = name.split('.')[0]
    files, sizes = {}, []
    for key, ending in ENDINGS.items():
        for path in paths:
            is_there = (path.name == name + ending if path.suffix == '.spv' else
                        path.name.endswith(ending) and name in names_of(path))
            if not is_there:
                continue
            files[key] = {'file': f'{key.split("_")[0]}/{path.name}',
                          'sha256': hashlib.sha256(path.read_bytes()).hexdigest(),
                          'entry_point': stem}
            if path.suffix == '.spv':
                entry_point, capabilities, size = describe_module(path)
                files[key].update(entry_point=entry_point, capabilities=capabilities)
            else:
                size = source_size(path, numbers)
            sizes.append(size)
            if key in ('opencl_32', 'opencl_64'):
                files[key]['address_bits'] = int(key[-2:])
    if any(size != sizes[0] for size in sizes):
        sys.exit(f'manifest.py: modules of {name} differ in local size: {sizes}')
    return files, sizes[0]


def describe(name, kernel, fields, numbers, paths):
    files, local_size = files_of(name, paths, numbers)
    has_opencl = 'opencl_source' in files or 'opencl_cpu' in files

    def arguments(**which):
        return which if has_opencl else {}

    first_param = 3 * len(kernel.bindings)
    return {
        'name': name,
        'op': kernel.op,
        **FEATURES.get(name, {}),
        'files': files,
        'local_size': local_size,
        'bindings': {
            role: {'binding': binding, 'access': access,
                   **arguments(opencl_arguments=[3 * i, 3 * i + 1, 3 * i + 2])}
            for i, (role, (binding, access)) in enumerate(kernel.bindings.items())},
        'params': [{'name': field, 'offset': 4 * i, **arguments(opencl_argument=first_param + i)}
                   for i, field in enumerate(fields[kernel.params])],
        'workgroups': kernel.workgroups,
    }


def toolchain_of(files, tools):
    """What made the modules that are here."""
    apis = {'vulkan' if key == 'vulkan' else 'opencl' for key, ending in ENDINGS.items() for file in files
            for name in names_of(file) if file.suffix == '.spv' and file.name == name + ending}
    missing = apis - set(tools)
    if missing:
        sys.exit(f'manifest.py: nothing says what made the modules of {", ".join(sorted(missing))}')
    return {api: tools[api] for api in sorted(apis)}


def to_text(value, indent=0, before=0):
    """JSON with as much on a line as fits into 100 columns; `before` is taken there already."""
    short = json.dumps(value)
    if indent + before + len(short) < 100 or not isinstance(value, (dict, list)):
        return short
    inner = ' ' * (indent + 1)
    if isinstance(value, dict):
        names = [f'{json.dumps(name)}: ' for name in value]
        items = [name + to_text(item, indent + 1, len(name))
                 for name, item in zip(names, value.values())]
    else:
        items = [to_text(item, indent + 1) for item in value]
    brackets = '{}' if isinstance(value, dict) else '[]'
    lines = f',\n{inner}'.join(items)
    return f'{brackets[0]}\n{inner}{lines}\n{" " * indent}{brackets[1]}'


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    out, version, params_h, toolchain = sys.argv[1:5]
    files = [Path(name) for name in sys.argv[5:]]
    text = Path(params_h).read_text()
    numbers, fields = constants(text), field_lists(text)
    table = kernel_table(numbers)
    names = dict.fromkeys(name for file in files for name in names_of(file))
    rows = {name: table.get(name, table.get(name.split('.')[0])) for name in names}
    missing = [name for name in names if rows[name] is None]
    if missing:
        sys.exit(f'manifest.py: no row for {", ".join(missing)}')
    operations = operation_table(numbers) if names else {}
    for operation in operations.values():
        for each in [*operation['passes'], operation.get('whole', {'kernels': []})]:
            each['kernels'] = [kernel for kernel in each['kernels'] if kernel['name'] in names]
        if not operation.get('whole', {}).get('kernels'):
            operation.pop('whole', None)
    Path(out).write_text(to_text({
        'format': FORMAT,
        'kquant': version,
        'toolchain': toolchain_of(files, json.loads(Path(toolchain).read_text())),
        'notes': NOTES,
        'limits': LIMITS,
        'kernels': [describe(name, rows[name], fields, numbers, files) for name in names],
        'operations': operations,
    }) + '\n')


main()
