#!/usr/bin/env python3
"""Results of kquant check, as committed in tests/results: one report a driver, and one each for devices
that are not here, which others have sent.

results.py check KQUANT NAME             run the check of tests/results/NAME.json again, and compare
results.py make KQUANT [NAME...]         write these files anew, or those of all drivers
results.py compare OLD.json NEW.json     compare two reports of one device each
results.py agree [FOLDER]                does every file agree with the reference's in each case it holds?

Each difference is one line, and begins with
  REGRESSION   passed before, and doesn't now
  FIX          didn't pass before, and does now
  DIFFERENCE   has another digest or status, though that is no fix and no regression
  UNKNOWN      a case or a list of cases that only one of the two has; or a device or driver with other
               names than the committed one's, or none committed at all
Exit 0: none, or only UNKNOWN devices and drivers, on which all passes. Exit 77: the driver, or such a
processor, is not here.
"""
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE / 'results'
SHOWN = 20  # lines of a kind
TIME_LIMIT = 2000  # seconds for a case: one of them takes an interpreter many minutes

# Name: driver, device, width of lavapipe's vectors.
CHECKS = {
    'reference': ('reference', 'reference', None),
    'lavapipe-128': ('lavapipe', 'vulkan:0', 128),
    'lavapipe-256': ('lavapipe', 'vulkan:0', 256),
    'lavapipe-512': ('lavapipe', 'vulkan:0', 512),
    'swiftshader': ('swiftshader', 'vulkan:0', None),
    'pocl': ('pocl', 'opencl:0', None),
    'rusticl': ('rusticl', 'opencl:0', None),
    'oclgrind': ('oclgrind', 'opencl:0', None),
    'intel': ('intel', 'opencl:0', None),
}
# What an interpreter leaves out: 200 runs take it minutes, and two threads lose half of its work.
FILTERS = {'oclgrind': '!*.replay-*'}
# What the processor must have for vectors of that width.
WIDTH_FLAGS = {128: 'sse2', 256: 'avx2', 512: 'avx512bw'}


def load(path):
    """The report of a file, which has one device. ValueError: it is none."""
    try:
        report = json.loads(Path(path).read_bytes())
    except ValueError as reason:
        raise ValueError(f'{path}: is no JSON: {reason}') from None
    if not isinstance(report, dict) or report.get('format') != 1:
        raise ValueError(f'{path}: is no report, format 1')
    if len(report['devices']) != 1:
        raise ValueError(f'{path}: has {len(report["devices"])} devices, and a file is of one: '
                         'check --device=vulkan:0 and so on, each with a --json of its own')
    return report


# --- Comparing

def compare_case(name, old, new):
    """The line about a case, or None."""
    if old is None or new is None:
        return f'UNKNOWN {name}: is not in the {"committed" if old is None else "new"} report'
    if old['status'] == new['status'] and old['digest'] == new['digest']:
        return None
    kind = ('DIFFERENCE' if (old['status'] == 'pass') == (new['status'] == 'pass') else
            'REGRESSION' if old['status'] == 'pass' else 'FIX')
    reason = f': {new["reason"]}' if new.get('reason') else ''
    return (f'{kind} {name}: was {old["status"]} {old["digest"][:16]}, '
            f'is {new["status"]} {new["digest"][:16]}{reason}')


def compare(old, new):
    """(lines about the cases, lines about the device and the driver)"""
    before, now = old['devices'][0], new['devices'][0]
    sides = [{case['name']: case for case in device['cases']} for device in (before, now)]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    lines = [line for name in names for line in [compare_case(name, sides[0].get(name), sides[1].get(name))]
             if line]
    if not lines and before['fingerprint'] != now['fingerprint']:
        lines.append(f'DIFFERENCE fingerprint: was {before["fingerprint"][:16]}, is {now["fingerprint"][:16]}')
    if old['case_list'] != new['case_list'] and not lines:
        lines.append('UNKNOWN list of cases: is another')
    devices = [f'UNKNOWN {what}: was "{before[what]}", is "{now[what]}"'
               for what in ('name', 'driver') if before[what] != now[what]]
    return lines, devices


