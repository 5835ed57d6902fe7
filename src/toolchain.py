#!/usr/bin/env python3
"""Writes what made the modules of each API: the names of the tools, and what they call their versions.

toolchain.py OUT.json GENERATED.json [API:NAME:PROGRAM...]

What an API has no tools of here is taken from GENERATED.json, which may be absent: a tarball's, whose modules
were made elsewhere.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path


def version_of(program):
    """The first line with a version in it. Others may have paths, or the processor that this is."""
    said = subprocess.run([program, '--version'], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', env={**os.environ, 'LC_ALL': 'C'}).stdout
    for line in said.splitlines():
        if re.search(r'\d+\.\d+', line):
            return ' '.join(line.split())
    sys.exit(f'toolchain.py: {program} --version says no version')


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    out, generated, *specs = sys.argv[1:]
    tools = {}
    for spec in specs:
        api, name, program = spec.split(':', 2)
        tools.setdefault(api, {})[name] = version_of(program)
    if Path(generated).exists():
        tools = {**json.loads(Path(generated).read_text()), **tools}
    Path(out).write_text(json.dumps(tools, indent=1, sort_keys=True) + '\n')


main()
