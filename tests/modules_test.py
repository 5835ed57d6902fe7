#!/usr/bin/env python3
"""Holds SPIR-V modules to what kernels may ask of a driver: nothing optional, no float.

usage: modules_test.py FOLDER_OR_FILE...

Modules are *.spv, except *.long.spv, which the build strips to make them; *.cl are kernels as
OpenCL C. A variant may have what VARIANTS allows it beyond a base kernel. Modules of
32-bit addresses must do what those of 64 bits do. Prints a line a module. Exit 1: a module breaks a
rule, all together are too large, or there is none. Exit 77: a tool is missing.

It first shows on small modules of its own that each rule can fail.
"""
import itertools
import re
import shutil
import struct
import sys
import tempfile
from pathlib import Path

from spirv_module import Module, run

TOOLS = ('spirv-dis', 'spirv-val', 'spirv-as', 'glslangValidator')

# Bytes of all that a library carries: modules and OpenCL sources.
MOST_BYTES = 400_000

MOST_BUFFERS = 4
MOST_INVOCATIONS = 128
MOST_SHARED_BYTES = {'vulkan': 16384, 'opencl': 1024}  # embedded profile
MOST_PUSH_BYTES = 128

CAPABILITIES = {
    'vulkan': {'Shader'},
    'opencl': {'Kernel', 'Addresses', 'Linkage'},
}
WIDE_CAPABILITIES = {'Int64'}

# Beside what a base kernel may have: storage buffers that are uvec4[], read by four words at a time;
# capabilities, extensions, instructions.
VARIANTS = {
    'base': set(),
    'cpu': set(),
    'aligned': {'uvec4[]'},
    'columns': {'uvec4[]'},
    'packed': {'uvec4[]', 'DotProduct', 'DotProductInput4x8BitPacked', 'OpSDot', 'OpExtension',
               '"SPV_KHR_integer_dot_product"'},
}
# Kernels that do no work but say how fast memory is take vectors whole.
KERNELS = {
    'bandwidth': {'uvec4[]', 'OpBitwiseXor on vectors', 'OpBitcast', 'OpConstantNull'},
}
EXTENDED = {
    'GLSL.std.450': {'UMin', 'UMax'},
    'OpenCL.std': {'u_min', 'u_max'},
}
DECORATIONS = {
    'Alignment', 'ArrayStride', 'Binding', 'Block', 'BufferBlock', 'BuiltIn', 'Constant',
    'DescriptorSet', 'FuncParamAttr', 'LinkageAttributes', 'NonReadable', 'NonWritable', 'Offset',
}

# Whatever is not here needs a reason to come in: float and bit-counting instructions, wide
# multiplies, signed division, subgroups, images, specialisation constants are all absent. The signed
# comparison and that of truths are what LLVM makes of a chain of comparisons and of a negation.
STRUCTURE = set('''
    OpAccessChain OpBranch OpBranchConditional OpCapability OpCompositeConstruct OpCompositeExtract OpConstant
    OpConstantComposite OpConstantFalse OpConstantTrue OpControlBarrier OpDecorate OpEntryPoint
    OpExecutionMode OpExtInst OpExtInstImport OpFunction OpFunctionCall OpFunctionEnd
    OpFunctionParameter OpInBoundsAccessChain OpInBoundsPtrAccessChain OpLabel OpLoad OpLoopMerge
    OpMemberDecorate OpMemoryModel OpName OpPhi OpPtrAccessChain OpReturn
    OpReturnValue OpSelect OpSelectionMerge OpSource OpStore OpUndef OpUnreachable OpVariable
    OpTypeArray OpTypeBool OpTypeFunction OpTypeInt OpTypePointer OpTypeRuntimeArray OpTypeStruct
    OpTypeVector OpTypeVoid
'''.split())
ARITHMETIC = set('''
    OpAtomicAnd OpAtomicIAdd OpAtomicIIncrement OpAtomicOr OpAtomicUMin OpBitwiseAnd OpBitwiseOr
    OpBitwiseXor OpIAdd OpIEqual OpIMul OpINotEqual OpISub OpLogicalAnd OpLogicalNot
    OpLogicalNotEqual OpLogicalOr OpNot OpSLessThan OpShiftLeftLogical OpShiftRightLogical OpUConvert
    OpUDiv OpUGreaterThan OpUGreaterThanEqual OpULessThan OpULessThanEqual OpUMod
'''.split())

