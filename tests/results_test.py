#!/usr/bin/env python3
"""results.py says what is another, and nothing where nothing is: on reports altered on purpose.

results_test.py RESULTS.py FOLDER KQUANT
"""
import copy
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RESULTS, FOLDER, KQUANT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3]
DOCS = RESULTS.parent.parent
sys.path.insert(0, str(RESULTS.parent))
sys.dont_write_bytecode = True
from expect import expect, sum_up
from results import fingerprint, list_digest


def results(code, *arguments):
    done = subprocess.run([sys.executable, RESULTS, *arguments], text=True, stdout=subprocess.PIPE)
    expect(done.returncode == code, f'{arguments}: exit {done.returncode}, not {code}: {done.stdout[-400:]}')
    return done.stdout


def altered(report, change):
    other = copy.deepcopy(report)
    device = other['devices'][0]
    change(other, device, device['cases'][1])
    return other


def fail(_, device, case):
    case.update(status='fail', mismatches=1, reason='a bit')
    device.update(fingerprint='incomplete')


def unsupport(_, device, case):
    fail(_, device, case)
    case.update(status='unsupported', digest='')


def other_bits(_, device, case):
    case.update(digest='0' * 64)
    device.update(fingerprint='1' * 64)


def lose(_, device, case):
    device['cases'].remove(case)


def rename(_, device, case):
    case['name'] += '-more'


def other_driver(_, device, __):
    device.update(driver='another, 2.0', name='another processor')


def slower(_, __, case):
    case.update(seconds=100)


def test_compare(folder):
    good = json.loads((FOLDER / 'lavapipe-256.json').read_text())
    failed = altered(good, fail)

    def compare(code, old, new, *words):
        (folder / 'old.json').write_text(json.dumps(old))
        (folder / 'new.json').write_text(json.dumps(new))
        said = results(code, 'compare', folder / 'old.json', folder / 'new.json')
        lines = [line.split()[0] for line in said.splitlines() if line.split()[0].isupper()]
        expect(lines == list(words), f'{words}: {said}')
        expect(('make the committed file anew' in said) == (code == 1), f'{words}: how to go on: {said}')
        return said

    name = good['devices'][0]['cases'][1]['name']
    compare(0, good, good)
    compare(0, good, altered(good, slower))
    said = compare(1, good, failed, 'REGRESSION')
    expect(f'REGRESSION {name}: was pass ' in said and said.count('a bit') == 1, said)
    compare(1, failed, good, 'FIX')
    said = compare(1, good, altered(good, other_bits), 'DIFFERENCE')
    expect(f'DIFFERENCE {name}: ' in said and ', is pass 0000000000000000\n' in said, said)
    compare(1, failed, altered(good, unsupport), 'DIFFERENCE')
    compare(1, good, altered(good, lambda _, device, __: device.update(fingerprint='1' * 64)), 'DIFFERENCE')
    said = compare(1, good, altered(good, lose), 'UNKNOWN')
    expect('is not in the new report' in said, said)
    compare(1, altered(good, lose), good, 'UNKNOWN')
    compare(1, good, altered(good, rename), 'UNKNOWN', 'UNKNOWN')
    compare(1, good, altered(good, lambda root, *_: root['case_list'].update(sha256='0' * 64)), 'UNKNOWN')
    said = compare(0, good, altered(good, other_driver), 'UNKNOWN', 'UNKNOWN')
    expect('is "another, 2.0"' in said and 'is "another processor"' in said, said)
    compare(1, good, altered(failed, other_driver), 'UNKNOWN', 'UNKNOWN', 'REGRESSION')


def listed(report, device, names=None):
    """Says of itself what it holds, as a run of these cases would."""
    device['cases'] = [case for case in device['cases'] if names is None or case['name'] in names]
    names = [case['name'] for case in device['cases']]
    report['case_list'] = {'count': len(names), 'sha256': list_digest(names)}
    device['counts']['pass'] = len(names)
    device.update(fingerprint=fingerprint(device))


