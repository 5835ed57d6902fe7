#!/usr/bin/env python3
"""The kquant command on Windows: names and paths in any script, bytes as they are, children, loaders.

usage: windows_test.py KQUANT_EXE [NATIVE_KQUANT]

Runs KQUANT_EXE by Wine, whose prefix, display and drivers are the caller's: lavapipe is vulkan:0. What
both commands print and report is the same to the byte, but for what a report says of the machine.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VECTORS = Path(__file__).resolve().parent.parent / 'vectors'
NAME = 'größe-日本'
KQUANT = os.path.abspath(sys.argv[1])
NATIVE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
ENVIRONMENT = {**os.environ, 'LC_ALL': 'C.UTF-8'}
checks = 0
failures = 0


def expect(condition, text):
    global checks, failures
    checks += 1
    if not condition:
        failures += 1
        print('FAIL:', text)


def run(command, *arguments):
    return subprocess.run([*command, *arguments], capture_output=True, env=ENVIRONMENT, timeout=300)


def kquant(code, *arguments, program=KQUANT):
    done = run(['wine', program], *arguments)
    expect(done.returncode == code,
           f'kquant {" ".join(arguments)[:200]}: exit {done.returncode}, not {code}: {done.stderr.decode()[:400]}')
    expect(b'\r' not in done.stdout, f'kquant {arguments[0]}: a carriage return on stdout')
    return done


def column(file, name, number):
    for line in (VECTORS / file).read_text().splitlines():
        fields = line.split('\t')
        if fields[0] == name:
            return fields[number]
    raise KeyError(name)


def test_files():
    """Any name, read and written, holds the bytes that it should; 0x0A and 0x1A are some."""
    values, records = (bytes.fromhex(column('quantize.tsv', 'ramp', k)) for k in (2, 4))
    Path(f'{NAME}.f32').write_bytes(values)
    kquant(0, 'quantize', '--device=reference', f'{NAME}.f32', f'{NAME}.q8k')
    expect(Path(f'{NAME}.q8k').read_bytes() == records, 'records in a file of such a name are others')
    for newlines in (b'\n' * 1024, b'\x1a' * 1024, b'\r\n' * 512):
        Path('newlines.f32').write_bytes(newlines)
        kquant(0, 'quantize', '--device=reference', 'newlines.f32', 'newlines.q8k')
        got = Path('newlines.q8k').read_bytes()
        if NATIVE:
            run([NATIVE], 'quantize', '--device=reference', 'newlines.f32', 'native.q8k')
            expect(got == Path('native.q8k').read_bytes(), 'other records of bytes that text treats')
        expect(len(got) == 292, 'bytes are lost or added')
    for k, name in ((2, 'q4k'), (3, 'q8k')):
        Path(f'dot {NAME}.{name}').write_bytes(bytes.fromhex(column('dot.tsv', 'order-sensitive-cancel', k)))
    done = kquant(0, 'dot', '--device=reference', f'dot {NAME}.q4k', f'dot {NAME}.q8k')
    expect(done.stdout == b'1.27999997\t3fa3d70a\n', f'dot prints {done.stdout}')

    done = kquant(99, 'quantize', '--device=reference', f'fehlt-{NAME}.f32', 'out.q8k')
    expect(f'fehlt-{NAME}.f32: can\'t be read: No such file'.encode() in done.stderr, f'it says {done.stderr}')
    done = kquant(2, 'quantize', '--device=reference', f'{NAME}.f32', f'.\\{NAME.replace("grö", "GRÖ")}.F32')
    expect(b'must not be IN.f32' in done.stderr, 'one file by two spellings is an input and an output')
    for device in ('NUL', 'CON', f'{NAME}.f32\\'):
        kquant(99, 'quantize', '--device=reference', f'{NAME}.f32', device)
    expect(not [name for name in os.listdir() if '.partial' in name], 'a partial file is left')

    # Past MAX_PATH, 260 UTF-16 units.
    folder = Path(*[NAME * 6] * 8)
    folder.mkdir(parents=True)
    kquant(0, 'quantize', '--device=reference', f'{NAME}.f32', f'{folder}/out.q8k')
    kquant(0, 'quantize', '--device=reference', f'{NAME}.f32', f'{folder}/out.q8k')
    expect((folder / 'out.q8k').read_bytes() == records, 'a long path leads elsewhere')
    expect(os.listdir(folder) == ['out.q8k'], 'a long path leaves other files')


def facts(path):
    """A report without what is the machine's, and the seconds."""
    report = json.loads(path.read_bytes())
    report['tool'] = report['tool']['version']  # the commit is of each build
    system = (report.pop('system'), report.pop('environment', None))
    for device in report['devices']:
        device.pop('properties', None)
        for case in device['cases']:
            case.pop('seconds', None)
    return report, system