def print_lines(lines):
    kinds = {}
    for line in lines:
        kind = kinds.setdefault(line.split()[0], [])
        kind.append(line)
        if len(kind) <= SHOWN:
            print(line)
    for kind, of_it in kinds.items():
        if len(of_it) > SHOWN:
            print(f'{kind}: {len(of_it) - SHOWN} more')


def verdict(old, new, name):
    lines, devices = compare(old, new)
    print_lines(devices + lines)
    counts = [sum(line.startswith(kind) for line in lines + devices)
              for kind in ('REGRESSION', 'FIX', 'DIFFERENCE', 'UNKNOWN')]
    print(f'{name}: {len(new["devices"][0]["cases"])} cases, {counts[0]} regressions, {counts[1]} fixes, '
          f'{counts[2]} differences, {counts[3]} unknown')
    if lines:
        print('If that is as it should be, make the committed file anew: python3 tests/results.py make '
              'KQUANT NAME')
    return 1 if lines else 0


# --- Running

def run(kquant, name, path):
    """Writes the report of a check; the exit status of it, or 77."""
    driver, device, width = CHECKS[name]
    # Only what drivers.sh sets is to be in it, and nothing of who runs it.
    environment = {key: os.environ[key] for key in ('PATH', 'HOME', 'XDG_CACHE_HOME', 'LANG', 'TMPDIR')
                   if key in os.environ}
    if width:
        environment['LP_NATIVE_VECTOR_WIDTH'] = str(width)
        flags = Path('/proc/cpuinfo').read_text() if platform.machine() == 'x86_64' else ''
        if WIDTH_FLAGS[width] not in flags.split():
            print(f'results.py: {name}: this processor has no {WIDTH_FLAGS[width]}')
            return 77
    done = subprocess.run(['sh', HERE / 'on_driver.sh', driver, kquant, kquant, 'check', f'--device={device}',
                           '--level=quick', f'--time-limit={TIME_LIMIT}', f'--json={path}',
                           *([f'--filter={FILTERS[name]}'] if name in FILTERS else [])],
                          env=environment, text=True, stdout=subprocess.PIPE)
    if done.returncode not in (0, 77):
        print(done.stdout)
    elif done.returncode == 0 and width and f'{width} bits' not in load(path)['devices'][0]['name']:
        print(f'results.py: {name}: the device calls itself {load(path)["devices"][0]["name"]}')
        return 1
    return done.returncode