# Only where addresses have 64 bits are there such integers, for the embedded profile leaves them
# out. They are addresses and nothing else: how they may arise, and what may take them.
WIDE_RESULTS = set('''
    OpCompositeExtract OpConstant OpIAdd OpIMul OpLoad OpShiftLeftLogical OpTypeVector OpUConvert
'''.split())
WIDE_USERS = set('''
    OpAccessChain OpCompositeExtract OpIAdd OpIMul OpInBoundsAccessChain OpInBoundsPtrAccessChain
    OpPtrAccessChain OpShiftLeftLogical OpTypeArray OpUConvert
'''.split())

def variant_of(path):
    """"aligned" of STEM.aligned.spv; "base" of a module that is none of the library's."""
    parts = path.name.split('.')
    return parts[1] if len(parts) > 2 and parts[1] in VARIANTS else 'base'


def allowed_of(path):
    return VARIANTS[variant_of(path)] | KERNELS.get(path.name.split('.')[0], set())


def check_declarations(module):
    version = struct.unpack_from('<I', module.path.read_bytes(), 4)[0]
    if version != 0x00010000:
        yield f'SPIR-V version 0x{version:08X}, not 1.0'
    allowed = allowed_of(module.path)
    capabilities = (CAPABILITIES[module.api] | (WIDE_CAPABILITIES if module.is_wide else set()) |
                    allowed)
    for (capability,) in module.operands('OpCapability'):
        if capability not in capabilities:
            yield f'capability {capability}'
    for (name,) in module.operands('OpExtension'):
        if name not in allowed:
            yield f'extension {name}'
    for operands in module.operands('OpExecutionMode'):
        if operands[1] != 'LocalSize':
            yield f'execution mode {operands[1]}'
        elif int(operands[2]) * int(operands[3]) * int(operands[4]) > MOST_INVOCATIONS:
            yield f'local size {" ".join(operands[2:])}, over {MOST_INVOCATIONS} in all'
    if not any(o[1] == 'LocalSize' for o in module.operands('OpExecutionMode')):
        yield 'no local size'
    if len(module.operands('OpEntryPoint')) != 1:
        yield f'{len(module.operands("OpEntryPoint"))} entry points'
    for opcode, place in (('OpDecorate', 1), ('OpMemberDecorate', 2)):
        for operands in module.operands(opcode):
            if operands[place] not in DECORATIONS:
                yield f'decoration {operands[place]}'


def check_instructions(module):
    imports = {i.result: i.operands[0].strip('"') for i in module.instructions
               if i.opcode == 'OpExtInstImport'}
    for result, opcode, operands in module.instructions:
        if opcode not in STRUCTURE | ARITHMETIC | allowed_of(module.path):
            yield f'{opcode} {" ".join(operands)}'
        elif opcode == 'OpTypeInt' and operands[0] not in ('32', '64'):
            yield f'integers of {operands[0]} bits'
        elif opcode == 'OpTypeInt' and operands[0] == '64' and not module.is_wide:
            yield 'integers of 64 bits'
        elif opcode == 'OpExtInst':
            name = imports[operands[1]]
            if operands[2] not in EXTENDED.get(name, set()):
                yield f'{operands[2]} of {name}'
        elif opcode in ARITHMETIC and result and operands[0] in module.by_result:
            if (module.by_result[operands[0]].opcode == 'OpTypeVector' and
                    f'{opcode} on vectors' not in allowed_of(module.path)):
                yield f'{opcode} on vectors'


def check_wide(module):
    """64-bit integers of a module that may have them."""
    types = {i.result for i in module.instructions
             if i.opcode == 'OpTypeInt' and i.operands[0] == '64'}
    types |= {i.result for i in module.instructions
              if i.opcode == 'OpTypeVector' and i.operands[0] in types}
    values = set()
    for result, opcode, operands in module.instructions:
        if result and operands and operands[0] in types and opcode not in ('OpTypePointer',
                                                                           'OpTypeVector'):
            values.add(result)
            if opcode not in WIDE_RESULTS:
                yield f'{opcode} gives 64 bits'
    for _, opcode, operands in module.instructions:
        if opcode not in WIDE_USERS and opcode not in ('OpName', 'OpDecorate'):
            for operand in operands:
                if operand in values:
                    yield f'{opcode} takes 64 bits'


