#!/usr/bin/env python3
"""Which bytes a version of kquant has: the digest of every module and source, in tests/tables/modules.txt.

modules_digest.py check BUILD    are they those of the list? 1: no. 77: its toolchain is not the one here
modules_digest.py write BUILD    writes the list anew, which takes another version where bytes have changed

Who changes a kernel, or what makes modules of kernels, raises KQ_VERSION_PATCH in include/kquant/kquant.h,
builds, and writes the list: two packs of one version are then the same. Modules of other compilers are other
bytes, which says nothing; sources are the same with any.
"""
import json
import sys
from pathlib import Path

TABLE = Path(__file__).parent / 'tables/modules.txt'
HEAD = 'made by: python3 tests/modules_digest.py write build'


def read_table():
    """The version, what made the modules of each API, and the digest of each file."""
    head, version, *lines = TABLE.read_text().splitlines()
    if head != HEAD:
        sys.exit(f'modules_digest: {TABLE} begins with {head!r}')
    made_by, digests = {}, {}
    for line in lines:
        name, rest = line.split(maxsplit=1)
        if name.startswith('by:'):
            made_by[tuple(name.split(':')[1:])] = rest
        else:
            digests[name] = rest
    return version.split()[1], made_by, digests


def read_build(build):
    manifest = json.loads((Path(build) / 'src/kernels.json').read_text())
    made_by = {(api, name): words for api, tools in manifest['toolchain'].items() for name, words in tools.items()}
    digests = {file['file']: file['sha256'] for kernel in manifest['kernels'] for file in kernel['files'].values()}
    return manifest['kquant'], made_by, digests


def differences(old, new, apis, endings):
    """Of files of these APIs, or of APIs that the build has, with such endings."""
    def mine(name):
        return name.split('/')[0] in apis and name.endswith(endings)

    for name in sorted(name for name in {**old, **new} if mine(name)):
        if old.get(name) != new.get(name):
            yield f'{name}: was {old.get(name, "absent")[:16]}, is {new.get(name, "absent")[:16]}'


def compare(build):
    """What differs, and of which APIs the modules were made by others."""
    version, made_by, digests = read_table()
    here, made_here, new = read_build(build)
    apis = {name.split('/')[0] for name in new}
    others = {api for api, name in {*made_by, *made_here} if api in apis and
              made_by.get((api, name)) != made_here.get((api, name))}
    found = [*differences(digests, new, apis, '.cl'), *differences(digests, new, apis - others, '.spv')]
    return version, here, found, sorted(others), len(new)


def check(build):
    version, here, found, others, count = compare(build)
    if count == 0:
        print('modules_digest: this build has no kernels')
        return 77
    for line in found:
        print(f'modules_digest: {line}')
    if found and version == here:
        print(f'modules_digest: these are no longer the bytes of {version}: raise KQ_VERSION_PATCH in '
              'include/kquant/kquant.h, build, and run python3 tests/modules_digest.py write BUILD')
        return 1
    if version != here:
        print(f'modules_digest: the list is of {version}, this is {here}: run python3 tests/modules_digest.py write '
              'BUILD')
        return 1
    if others:
        print(f'modules_digest: modules of {", ".join(others)} were made by other programs than those of the list')
        return 77
    print(f'modules_digest: {count} files are those of {version}')
    return 0


def write(build):
    here, made_by, digests = read_build(build)
    if {name.split('/')[0] for name in digests} != {'vulkan', 'opencl'}:
        sys.exit('modules_digest: the list is of a build with Vulkan and OpenCL')
    if TABLE.exists():
        version, _, found, others, _ = compare(build)
        if version == here and (found or others):
            sys.exit(f'modules_digest: {version} has other bytes already: raise the version first\n' + '\n'.join(found))
    width = max(map(len, digests))
    lines = [HEAD, f'kquant {here}']
    lines += [f'by:{api}:{name}'.ljust(width) + f'  {words}' for (api, name), words in sorted(made_by.items())]
    lines += [f'{name:{width}}  {digest}' for name, digest in sorted(digests.items())]
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text('\n'.join(lines) + '\n')
    print(f'modules_digest: {len(digests)} files of {here}')
    return 0


def main():
    commands = {'check': check, 'write': write}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    return commands[sys.argv[1]](sys.argv[2])


sys.exit(main())
