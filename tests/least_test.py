#!/usr/bin/env python3
"""The whole list of kquant check, level full, on the least device that Vulkan 1.0 allows.

least_test.py KQUANT LEAST

LEAST goes by the name of the Vulkan loader, and ends the program at a call past the limits or a message
of the validation layer: the case is an error then. Every case must pass.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SHOWN = {
    'apiVersion': '1.0.',
    'maxStorageBufferRange': '134217728',
    'minStorageBufferOffsetAlignment': '256',
    'maxComputeWorkGroupCount[0]': '65535',
    'maxComputeWorkGroupCount[1]': '65535',
    'nonCoherentAtomSize': '256',
}


def main():
    kquant, least = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'least.json'
        old = os.environ.get('LD_LIBRARY_PATH')
        environment = dict(os.environ, LD_LIBRARY_PATH=str(least.parent) + (f':{old}' if old else ''))
        done = subprocess.run([kquant, 'check', '--device=vulkan:0', '--level=full', f'--json={path}'],
                              env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.stdout)
        if 'least device: no validation layer' in done.stdout:
            return 77
        device, = json.loads(path.read_text())['devices']
    wrong = [f'{name} is {device["properties"].get(name)}' for name, value in SHOWN.items()
             if not device['properties'].get(name, '').startswith(value)]
    if str(least.resolve()) not in device['properties'].get('libraries', '').split(', '):
        wrong.append(f'{least} is not among the libraries')
    if any(word in done.stdout for word in ('wrapped driver:', 'validation:')):
        wrong.append('it has said something')
    if device['fingerprint'] == 'incomplete':
        wrong.append('not every case passed')
    for text in wrong:
        print('least_test:', text)
    return 1 if wrong or done.returncode != 0 else 0


sys.exit(main())