def check(kquant, name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'new.json'
        code = run(kquant, name, path)
        if code == 77 or not path.exists():
            return code or 1
        new = load(path)
    committed = FOLDER / f'{name}.json'
    if not committed.exists():
        device = new['devices'][0]
        print(f'UNKNOWN {name}: nothing is committed of "{device["name"]}", driver "{device["driver"]}"')
        committed = FOLDER / 'reference.json'
    return verdict(load(committed), new, name) or code


def make(kquant, names):
    worst = 0
    for name in names or CHECKS:
        path = FOLDER / f'{name}.json'
        code = run(kquant, name, path)
        print(f'{path}: ' + (load(path)['devices'][0]['fingerprint'] if code == 0 else
                             'not made' if code == 77 else f'the check failed, exit {code}'), flush=True)
        worst = max(worst, 0 if code == 77 else code)
    return worst


# --- Do they agree?

def fingerprint(device):
    """As it follows from the digests, where all cases passed."""
    digest = hashlib.sha256()
    for case in device['cases']:
        op, _, what = case['name'].split('.', 2)
        digest.update(f'{op}.{what}\0{case["digest"]}\0'.encode())
    return digest.hexdigest()


def list_digest(names):
    return hashlib.sha256(''.join(f'{name}\0' for name in names).encode()).hexdigest()


def faults_of_list(report, names):
    """What is wrong with which cases a file holds."""
    listed = {'count': len(names), 'sha256': list_digest(names)}
    return [] if report['case_list'] == listed else ['its cases are not those that it says it is of']


def faults_of_options(name, report, reference):
    """A file is of a whole run, of the same inputs; the filter of a driver that has one is known."""
    wanted = {key: reference['options'].get(key) for key in ('level', 'seed', 'vectors', 'fault')}
    wanted['filter'] = FILTERS.get(name)
    given = report['options']
    return [f'--{key} is {given.get(key, "none")}, and should be {value or "none"}'
            for key, value in wanted.items() if given.get(key) != value]


def without(name):
    return f' without {FILTERS[name][1:]}' if name in FILTERS else ''


def faults_of(name, report, reference):
    device = report['devices'][0]
    names = [case['name'] for case in device['cases']]
    faults = faults_of_options(name, report, reference) + faults_of_list(report, names)
    if device['fingerprint'] == 'incomplete':
        return ['not every case passed'] + faults
    if device['fingerprint'] != fingerprint(device):
        faults.append(f'the fingerprint should be {fingerprint(device)[:16]}, by its digests')
    expected = [case['name'] for case in reference['devices'][0]['cases']]
    if name in FILTERS:
        expected = [case for case in expected if not fnmatchcase(case, FILTERS[name][1:])]
    # Of a device that is not here, the list may be an older one.
    if name in CHECKS and names != expected:
        faults.append('its cases are not the reference\'s' + without(name))
    # Of other options the inputs are others, and so are the digests.
    return faults or [line for line in compare(reference, report)[0] if not line.startswith('UNKNOWN')]


def agree(folder):
    """A file of a device that is not here may be of an older list of cases. What it has in common with
    the reference's is compared, and every line says how much that is."""
    reference = load(folder / 'reference.json')
    total = {case['name'] for case in reference['devices'][0]['cases']}
    wrong = [f'{name}.json is missing' for name in CHECKS if not (folder / f'{name}.json').exists()]
    for line in wrong:
        print(line)
    fewer = []
    for path in sorted(folder.glob('*.json')):
        name = path.stem
        try:
            report = load(path)
        except ValueError as reason:
            print(reason)
            wrong.append(f'{path.name} is no report of one device')
            continue
        device = report['devices'][0]
        held = {case['name'] for case in device['cases']}
        faults = faults_of(name, report, reference)
        if faults:
            wrong.append(f'{path.name} does not agree')
        elif held != total:
            fewer.append(f'{path.name} in the {len(held & total)} that it has{without(name)}')
        print(f'{name:14} {len(held):5} cases  {device["fingerprint"][:16]:16} '
              f'{device["name"]}, {device["driver"]}')
        print_lines([f'  {fault}' for fault in faults])
    if wrong:
        print('; '.join(wrong))
        return 1
    files = len(list(folder.glob('*.json'))) - len(fewer)
    print('; '.join([f'{files} files agree in all {len(total)} cases, fingerprint '
                     f'{reference["devices"][0]["fingerprint"]}', *fewer]))
    return 0


def main():
    command, *rest = sys.argv[1:] or ['']
    if command == 'check' and len(rest) == 2 and rest[1] in CHECKS:
        return check(*rest)
    if command == 'make' and rest and all(name in CHECKS for name in rest[1:]):
        return make(rest[0], rest[1:])
    if command == 'compare' and len(rest) == 2:
        return verdict(load(rest[0]), load(rest[1]), rest[1])
    if command == 'agree' and len(rest) <= 1:
        return agree(Path(rest[0]) if rest else FOLDER)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == '__main__':
    try:
        sys.exit(main())
    except ValueError as reason:
        sys.exit(f'results.py: {reason}')
