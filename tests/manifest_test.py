#!/usr/bin/env python3
"""Checks kernels.json, as installed, against the files beside it and against the library's plans.

usage: manifest_test.py BUILD SHADERS DEVICE_HEADERS [MANIFEST_PLAN]

Of each file: its digest. Of what made the modules: that each program is named, with a version. Of each
module, as spirv-dis shows it: entry point, capabilities, local size, address bits; for Vulkan the bindings,
who reads and writes them, and the push constants, whose names come from a module that is made of SHADERS
with names; for OpenCL the arguments. Of each OpenCL C
source: the kernel's name, local size and arguments. That all files are named, and all names are of
something. MANIFEST_PLAN compares what the manifest leads to with the library's plans.

It then changes the manifest, one thing at a time, and each change must be found. Exit 77: a tool is
missing.
"""
import copy
import functools
import hashlib
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from spirv_module import Module, run


class Installed:
    """What lies in the folder, read once."""

    def __init__(self, folder, shaders, headers, plan):
        self.folder, self.shaders, self.headers, self.plan = folder, shaders, headers, plan
        self.files = {str(path.relative_to(folder)) for path in folder.rglob('*')
                      if path.is_file() and path.name != 'kernels.json'}

    @functools.cache
    def digest(self, name):
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()

    @functools.cache
    def module(self, name):
        return Module(self.folder / name)

    @functools.cache
    def member_names(self, name):
        """The names of the push constants, which modules are installed without."""
        with tempfile.TemporaryDirectory() as tmp:
            spv = Path(tmp) / 'named.spv'
            made = run('glslangValidator', '-V', '--target-env', 'vulkan1.0',
                       f'-I{self.shaders}', f'-I{self.headers}', '-o', str(spv),
                       str(self.shaders / f'{name.removesuffix(".base")}.comp'))
            if made.returncode != 0:
                sys.exit(made.stdout + made.stderr)
            module = Module(spv)
        (_, block), = module.variables('PushConstant')
        names = {int(o[1]): o[2].strip('"') for o in module.operands('OpMemberName')
                 if o[0] == block}
        return [names[i] for i in range(len(names))]

    @functools.cache
    def source(self, name, entry_point):
        """Local size and arguments of a kernel of an OpenCL C file; None if it has none of that name."""
        text = run('clang-14', '-E', '-P', '-x', 'cl', '-cl-std=CL1.2', str(self.folder / name))
        kernels = re.findall(
            r'__attribute__\(\(reqd_work_group_size\((.*?)\)\)\)\s*kernel void (\w+)\((.*?)\)',
            text.stdout, re.S)
        for sizes, found, arguments in kernels:
            if found == entry_point:
                size = [int(n.strip().rstrip('u')) for n in sizes.split(',')]
                return size, [argument.split() for argument in arguments.split(',')]
        return None


def arguments_of(kernel):
    """What the manifest says of each OpenCL argument, by index: (role or param, is a buffer)."""
    found = []
    for role, binding in kernel['bindings'].items():
        found += [(index, role, i == 0) for i, index in enumerate(binding['opencl_arguments'])]
    found += [(param['opencl_argument'], param['name'], False) for param in kernel['params']]
    return sorted(found)


def check_module(installed, kernel, file):
    module = installed.module(file['file'])
    entry_points = module.operands('OpEntryPoint')
    if [e[2] for e in entry_points] != [f'"{file["entry_point"]}"']:
        yield f'entry point {file["entry_point"]}, but it is {entry_points}'
    capabilities = sorted(o[0] for o in module.operands('OpCapability'))
    if sorted(file['capabilities']) != capabilities:
        yield f'capabilities {file["capabilities"]}, but they are {capabilities}'
    if ('DotProduct' in capabilities) != ('features' in kernel):
        yield f'features of a module with {capabilities}'
    sizes = [[int(n) for n in o[2:]] for o in module.operands('OpExecutionMode')
             if o[1] == 'LocalSize']
    if sizes != [kernel['local_size']]:
        yield f'local size {kernel["local_size"]}, but it is {sizes}'
    if module.api == 'vulkan':
        yield from check_bindings(module, kernel)
        yield from check_push_constants(installed, module, kernel)
    else:
        yield from check_arguments(module, kernel, file)