def check_memory(module):
    """Buffers, shared memory and push constants."""
    shared = sum(module.size(t) for _, t in module.variables('Workgroup'))
    most = MOST_SHARED_BYTES[module.api]
    if shared > most:
        yield f'{shared} bytes of shared memory, over {most}'
    if module.api == 'opencl':
        return
    bindings = set()
    for variable, block in module.variables('Uniform'):
        if module.decoration(block, 'BufferBlock') is None:
            yield 'a uniform buffer'
        members = module.by_result[block].operands
        array = module.by_result[members[0]]
        element = module.by_result.get(array.operands[0], array)
        words = 1
        if element.opcode == 'OpTypeVector' and 'uvec4[]' in allowed_of(module.path):
            words = int(element.operands[1])
            element = module.by_result[element.operands[0]]
        if (len(members) != 1 or array.opcode != 'OpTypeRuntimeArray' or words not in (1, 4) or
                element.operands != ['32', '0'] or
                module.decoration(members[0], 'ArrayStride') != [str(4 * words)]):
            yield 'a storage buffer that is no uint[]'
        bindings.add((module.decoration(variable, 'DescriptorSet')[0],
                      module.decoration(variable, 'Binding')[0]))
    for descriptor_set, binding in sorted(bindings):
        if descriptor_set != '0' or int(binding) >= MOST_BUFFERS:
            yield f'set {descriptor_set}, binding {binding}; set 0 has 0 to {MOST_BUFFERS - 1}'
    if len(bindings) > MOST_BUFFERS:
        yield f'{len(bindings)} storage buffers, over {MOST_BUFFERS}'
    push = 0
    for _, block in module.variables('PushConstant'):
        for operands in module.operands('OpMemberDecorate'):
            if operands[0] == block and operands[2] == 'Offset':
                member = module.by_result[block].operands[int(operands[1])]
                push = max(push, int(operands[3]) + module.size(member))
    if push > MOST_PUSH_BYTES:
        yield f'{push} bytes of push constants, over {MOST_PUSH_BYTES}'
    classes = {operands[1] for operands in module.operands('OpVariable')}
    for storage in sorted(classes - {'Function', 'Input', 'Private', 'PushConstant', 'Uniform',
                                     'Workgroup'}):
        yield f'variables of storage class {storage}'


def check_valid(module):
    target = 'vulkan1.0' if module.api == 'vulkan' else 'opencl1.2'
    answer = run('spirv-val', '--target-env', target, str(module.path))
    if answer.returncode != 0:
        yield f'spirv-val: {(answer.stdout + answer.stderr).strip().splitlines()[0]}'


def source_faults(text):
    """Types of OpenCL C that the embedded profile leaves out, or that are float."""
    return [f'type {name}' for name in dict.fromkeys(
        re.findall(r'\b(?:half|float|double|u?long)(?:[1-9][0-9]?)?\b', text))]


def faults(path):
    """What is wrong with a module, each fault once."""
    found = []
    try:
        module = Module(path)
        for check in (check_declarations, check_instructions, check_wide, check_memory,
                      check_valid):
            found += list(check(module))
    except ValueError as error:
        found.append(str(error))
    return list(dict.fromkeys(found))


# --- That modules of 32-bit addresses, which no driver here runs, do what those of 64 bits do

def without_widths(path):
    """The functions of a module, where an address is a word like any other."""
    module = Module(path)
    names = {}
    globals_count = 0
    body = []
    for result, opcode, operands in module.instructions:
        if opcode == 'OpFunction' or body:
            if opcode == 'OpUConvert':
                names[result] = operands[1]
                continue
            body.append((result, opcode, operands))
            names[result] = f'#{len(body)}'
        elif opcode == 'OpTypeInt':
            names[result] = 'int'
        elif opcode == 'OpConstant':
            names[result] = operands[1]
        elif opcode in ('OpVariable', 'OpExtInstImport'):
            globals_count += 1
            names[result] = f'{opcode}{globals_count}'
        elif result:
            names[result] = f'{opcode}({" ".join(names.get(o, o) for o in operands)})'

    def name(operand):
        while operand in names:
            operand = names[operand]
        return operand

    lines = [' '.join([name(result), opcode] + [name(o) for o in operands])
             for result, opcode, operands in body]
    return [re.sub(r' Aligned \d+$', '', line) for line in lines]