def test_reports():
    """A run with all that it reads and writes in folders of such names, child included."""
    folder = Path(f'Vektoren {NAME}')
    folder.mkdir()
    for file, lines in (('quantize.tsv', 40), ('dot.tsv', 40), ('bulk.tsv', 3)):
        text = (VECTORS / file).read_text().splitlines(keepends=True)
        folder.joinpath(file).write_text(''.join(text[:lines]))
    line = next(l for l in (VECTORS / 'dot.tsv').read_text().splitlines() if l.startswith('zeros\t'))
    folder.joinpath('dot.tsv').open('a').write(line.replace('zeros', 'of"two"words\\', 1) + '\n')
    out = Path(f'Berichte {NAME}')
    out.mkdir()
    # A backslash at the end stands before the quote that ends the child's argument.
    for vectors in (str(folder), f'{folder}\\'):
        check = ['check', '--device=reference', f'--vectors={vectors}', '--seed=3']
        kquant(0, *check, f'--json={out}/{NAME}.json', f'--junit={out}/{NAME}.xml')
    done = kquant(77, *check, '--filter=*"two"words\\')
    expect(b'1 passed, 0 failed' in done.stdout, f'quotes in a filter: {done.stdout[-200:]}')
    kquant(0, *check, f'--json={out}/{NAME}.json', '--resume')
    kquant(2, *check, '--json=new.json', '--junit=.\\NEW.json')
    done = kquant(0, 'report', f'{out}/{NAME}.json', '-o', f'{out}/Seite {NAME}.html')
    for path in sorted(out.iterdir()):
        expect(b'\r' not in path.read_bytes(), f'a carriage return in {path}')
    expect(sorted(path.name for path in out.iterdir()) ==
           sorted([f'{NAME}.json', f'{NAME}.xml', f'Seite {NAME}.html']), f'{out} holds {os.listdir(out)}')
    expect(NAME in (out / f'{NAME}.json').read_text(encoding='utf-8'), 'the report has another name of the folder')
    report, system = facts(out / f'{NAME}.json')
    expect(system[0]['os'].startswith('Windows (Wine '), f'the system is called {system[0]}')
    expect(system[0]['machine'] == 'x86_64', f'the machine is called {system[0]}')
    if NATIVE:
        native = Path('native.json')
        run([NATIVE], *check[:2], f'--vectors={folder}', '--seed=3', f'--json={native}')
        kquant(0, *check[:2], f'--vectors={folder}', '--seed=3', '--json=windows.json')
        ours, theirs = facts(Path('windows.json'))[0], facts(native)[0]
        for key in sorted({*ours, *theirs}):
            expect(ours.get(key) == theirs.get(key), f'reports differ in {key}')


def test_output():
    for arguments in (['--help'], ['check', '--help'], ['check', '--list'], ['gen', 'f32_multiply'],
                      ['gen', 'quantized_dot', '--draws=20'], ['bench', '--list']):
        done = kquant(0, *arguments)
        if NATIVE:
            expect(done.stdout == run([NATIVE], *arguments).stdout, f'{arguments}: not what is printed elsewhere')
    done = kquant(2, 'check', f'--{NAME}')
    expect(f'--{NAME}'.encode() in done.stderr, f'an argument is printed as {done.stderr}')
    # An asterisk is the option's, not the file system's.
    Path('quantize.base.zeros').write_bytes(b'')
    done = kquant(2, 'check', 'quantize.*')
    expect(b'quantize.*' in done.stderr, f'an asterisk became {done.stderr}')


def test_children():
    for fault, words in (('crash', 'the driver took the process with it: exit code 3'),
                         ('hang', 'not done after 2 s'), ('lost', 'lost, as --fault wants it')):
        done = kquant(99, 'check', '--device=reference', '--filter=*.base.zeros', '--time-limit=2',
                      f'--fault={fault}:quantize.base.zeros')
        expect(words.encode() in done.stdout or fault == 'lost', f'{fault}: {done.stdout.decode()}')
        expect(b'1 passed, 1 failed' in done.stdout, f'{fault}: the other case was lost too: {done.stdout}')
    # stderr is at its end when nobody holds it any more, and the child would.
    hang = ['wine', KQUANT, 'check', '--device=reference', '--filter=quantize.base.zeros', '--fault=hang']
    process = subprocess.Popen(hang, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    lines = iter(process.stdout.readline, b'')
    expect(any(line.startswith(b'reference') for line in lines), 'a run that hangs does not begin')
    process.kill()
    try:
        process.communicate(timeout=20)
        expect(True, '')
    except subprocess.TimeoutExpired:
        expect(False, 'the child outlives its parent')


def test_loaders():
    """Loaders are looked for in the system's folder, whatever lies beside the program or here."""
    done = kquant(0, 'check', '--device=vulkan:0', '--filter=*.base.zeros', '--json=loaders.json')
    properties = json.loads(Path('loaders.json').read_bytes())['devices'][0]['properties']
    libraries = properties.get('libraries', '')
    expect('\\system32\\vulkan-1.dll' in libraries.lower(), f'the libraries are "{libraries}"')
    folder = Path('program')
    folder.mkdir()
    shutil.copy(KQUANT, folder)
    names = ('vulkan-1.dll', 'OpenCL.dll', 'opencl.dll')
    for name in names:
        (folder / name).write_bytes(b'no library')
        Path(name).write_bytes(b'no library')
    done = kquant(0, 'devices', program=str(folder / Path(KQUANT).name))
    expect(b'\nvulkan:0 ' in done.stdout, f'a file called vulkan-1.dll is in the way: {done.stdout}')


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for test in (test_files, test_reports, test_output, test_children, test_loaders):
            test()
        os.chdir('/')
    print(f'windows_test: {checks} checks, {failures} failures')
    sys.exit(failures > 0)


main()