def check_bindings(module, kernel):
    """A block's one member says who may use it; blocks of one binding are used together."""
    access = {}
    for variable, block in module.variables('Uniform'):
        if module.decoration(variable, 'DescriptorSet') != ['0']:
            yield 'a binding that is not in set 0'
        binding = int(module.decoration(variable, 'Binding')[0])
        flags = {o[2] for o in module.operands('OpMemberDecorate') if o[0] == block}
        access.setdefault(binding, set()).update(
            ({'read'} - {'read' for f in flags if f == 'NonReadable'}) |
            ({'write'} - {'write' for f in flags if f == 'NonWritable'}))
    stated = {b['binding']: set(b['access'].split('_')) for b in kernel['bindings'].values()}
    if stated != access or len(stated) != len(kernel['bindings']):
        yield f'bindings {stated}, but they are {access}'


def check_push_constants(installed, module, kernel):
    (_, block), = module.variables('PushConstant')
    offsets = {int(o[1]): int(o[3]) for o in module.operands('OpMemberDecorate')
               if o[0] == block and o[2] == 'Offset'}
    sizes = {module.size(member) for member in module.by_result[block].operands}
    stated = [param['offset'] for param in kernel['params']]
    if stated != [offsets[i] for i in range(len(offsets))] or sizes != {4}:
        yield f'offsets {stated}, but they are {offsets} of {sizes} bytes'
    names = installed.member_names(kernel['name'])
    if [param['name'] for param in kernel['params']] != names:
        yield f'the names of params are {names}'


def check_arguments(module, kernel, file):
    model = module.operands('OpMemoryModel')[0][0]
    if model != f'Physical{file["address_bits"]}':
        yield f'address bits {file["address_bits"]}, but it is {model}'
    function = module.operands('OpEntryPoint')[0][1]
    at = next(i for i, instruction in enumerate(module.instructions)
              if instruction.result == function)
    types = []
    for instruction in module.instructions[at + 1:]:
        if instruction.opcode != 'OpFunctionParameter':
            break
        types.append(module.by_result[instruction.operands[0]])
    is_buffer = [t.opcode == 'OpTypePointer' and t.operands[0] == 'CrossWorkgroup' for t in types]
    if any(t.operands[:1] != ['32'] for t, b in zip(types, is_buffer) if not b):
        yield 'an argument that is neither a buffer nor of 32 bits'
    stated = arguments_of(kernel)
    if [index for index, _, _ in stated] != list(range(len(types))):
        yield f'OpenCL arguments {[index for index, _, _ in stated]}, but there are {len(types)}'
    elif [buffer for _, _, buffer in stated] != is_buffer:
        yield 'other OpenCL arguments are buffers'


def check_source(installed, kernel, file):
    found = installed.source(file['file'], file['entry_point'])
    if found is None:
        yield f'entry point {file["entry_point"]}, which the source has not'
        return
    size, arguments = found
    if size != kernel['local_size']:
        yield f'local size {kernel["local_size"]} of the source, but it is {size}'
    expected = []
    for _, name, buffer in arguments_of(kernel):
        expected.append((name, buffer and kernel['bindings'][name]['access'] == 'read'))
    found = [(re.sub(r'_range_(buffer|low|high)$', '', argument[-1].lstrip('*')),
              'const' in argument) for argument in arguments]
    if found != expected:
        yield f'the arguments of the source are {found}'


def names_in(factors):
    for factor in factors:
        for item in factor['of']:
            yield from [item] if isinstance(item, str) else (
                item[key] for key in ('of', 'over') if key in item)


def check_kernel(installed, kernel):
    for key, file in kernel['files'].items():
        if file['file'] not in installed.files:
            yield f'{file["file"]} is not there'
            continue
        if installed.digest(file['file']) != file['sha256']:
            yield f'digest of {file["file"]}'
        check = check_source if key in ('opencl_source', 'opencl_cpu') else check_module
        for fault in check(installed, kernel, file):
            yield f'{file["file"]}: {fault}'
    params = {param['name'] for param in kernel['params']}
    for name in names_in(kernel['workgroups']):
        if name not in params:
            yield f'workgroups of {kernel["name"]} count {name}, which is no param'


