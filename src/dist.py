#!/usr/bin/env python3
"""Adds what the kernels' compilers made to the tarball of `meson dist`, which runs this.

dist.py KQUANT.C TOOLCHAIN.json API:MODULE...

Writes generated/kquant.c, generated/toolchain.json, generated/API/MODULE and generated/commit, the commit that
all of it is from.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    amalgamation, toolchain, *specs = sys.argv[1:]
    modules = [spec.split(':', 1) for spec in specs]
    if {api for api, _ in modules} != {'vulkan', 'opencl'}:
        sys.exit('dist.py: a tarball has the modules of both Vulkan and OpenCL; this build has not')
    # What the build folder holds may be older than the sources.
    subprocess.run(['meson', 'compile', '-C', os.environ['MESON_BUILD_ROOT'], 'kquant.c', 'toolchain.json'], check=True)
    generated = Path(os.environ['MESON_PROJECT_DIST_ROOT']) / 'generated'
    for folder, path in [('.', amalgamation), ('.', toolchain), *modules]:
        (generated / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, generated / folder)
    # As src/tool/meson.build asks for it.
    commit = subprocess.run(['git', 'describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'],
                            cwd=os.environ['MESON_SOURCE_ROOT'], check=True, capture_output=True)
    (generated / 'commit').write_bytes(commit.stdout)


main()