def test_agree(folder):
    said = results(0, 'agree', FOLDER)
    files = sorted(FOLDER.glob('*.json'))
    expect(said.count('\n') == len(files) + 1, said)
    held = {path.stem: len(json.loads(path.read_text())['devices'][0]['cases']) for path in files}
    total = held['reference']
    for name, line in zip(held, said.splitlines()):
        expect(line.startswith(f'{name} ') and f' {held[name]} cases ' in line, line)
    last = said.splitlines()[-1]
    expect(last.startswith(f'{len(files) - 1} files agree in all {total} cases, ') and
           last.endswith(f'; oclgrind.json in the {held["oclgrind"]} that it has without *.replay-*'), last)
    # What the documents show, but for line ends and the rest of a digest.
    told = ' '.join((DOCS / 'docs/what-a-pass-means.md').read_text().split())
    expect(re.sub(r'([0-9a-f]{16})[0-9a-f]{48}', r'\1...', last) in told, f'what-a-pass-means.md has no "{last}"')
    done = subprocess.run([KQUANT, 'report', *files], text=True, stdout=subprocess.PIPE)
    last = done.stdout.splitlines()[-1]
    expect(done.returncode == 99 and last in ' '.join((DOCS / 'README.md').read_text().split()),
           f'README.md has no "{last}", exit {done.returncode}')

    def agree(code, name, change, words, last='', of='pocl'):
        shutil.rmtree(folder / 'results', ignore_errors=True)
        shutil.copytree(FOLDER, folder / 'results')
        report = json.loads((FOLDER / f'{of}.json').read_text())
        (folder / 'results' / f'{name}.json').write_text(json.dumps(altered(report, change)))
        said = results(code, 'agree', folder / 'results')
        expect(words in said, f'"{words}" is not said: {said}')
        expect(said.splitlines()[-1].endswith(last or f'{name}.json does not agree' if code else last),
               f'{name}, the last line: {said.splitlines()[-1]}')
        return said

    def older(report, device, case):
        lose(report, device, case)
        listed(report, device)

    def older_and_other(report, device, case):
        device['cases'][5].update(digest='0' * 64)
        older(report, device, case)

    def filtered(pattern):
        def change(report, device, _):
            report['options']['filter'] = pattern
            listed(report, device, [case['name'] for case in device['cases'] if 'zeros' in case['name']])
        return change

    def other_level(report, device, case):
        other_bits(report, device, case)
        report['options']['level'] = 'full'

    def option(name, value):
        return lambda report, *_: report['options'].update({name: value})

    agree(0, 'stranger', other_driver, 'another processor')
    agree(0, 'stranger', older, f'{total - 1} cases', f'stranger.json in the {total - 1} that it has')
    agree(1, 'stranger', older_and_other, 'DIFFERENCE')
    agree(1, 'intel', older, "its cases are not the reference's")
    agree(1, 'pocl', other_bits, 'by its digests')
    agree(1, 'pocl', fail, 'not every case passed')
    agree(1, 'stranger', fail, 'not every case passed')
    agree(1, 'stranger', lose, 'not those that it says')
    # A part of a run is no run, whoever filtered it.
    agree(1, 'stranger', filtered('*zeros*'), '--filter is *zeros*, and should be none')
    agree(1, 'pocl', filtered('*zeros*'), '--filter is *zeros*, and should be none')
    agree(1, 'stranger', filtered('!*.replay-*'), '--filter is !*.replay-*, and should be none')
    agree(1, 'oclgrind', filtered('!*.replay-*'), "its cases are not the reference's without *.replay-*", of='oclgrind')
    agree(1, 'oclgrind', filtered('*zeros*'), '--filter is *zeros*, and should be !*.replay-*', of='oclgrind')
    said = agree(1, 'stranger', other_level, '--level is full, and should be quick')
    expect('DIFFERENCE' not in said, f'cases of other levels are compared: {said}')
    agree(1, 'stranger', option('seed', '2'), '--seed is 2, and should be 1')
    agree(1, 'stranger', option('fault', 'crash'), '--fault is crash, and should be none')
    agree(0, 'stranger', option('time-limit', '7'), f'{total} cases')
    agree(1, 'stranger', lambda _, device, __: _['devices'].append(device), 'has 2 devices, and a file is of one',
          'stranger.json is no report of one device')
    agree(1, 'stranger', lambda report, *_: report.update(format=2), 'is no report, format 1',
          'stranger.json is no report of one device')
    (folder / 'results' / 'stranger.json').write_text('no JSON')
    expect('stranger.json: is no JSON' in results(1, 'agree', folder / 'results'), 'no JSON')
    (folder / 'results' / 'stranger.json').unlink()
    (folder / 'results' / 'pocl.json').unlink()
    expect(results(1, 'agree', folder / 'results').endswith('\npocl.json is missing\n'), 'a missing file is not said')


def test_paths():
    """What is committed names nobody's folders."""
    for path in sorted(Path(sys.argv[2]).glob('*.json')):
        expect(not re.search('/(root|home|Users)/', path.read_text()), f'{path.name} holds the path of a home')


def main():
    test_paths()
    with tempfile.TemporaryDirectory() as folder:
        test_compare(Path(folder))
        test_agree(Path(folder))
    return sum_up()


sys.exit(main())