def check_operation(name, operation, kernels):
    """That all names are of something; what they come to is for MANIFEST_PLAN to see."""
    used = [choice for each in [*operation['passes'], operation.get('whole', {'kernels': []})]
            for choice in each['kernels']]
    for choice in used:
        if choice['name'] not in kernels:
            yield f'{name} has the kernel {choice["name"]}, which is not there'
            return
    params = {param['name'] for choice in used for param in kernels[choice['name']]['params']}
    roles = {role for choice in used for role in kernels[choice['name']]['bindings']}
    areas = {area['area'] for area in operation['scratch']}
    for owner in used + operation['scratch']:
        for param in [*owner.get('where', {}), *names_in(owner.get('words', []))]:
            if param not in params:
                yield f'{name} asks for {param}, which is no param'
    for each in operation['passes']:
        for field in ('from_at', 'to_at'):
            if field in each and each[field] not in areas:
                yield f'{name} has no area {each[field]}'
    for role in operation['preset']:
        if role not in roles:
            yield f'{name} presets {role}, which is no binding'


def check_toolchain(manifest):
    """Who made the modules is said in words that the programs print, and no path is among them."""
    made = {file['file'].split('/')[0] for kernel in manifest['kernels'] for file in kernel['files'].values()
            if file['file'].endswith('.spv')}
    if set(manifest['toolchain']) != made:
        yield f'toolchain of {list(manifest["toolchain"])}, but modules are of {made}'
    for api, tools in manifest['toolchain'].items():
        if set(tools) != TOOLS[api]:
            yield f'toolchain of {api} is {list(tools)}'
        for name, words in tools.items():
            if not re.search(r'\d+\.\d+', words) or re.search(r'/\w|\n', words):
                yield f'toolchain: {name} is {words!r}'


TOOLS = {'vulkan': {'glslangValidator', 'spirv-opt'}, 'opencl': {'clang', 'opt', 'llvm-spirv', 'spirv-opt'}}


def faults(installed, manifest):
    found = []
    if manifest['format'] != 1:
        found.append(f'format {manifest["format"]}')
    kernels = {kernel['name']: kernel for kernel in manifest['kernels']}
    for kernel in manifest['kernels']:
        found += check_kernel(installed, kernel)
    found += check_toolchain(manifest)
    named = {file['file'] for kernel in manifest['kernels'] for file in kernel['files'].values()}
    found += [f'{name} is not named' for name in sorted(installed.files - named)]
    for name, operation in manifest['operations'].items():
        found += check_operation(name, operation, kernels)
    if installed.plan is not None and not found:
        with tempfile.TemporaryDirectory() as tmp:
            (Path(tmp) / 'kernels.json').write_text(json.dumps(manifest))
            answer = run(installed.plan, tmp)
        if answer.returncode < 0:
            found.append(f'died of signal {-answer.returncode}')
        elif answer.returncode != 0:
            found += ['plans: ' + line for line in (answer.stdout + answer.stderr).splitlines()]
    return found


# --- That each check can fail

def set_at(*path):
    """A change: path, then the value to put there."""
    *keys, last, value = path

    def change(manifest):
        for key in keys:
            manifest = manifest[key]
        manifest[last] = value
    return change


def drop(*path):
    *keys, last = path

    def change(manifest):
        for key in keys:
            manifest = manifest[key]
        del manifest[last]
    return change