def width_faults(paths):
    """What differs between modules NAME.32.spv and NAME.64.spv, and which lack the other."""
    found = {}
    for path in paths:
        match = re.fullmatch(r'(.+)\.(32|64)\.spv', path.name)
        if match:
            found.setdefault(match.group(1), {})[match.group(2)] = without_widths(path)
    for stem, bodies in found.items():
        pairs = itertools.zip_longest(bodies.get('32', []), bodies.get('64', []), fillvalue='none')
        for narrow, wide in pairs:
            if narrow != wide:
                yield f'{stem}: "{narrow}" in 32 bits, "{wide}" in 64'
                break


# --- That each rule can fail

GLSL = '''#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : enable
#extension GL_KHR_shader_subgroup_arithmetic : enable
layout(local_size_x = 64) in;
layout(push_constant) uniform Params { uint first; uint last[31]; } p;
layout(std430, set = 0, binding = 0) buffer Words { uint words[]; };
shared uint scratch[4096];
void main()
{
    uint x = words[gl_LocalInvocationIndex];
    scratch[gl_LocalInvocationIndex] = max(x, p.first);
    words[0] = scratch[0] + p.last[30];
}
'''

# What to replace in it, by what, and a part of the fault that must then be found.
GLSL_FAULTS = (
    ('max(x,', 'uint(float(x)) + max(x,', 'OpTypeFloat'),
    ('max(x,', 'floatBitsToUint(uintBitsToFloat(x)) + max(x,', 'OpTypeFloat'),
    ('layout(push', 'layout(constant_id = 0) const uint spec = 1;\nlayout(push', 'OpSpecConstant'),
    ('local_size_x = 64', 'local_size_x_id = 3', 'OpSpecConstant'),
    ('local_size_x = 64', 'local_size_x = 129', 'local size'),
    ('scratch[4096]', 'scratch[4097]', 'shared memory'),
    ('last[31]', 'last[32]', 'push constants'),
    ('binding = 0)', 'binding = 4)', 'binding 4'),
    ('shared uint', 'layout(set = 0, binding = 1) uniform U { uvec4 u; };\nshared uint',
     'uniform buffer'),
    ('uint words[]', 'uint head; uint words[]', 'no uint[]'),
    ('buffer Words', 'buffer Quads { uvec4 quads[]; };\n'
     'layout(std430, set = 0, binding = 0) buffer Words', 'no uint[]'),
    ('max(x,', 'bitCount(x) + max(x,', 'OpBitCount'),
    ('max(x,', 'findMSB(x) + max(x,', 'FindUMsb'),
    ('max(x,', 'bitfieldExtract(x, 1, 2) + max(x,', 'OpBitFieldUExtract'),
    ('max(x,', 'int(x) / 3 + max(x,', 'OpSDiv'),
    ('uint x =', 'uint high, low; umulExtended(p.first, 3u, high, low); uint x = low +',
     'OpUMulExtended'),
    ('max(x,', '(uvec2(x) * uvec2(p.first)).y + max(x,', 'on vectors'),
    ('max(x,', 'uint(uint64_t(x) >> 3) + max(x,', 'capability Int64'),
    ('max(x,', 'uint(uint16_t(x)) + max(x,', 'integers of 16 bits'),
    ('max(x,', 'uint(uint8_t(x)) + max(x,', 'integers of 8 bits'),
    ('max(x,', 'subgroupAdd(x) + max(x,', 'not 1.0'),
    ('buffer Words', 'buffer Words0 { uint w0[]; };\n'
     'layout(std430, set = 0, binding = 1) buffer Words1 { uint w1[]; };\n'
     'layout(std430, set = 0, binding = 2) buffer Words2 { uint w2[]; };\n'
     'layout(std430, set = 0, binding = 3) buffer Words3 { uint w3[]; };\n'
     'layout(std430, set = 1, binding = 0) buffer Words', '5 storage buffers'),
)

