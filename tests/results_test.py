#!/usr/bin/env python3
"""results.py says what is another, and nothing where nothing is: on reports altered on purpose.

results_test.py RESULTS.py FOLDER
"""
import copy
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RESULTS, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
sys.path.insert(0, str(RESULTS.parent))
sys.dont_write_bytecode = True
from results import fingerprint

failures = checks = 0


def expect(condition, message):
    global checks, failures
    checks += 1
    if not condition:
        failures += 1
        print('results_test:', message)


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


def test_agree(folder):
    said = results(0, 'agree', FOLDER)
    expect(said.count('\n') == len(list(FOLDER.glob('*.json'))) + 1, said)

    def agree(code, name, change, words):
        shutil.rmtree(folder / 'results', ignore_errors=True)
        shutil.copytree(FOLDER, folder / 'results')
        report = json.loads((FOLDER / 'pocl.json').read_text())
        (folder / 'results' / f'{name}.json').write_text(json.dumps(altered(report, change)))
        said = results(code, 'agree', folder / 'results')
        expect(words in said, f'"{words}" is not said: {said}')

    def older(report, device, case):
        lose(report, device, case)
        report['case_list'].update(count=1, sha256='0' * 64)
        device.update(fingerprint=fingerprint(device))

    def older_and_other(report, device, case):
        older(report, device, case)
        device['cases'][5].update(digest='0' * 64)
        device.update(fingerprint=fingerprint(device))

    agree(0, 'stranger', other_driver, 'another processor')
    agree(0, 'stranger', older, 'all agree')
    agree(1, 'stranger', older_and_other, 'DIFFERENCE')
    agree(1, 'intel', older, "the reference's is")
    agree(1, 'pocl', other_bits, 'by its digests')
    agree(1, 'pocl', fail, 'not every case passed')
    agree(1, 'stranger', fail, 'not every case passed')
    (folder / 'results' / 'pocl.json').unlink()
    expect('pocl.json is missing' in results(1, 'agree', folder / 'results'), 'a missing file is not said')


def test_paths():
    """What is committed names nobody's folders."""
    for path in sorted(Path(sys.argv[2]).glob('*.json')):
        expect(not any(home in path.read_text() for home in ('/root/', '/home/', '/Users/')),
               f'{path.name} holds the path of a home')


def main():
    test_paths()
    with tempfile.TemporaryDirectory() as folder:
        test_compare(Path(folder))
        test_agree(Path(folder))
    print(f'results_test: {checks} checks, {failures} failed')
    return 1 if failures else 0


sys.exit(main())