def changes(manifest):
    """(a part of the fault that must be found, change)."""
    at = {kernel['name']: ('kernels', i) for i, kernel in enumerate(manifest['kernels'])}
    quantize, pairwise = at['quantize.base'], at['quantized_dot_pairwise.base']
    terms, shared = at['quantized_dot_terms.base'], at['quantized_dot_terms_shared.base']
    api = next(iter(manifest['kernels'][0]['files']))
    file = (*quantize, 'files', api)
    yield 'digest of', set_at(*file, 'sha256', '0' * 64)
    yield 'entry point', set_at(*file, 'entry_point', 'quantise')
    yield 'capabilities', set_at(*file, 'capabilities', ['Shader', 'Kernel', 'Float64'])
    yield 'capabilities', set_at(*file, 'capabilities', [])
    yield 'is not there', set_at(*file, 'file', 'quantize.spv')
    yield 'is not named', drop(*file)
    yield 'local size', set_at(*quantize, 'local_size', [32, 1, 1])
    yield 'workgroups', set_at(*quantize, 'workgroups', 0, 'of', ['blocks'])
    if 'vulkan' in manifest['kernels'][0]['files']:
        yield 'features', drop(*at['quantized_dot_terms_shared.packed'], 'features')
        yield 'features', set_at(*quantize, 'features', ['shaderFloat64'])
        yield 'bindings', set_at(*quantize, 'bindings', 'status', 'binding', 3)
        yield 'bindings', set_at(*quantize, 'bindings', 'status', 'binding', 1)
        yield 'bindings', drop(*quantize, 'bindings', 'status')
        yield 'bindings', set_at(*quantize, 'bindings', 'records', 'access', 'write')
        yield 'bindings', set_at(*terms, 'bindings', 'scratch', 'access', 'read_write')
        yield 'offsets', set_at(*quantize, 'params', 1, 'offset', 8)
        yield 'offsets', drop(*quantize, 'params', 6)
        yield 'names', set_at(*quantize, 'params', 2, 'name', 'value_stride')
    if 'opencl_source' in manifest['kernels'][0]['files']:
        yield 'OpenCL arguments', set_at(*quantize, 'params', 1, 'opencl_argument', 9)
        yield 'OpenCL arguments', drop(*quantize, 'params', 6)
        yield 'buffers', set_at(*quantize, 'bindings', 'values', 'opencl_arguments', [1, 0, 2])
        yield 'address bits', set_at(*quantize, 'files', 'opencl_32', 'address_bits', 64)
        yield 'entry point', set_at(*quantize, 'files', 'opencl_source', 'entry_point', 'main')
        yield 'of the source', set_at(*quantize, 'bindings', 'records', 'access', 'read')
        yield 'of the source', set_at(*quantize, 'params', 2, 'name', 'value_stride')
    for api, tools in manifest['toolchain'].items():
        yield 'toolchain', drop('toolchain', api)
        yield 'toolchain', drop('toolchain', api, 'spirv-opt')
        yield 'toolchain', set_at('toolchain', api, 'spirv-opt', '/usr/bin/spirv-opt 2023.1')
    sequential = ('operations', 'quantized_dot.sequential')
    tree = ('operations', 'quantized_dot.pairwise')
    yield 'is not there', set_at(*sequential, 'passes', 1, 'kernels', 0, 'name', 'fold.base')
    yield 'no area', set_at(*tree, 'passes', 1, 'from_at', 'values')
    yield 'no param', set_at('operations', 'quantize', 'passes', 0, 'kernels', 0, 'where',
                             {'blocks': {'least': 1}})
    yield 'no binding', set_at('operations', 'quantize', 'preset', {'state': [0, 0, 0, 0]})
    if sys.argv[4:]:
        if 'quantized_dot_terms.columns' in at:
            columns = (*at['quantized_dot_terms.columns'], 'workgroups')
            yield 'plans', set_at(*columns, 1, 'per', 32)
            yield 'plans', set_at(*columns, 2, 'per', 2)
            yield 'plans', set_at(*columns, 2, 'of', 0, 'over', 'G')
        yield 'plans', set_at(*quantize, 'workgroups', 0, 'per', 8)
        yield 'plans', set_at(*terms, 'workgroups', [{'of': ['G'], 'per': 1},
                                                     {'of': ['dots'], 'per': 64}])
        yield 'plans', set_at(*shared, 'workgroups', [{'of': ['G', 'dots'], 'per': 64}])
        yield 'plans', set_at(*pairwise, 'workgroups', 1, 'per', 64)
        yield 'plans', set_at(*at['primitive.base'], 'workgroups', 0, 'per', 128)
        yield 'plans', set_at(*at['bandwidth.base'], 'workgroups', 0, 'per', 2)
        yield 'plans', drop(*pairwise, 'workgroups', 0, 'of', 1, 'doubled_above', 2)
        yield 'plans', set_at('operations', 'quantize', 'preset', 'status', [0, 0, 0, 0])
        yield 'plans', set_at(*sequential, 'passes', 1, 'takes', 65536)
        yield 'plans', set_at(*sequential, 'passes', 1, 'to_at', 'terms')
        yield 'plans', set_at(*sequential, 'scratch', 0, 'where', 'G', 'least', 32768)
        yield 'plans', set_at(*sequential, 'scratch', 0, 'words', 0, 'of', ['dots', 'G'])
        for operation, number in (sequential, 0), (sequential, 1), (tree, 1):
            at_pass = (*operation, 'passes', number, 'kernels')
            choices = manifest['operations'][operation[1]]['passes'][number]['kernels']
            for i, choice in enumerate(choices):
                if i + 1 < len(choices):
                    yield 'plans', drop(*at_pass, i)
                for param, bounds in choice.get('where', {}).items():
                    yield 'plans', drop(*at_pass, i, 'where', param)
                    if 'least' in bounds:
                        least = 293 if param.endswith('_step') else 33
                        yield 'plans', set_at(*at_pass, i, 'where', param, 'least', least)
                    if 'multiple_of' in bounds:
                        yield 'plans', set_at(*at_pass, i, 'where', param, 'multiple_of', 8)
                        yield 'divides by 0', set_at(*at_pass, i, 'where', param, 'multiple_of', 0)
        if 'whole' in manifest['operations'][sequential[1]]:
            yield 'plans', set_at(*sequential, 'whole', 'resumes', 0)
            yield 'plans', set_at(*at['quantized_dot.cpu'], 'workgroups', 1, 'per', 2)
            yield 'plans', drop(*tree, 'whole')
            for i, choice in enumerate(manifest['operations'][tree[1]]['whole']['kernels']):
                yield 'plans', drop(*tree, 'whole', 'kernels', i)
                for param in choice['where']:
                    yield 'plans', drop(*tree, 'whole', 'kernels', i, 'where', param)
        # What would divide by 0, or never end.
        yield 'divides by 0', set_at(*sequential, 'scratch', 0, 'words', 0, 'per', 0)
        yield 'divides by 0', set_at(*sequential, 'passes', 1, 'takes', 0)
        for number in 0, 1:
            yield 'leaves as much as it takes', set_at(*tree, 'passes', 1, 'leaves_one_of', number)
        yield 'plans', drop(*sequential, 'passes', 0)
        yield 'plans', set_at(*tree, 'passes', 1, 'leaves_one_of', 64)
        yield 'plans', set_at(*tree, 'passes', 1, 'from_at', 'sums')
        yield 'plans', drop(*tree, 'passes', 1, 'kernels', 0, 'where')
        yield 'plans', drop(*tree, 'scratch', 1, 'where')
        yield 'plans', set_at(*tree, 'scratch', 1, 'words', 0, 'per', 64)