ASSEMBLY = '''
OpCapability Addresses
OpCapability Kernel
OpCapability Int64
%std = OpExtInstImport "OpenCL.std"
OpMemoryModel Physical64 OpenCL
OpEntryPoint Kernel %kernel "copy"
OpExecutionMode %kernel LocalSize 64 1 1
%uint = OpTypeInt 32 0
%ulong = OpTypeInt 64 0
%bool = OpTypeBool
%void = OpTypeVoid
%words = OpTypePointer CrossWorkgroup %uint
%signature = OpTypeFunction %void %words %uint
%two = OpConstant %ulong 2
%length = OpConstant %uint 256
%array = OpTypeArray %uint %length
%local_array = OpTypePointer Workgroup %array
%shared = OpVariable %local_array Workgroup
%kernel = OpFunction %void None %signature
%buffer = OpFunctionParameter %words
%index = OpFunctionParameter %uint
%entry = OpLabel
%wide = OpUConvert %ulong %index
%offset = OpIAdd %ulong %wide %two
%at = OpInBoundsPtrAccessChain %words %buffer %offset
%value = OpLoad %uint %at Aligned 4
%more = OpExtInst %uint %std u_max %value %index
OpStore %at %more Aligned 4
OpReturn
OpFunctionEnd
'''

ASSEMBLY_FAULTS = (
    ('OpIAdd', 'OpUDiv', 'OpUDiv gives 64 bits'),
    ('OpIAdd', 'OpBitwiseXor', 'OpBitwiseXor gives 64 bits'),
    ('%at =', '%which = OpULessThan %bool %index %index\n%some = OpSelect %ulong %which %wide %two\n'
     '%at =', 'OpSelect gives 64 bits'),
    ('%at =', '%less = OpULessThan %bool %wide %two\n%at =', 'OpULessThan takes 64 bits'),
    ('%at =', 'OpBranch %next\n%next = OpLabel\n%phi = OpPhi %ulong %wide %entry\n%at =', 'OpPhi'),
    ('Physical64', 'Physical32', 'capability Int64'),
    ('Physical64', 'Physical32', 'integers of 64 bits'),
    ('u_max %value', 'u_mul_hi %value', 'u_mul_hi of OpenCL.std'),
    ('OpCapability Int64', 'OpCapability Int64\nOpCapability Float64', 'capability Float64'),
    ('OpConstant %uint 256', 'OpConstant %uint 257', '1028 bytes of shared memory, over 1024'),
    ('LocalSize 64 1 1', 'ContractionOff', 'execution mode ContractionOff'),
    ('%std = ', 'OpExtension "SPV_KHR_float_controls"\n%std = ', 'extension "SPV_KHR_float'),
    ('%more = ', '%bits = OpBitCount %uint %value\n%more = ', 'OpBitCount'),
    ('%uint = ', 'OpDecorate %kernel FuncParamAttr Zext\nOpDecorate %at SaturatedConversion\n'
     '%uint = ', 'decoration SaturatedConversion'),
)


# What makes a module of 32-bit addresses of it.
ASSEMBLY_NARROW = (
    ('Physical64', 'Physical32'),
    ('OpCapability Int64\n', ''),
    ('%ulong = OpTypeInt 64 0\n', ''),
    ('OpConstant %ulong 2', 'OpConstant %uint 2'),
    ('%wide = OpUConvert %ulong %index\n', ''),
    ('OpIAdd %ulong %wide %two', 'OpIAdd %uint %index %two'),
)


def show_faults(folder):
    """Yields what goes wrong where a faulty module is not found faulty, or a sound one is."""
    def make(name, source, *command):
        path = folder / name
        path.write_text(source)
        answer = run(*command, '-o', str(path) + '.spv', str(path))
        if answer.returncode != 0:
            sys.exit(f'{name}: {answer.stdout}{answer.stderr}\n{source}')
        return str(path) + '.spv'

    def glsl(name, source):
        target = 'vulkan1.1' if 'subgroupAdd' in source else 'vulkan1.0'
        return make(f'{name}.comp', source, 'glslangValidator', '-V', '--quiet', '-g0',
                    '--target-env', target)

    def assembly(name, source):
        return make(f'{name}.spvasm', source, 'spirv-as', '--target-env', 'spv1.0')

    for text, expected in (('uint longer = 1u;', []), ('ulong4 x; float y;', ['type ulong4', 'type float'])):
        if source_faults(text) != expected:
            yield f'"{text}" as source: {source_faults(text)}'
    for kind, compiler, text, table in (('glsl', glsl, GLSL, GLSL_FAULTS),
                                        ('assembly', assembly, ASSEMBLY, ASSEMBLY_FAULTS)):
        found = faults(compiler(f'{kind}-sound', text))
        if found:
            yield f'a sound module is called faulty: {found}'
        for number, (old, new, expected) in enumerate(table):
            assert text.count(old) == 1, old
            found = faults(compiler(f'{kind}-{number}', text.replace(old, new)))
            if not any(expected in fault for fault in found):
                yield f'"{expected}" not found where it is: {found}'
    for element, expected in (('uvec4', False), ('uvec2', True)):
        source = GLSL.replace('uint words[]', f'{element} words[]').replace(
            'words[gl_LocalInvocationIndex]', 'words[gl_LocalInvocationIndex].x').replace(
                'words[0] =', 'words[0].x =')
        found = faults(glsl(f'{element}.aligned', source))
        if bool(found) != expected:
            yield f'a variant that reads {element}[]: {found}'
    narrow = ASSEMBLY
    for old, new in ASSEMBLY_NARROW:
        narrow = narrow.replace(old, new)
    pair = [Path(assembly('copy.32', narrow)), Path(assembly('copy.64', ASSEMBLY))]
    pair = [path.rename(path.with_name(path.name.replace('.spvasm', ''))) for path in pair]
    found = faults(pair[0]) + list(width_faults(pair))
    if found:
        yield f'a module and its narrow form differ: {found}'
    for text in (narrow.replace('OpIAdd', 'OpISub'), narrow.replace('Constant %uint 2', 'Constant %uint 3')):
        assembly('other.32', text)
        (folder / 'other.32.spvasm.spv').rename(pair[0])
        if not list(width_faults(pair)):
            yield f'a module and another do the same: {text}'
    if not list(width_faults(pair[1:])):
        yield 'a module does what none does'


# --- The modules

def collect(arguments):
    paths = []
    for argument in map(Path, arguments):
        found = sorted(argument.rglob('*')) if argument.is_dir() else [argument]
        paths += [path for path in found if path.name.endswith(('.spv', '.cl'))]
    return [path for path in paths if not path.name.endswith('.long.spv')]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f'modules_test: no {", ".join(missing)}')
        return 77
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for trouble in show_faults(Path(folder)):
            wrong += 1
            print(f'modules_test: {trouble}')
    total = modules = 0
    paths = collect(sys.argv[1:])
    for path in paths:
        size = path.stat().st_size
        total += size
        if path.suffix == '.cl':
            found = source_faults(path.read_text())
            if variant_of(path) == 'cpu':  # left out where a compiler has no 64-bit integers
                found = [fault for fault in found if fault not in ('type ulong', 'type ulong4')]
            wrong += len(found)
            print(f'{size:7} {path.name}: {"; ".join(found) or "source"}')
            continue
        modules += 1
        found = faults(path)
        if path.name.split('.')[1] not in VARIANTS:
            found.append('no rules are written for this variant')
        wrong += len(found)
        print(f'{size:7} {path.name}: {"; ".join(found) or "sound"}')
    for trouble in width_faults(paths):
        wrong += 1
        print(f'modules_test: {trouble}')
    print(f'{total:7} bytes in {modules} modules and their sources; '
          f'{len(GLSL_FAULTS) + len(ASSEMBLY_FAULTS)} faulty modules tried')
    if modules == 0:
        print('modules_test: no modules')
        return 1
    if total >= MOST_BYTES:
        print(f'modules_test: {total} bytes; they must stay below {MOST_BYTES}')
        wrong += 1
    return 1 if wrong else 0


sys.exit(main())