def show_faults(installed, manifest):
    count = 0
    for expected, change in changes(manifest):
        changed = copy.deepcopy(manifest)
        change(changed)
        count += 1
        found = faults(installed, changed)
        if not any(expected in fault for fault in found):
            yield f'change {count}, "{expected}", was not found: {found[:3]}'
    print(f'{count} changed manifests tried')


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    build, shaders, headers = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as tmp:
        staged = run('meson', 'install', '-C', build, '--no-rebuild', '--destdir', tmp)
        if staged.returncode != 0:
            sys.exit(staged.stdout + staged.stderr)
        path, = Path(tmp).rglob('kernels.json')
        manifest = json.loads(path.read_text())
        installed = Installed(path.parent, Path(shaders), Path(headers),
                              sys.argv[4] if sys.argv[4:] else None)
        tools = {'spirv-dis': '.spv', 'glslangValidator': 'vulkan/', 'clang-14': '.cl'}
        missing = [tool for tool, part in tools.items()
                   if any(part in name for name in installed.files) and shutil.which(tool) is None]
        if missing:
            print(f'manifest_test: no {", ".join(missing)}')
            return 77
        found = faults(installed, manifest)
        if not found:
            found = list(show_faults(installed, manifest))
        for fault in found:
            print(f'manifest_test: {fault}')
        print(f'{len(manifest["kernels"])} kernels, {len(installed.files)} files, '
              f'{len(found)} faults')
    return 1 if found or not manifest['kernels'] else 0


sys.exit(main())
