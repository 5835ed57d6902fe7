#!/usr/bin/env python3
"""Reports of kquant check: the JSON file and its schema, JUnit, --resume, and kquant report.

report_test.py KQUANT SCHEMA.json            all of it, on the reference
report_test.py KQUANT SCHEMA.json DEVICE...  each device has the reference's fingerprint
"""
import copy
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

sys.dont_write_bytecode = True
from expect import expect, sum_up

VECTORS = Path(__file__).resolve().parent / 'vectors'
KQUANT, SCHEMA = Path(sys.argv[1]).resolve(), json.loads(Path(sys.argv[2]).read_text())


def kquant(*arguments, environment=None):
    return subprocess.run([KQUANT, *arguments], capture_output=True, env=environment, timeout=500)


def run(code, *arguments, environment=None):
    done = kquant(*arguments, environment=environment)
    expect(done.returncode == code,
           f'{arguments}: exit {done.returncode}, not {code}: {(done.stdout + done.stderr)[-400:]}')
    return done


def check(code, *arguments, environment=None):
    return run(code, 'check', '--device=reference', *arguments, environment=environment)


def load(path):
    return json.loads(Path(path).read_bytes().decode('utf-8'))


def without_times(report):
    report = copy.deepcopy(report)
    for device in report['devices']:
        for case in device['cases']:
            case['seconds'] = 0
    return report


# --- The part of JSON Schema that the schema uses

TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'number': (int, float), 'integer': int}


def violations(value, schema, where='report'):
    """Yields what of a value is not as the schema has it."""
    if '$ref' in schema:
        yield from violations(value, SCHEMA['$defs'][schema['$ref'].rsplit('/', 1)[1]], where)
    kind = schema.get('type')
    if kind and (not isinstance(value, TYPES[kind]) or isinstance(value, bool) != (kind == 'boolean')):
        yield f'{where}: is no {kind}'
        return
    if 'const' in schema and value != schema['const'] or value not in schema.get('enum', [value]):
        yield f'{where}: {value!r}'
    if isinstance(value, str) and not re.search(schema.get('pattern', ''), value):
        yield f'{where}: {value!r} is not {schema["pattern"]}'
    if isinstance(value, (int, float)) and value < schema.get('minimum', value):
        yield f'{where}: {value} is too small'
    if isinstance(value, list):
        for k, item in enumerate(value):
            yield from violations(item, schema.get('items', {}), f'{where}[{k}]')
    if isinstance(value, dict):
        known = schema.get('properties', {})
        for name in schema.get('required', []):
            if name not in value:
                yield f'{where}.{name}: is missing'
        for name, item in value.items():
            more = schema.get('additionalProperties', {})
            if name not in known and more is False:
                yield f'{where}.{name}: is unknown'
            else:
                yield from violations(item, known.get(name, more), f'{where}.{name}')


def is_valid(report):
    return next(violations(report, SCHEMA), None) is None


def expect_valid(report, what):
    expect(is_valid(report), f'{what}: {next(violations(report, SCHEMA), None)}')


# --- Writing

def test_json():
    done = check(0, '--json=a.json', '--junit=a.xml')
    report = load('a.json')
    expect_valid(report, 'a.json')
    device, = report['devices']
    line = [line.split() for line in done.stdout.decode().splitlines() if line.startswith('reference')][-1]
    expect([int(n) for n in line[1:5]] == [device['counts'][s] for s in ('pass', 'fail', 'unsupported', 'error')],
           'counts are not those of the table')
    expect(device['fingerprint'].startswith(line[5]) and len(line[5]) == 16, 'another fingerprint than the table')
    names = run(0, 'check', '--list').stdout.decode().split()
    expect([case['name'] for case in device['cases']] == names, 'the cases are not those of --list')
    expect(report['status'] == device['status'] == 'complete', 'it is not complete')
    expect(report['case_list']['count'] == len(names), 'case_list.count')
    check(0, '--json=again.json')
    expect(without_times(load('again.json')) == without_times(report), 'a second run gives another report')


def test_strings():
    """Whatever an environment holds, the files can be read."""
    environment = dict(os.environb, VK_TEST=b'\x01\x1b[31m\xff\xc0\x80"\\<&\xf0\x9f\x98\x80\xed\xa0\x80')
    environment.update({b'HOME': b'/home/x', b'VK_HOME': b'/home/x/a:/home/xy:/b/home/x:/home/x'})
    check(0, '--filter=*.zeros*', '--json=s.json', '--junit=s.xml', environment=environment)
    expect(load('s.json')['environment']['VK_HOME'] == '~/a:/home/xy:/b/home/x:~', 'a home folder is shown')
    value = load('s.json')['environment']['VK_TEST']
    expect(value == '\x01\x1b[31m\ufffd\ufffd\ufffd"\\<&\U0001f600\ufffd\ufffd\ufffd', f'VK_TEST is {value!r}')
    properties = ElementTree.parse('s.xml').iter('property')
    value, = [p.get('value') for p in properties if p.get('name') == 'VK_TEST']
    expect(value == '\ufffd\ufffd[31m\ufffd\ufffd\ufffd"\\<&\U0001f600\ufffd\ufffd\ufffd', f'in XML {value!r}')


def test_junit():
    root = ElementTree.parse('a.xml').getroot()
    suite, = root
    cases = suite.findall('testcase')
    expect(len(cases) == int(suite.get('tests')) == load('a.json')['case_list']['count'], 'JUnit has other cases')
    expect(not any(len(case) for case in cases), 'JUnit has a failure')
    check(1, '--filter=*.base.*zeros*', '--fault=flip:quantize.base.zeros', '--junit=f.xml', '--json=f.json')
    expect_valid(load('f.json'), 'f.json')
    suite, = ElementTree.parse('f.xml').getroot()
    found = [(case.get('name'), case[0].tag) for case in suite.findall('testcase') if len(case)]
    expect(found == [('quantize.base.zeros', 'failure')] and suite.get('failures') == '1', f'failures are {found}')
    expect('0000' in suite.find('.//failure').get('message'), 'the failure has no mismatch')
    check(99, '--filter=*.base.*zeros*', '--fault=crash', '--junit=c.xml', '--json=c.json')
    expect_valid(load('c.json'), 'c.json')
    suite, = ElementTree.parse('c.xml').getroot()
    expect(len(suite.findall('testcase')) == len(suite.findall('testcase/error')) == int(suite.get('errors')) > 0,
           'a crash is no error in JUnit')
    expect(load('c.json')['devices'][0]['status'] == 'given up', 'the device is not given up')
    run(99, 'check', '--device=nonsuch', '--filter=*.base.zeros', '--json=n.json', '--junit=n.xml')
    expect_valid(load('n.json'), 'n.json')
    expect(load('n.json')['devices'][0]['status'] == 'not opened', 'a missing device is opened')


def test_schema():
    good = load('f.json')
    device, case = good['devices'][0], good['devices'][0]['cases'][0]

    def altered(change):
        bad = copy.deepcopy(good)
        change(bad, bad['devices'][0], bad['devices'][0]['cases'][0])
        expect(bad != good and not is_valid(bad), f'the schema takes {change.__code__.co_consts}')

    for name in good:
        altered(lambda root, *_, name=name: root.pop(name))
    for name in device:
        altered(lambda _, device, __, name=name: device.pop(name))
    expect(case['status'] == 'fail' and case['mismatches'] > 0 and case['reason'], f'the failed case is {case}')
    for name in 'name', 'status', 'digest', 'seconds':
        altered(lambda _, __, case, name=name: case.pop(name))
    altered(lambda root, *_: root.update(format=2))
    altered(lambda root, *_: root.update(more=1))
    altered(lambda root, *_: root['tool'].update(dirty='no'))
    altered(lambda root, *_: root['options'].update(seed=1))
    altered(lambda _, device, __: device.update(status='fine'))
    altered(lambda _, device, __: device.update(fingerprint='A' * 64))
    altered(lambda _, __, case: case.update(status='skipped'))
    altered(lambda _, __, case: case.update(seconds=-1))
    altered(lambda _, __, case: case.update(mismatches=1.5))


# --- Resuming

def test_resume():
    whole = load('a.json')
    hang = ['check', '--device=reference', '--fault=hang:*ramp', '--json=r.json', '--junit=r.xml']
    process = subprocess.Popen([KQUANT, *hang], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.1)
        if Path('r.json').exists() and any(device['cases'] for device in load('r.json')['devices']):
            break
    process.send_signal(signal.SIGKILL)
    # The child, which hangs, has the other end of the pipe too.
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        expect(False, 'the child outlives its parent')
    half = load('r.json')
    expect_valid(half, 'an interrupted report')
    count = len(half['devices'][0]['cases'])
    expect(half['status'] == half['devices'][0]['status'] == 'incomplete', 'it is not marked incomplete')
    expect(0 < count < whole['case_list']['count'], f'{count} cases before the kill')
    expect(half['devices'][0]['fingerprint'] == 'incomplete', 'it has a fingerprint')
    errors = [case.find('error').get('type') for case in ElementTree.parse('r.xml').iter('testcase') if len(case)]
    expect(errors == ['incomplete'], f'JUnit of an interrupted run has {errors}')
    run(99, 'report', 'r.json')

    check(2, '--json=r.json', '--resume', '--fault=hang:*amp')
    expect(load('r.json') == half, 'a refusal changes the file')
    done = check(99, '--json=r.json', '--resume', '--fault=hang:*ramp', '--time-limit=5')
    expect(f'running {whole["case_list"]["count"] - count} cases' in done.stderr.decode(), 'it begins from the start')
    full = load('r.json')
    kept = [case['seconds'] for case in half['devices'][0]['cases']]
    expect(kept == [case['seconds'] for case in full['devices'][0]['cases']][:count], 'results are not kept')
    errors = full['devices'][0]['counts']['error']
    expect(errors > 0, 'a case that hangs is no error')
    # Once the fault is forgotten, errors are run again, and all is as if nothing had been.
    del full['options']['fault']
    full['options']['time-limit'] = whole['options']['time-limit']
    Path('r.json').write_text(json.dumps(full))
    done = check(0, '--json=r.json', '--resume')
    expect(f'running {errors} case' in done.stderr.decode(), 'other cases than the errors are run')
    expect(without_times(load('r.json')) == without_times(whole), 'the resumed report is another')
    done = check(0, '--json=r.json', '--resume')
    expect('running 0 cases' in done.stderr.decode(), 'something runs though all is there')
    expect(without_times(load('r.json')) == without_times(whole), 'resuming nothing changes the report')
    check(0, '--json=fresh.json', '--resume', '--filter=*.zeros*')
    expect(load('fresh.json')['status'] == 'complete', '--resume without a file')
    check(2, '--resume')


def rename_first(root):
    root['devices'][0]['cases'][0]['name'] = 'quantize.base.renamed'
    seal(root)


def test_refusals():
    good = load('a.json')

    def refused(code, words, change, *arguments):
        bad = copy.deepcopy(good)
        change(bad, bad['devices'][0])
        Path('o.json').write_text(json.dumps(bad))
        done = check(code, '--json=o.json', '--resume', *arguments)
        expect(words in done.stderr.decode() + done.stdout.decode(), f'{words!r} is not said: {done.stderr}')

    refused(2, '--seed was 1 and is 2', lambda *_: None, '--seed=2')
    refused(2, '--filter was none', lambda *_: None, '--filter=*')
    refused(2, '--level was quick', lambda *_: None, '--level=full')
    refused(2, 'the commit of kquant', lambda root, _: root['tool'].update(commit='f' * 40))
    refused(2, 'its working tree', lambda root, _: root['tool'].update(dirty=not root['tool']['dirty']))
    refused(2, 'LP_SOMETHING was 1 and is unset', lambda root, _: root['environment'].update(LP_SOMETHING='1'))
    refused(2, 'kernel was other', lambda root, _: root['system'].update(kernel='other'))
    refused(2, 'the version of kquant', lambda root, _: root['tool'].update(version='0.0.9'))
    refused(2, 'the digest of the list', lambda root, _: rename_first(root))
    if good['modules']:
        refused(2, good['modules'][0]['name'], lambda root, _: root['modules'][0].update(sha256='0' * 64))
        refused(2, 'was absent', lambda root, _: root['modules'].pop())

    def swap(root, device):
        # Of an incomplete run, for else its digest would tell.
        lose_one(root, device)
        device['cases'][:2] = reversed(device['cases'][:2])

    def lose_one(root, device):
        device['cases'].pop()
        device['counts']['pass'] -= 1
        device.update(driver='another', status='incomplete', fingerprint='incomplete')
        root['status'] = 'incomplete'

    refused(2, 'order of the list', swap)
    refused(99, 'another device now', lose_one)
    kept = load('o.json')['devices'][0]
    expect(kept['status'] == 'incomplete' and kept['driver'] == 'another', 'another device takes over the file')
    expect(len(kept['cases']) == good['case_list']['count'] - 1, 'what it had is lost')
    refused(99, 'another device now', lambda _, device: device.update(driver='another'))
    expect(load('o.json')['devices'][0]['driver'] == 'another', 'another device has a complete report')

    # The same list, of other vectors.
    Path('vectors').mkdir()
    lines = (VECTORS / 'dot.tsv').read_text().splitlines(keepends=True)
    cases = [line for line in lines if not line.startswith('#')][:2]
    Path('vectors/dot.tsv').write_text(''.join(cases))
    check(0, '--vectors=vectors', '--json=v.json')
    Path('vectors/dot.tsv').write_text(cases[0] + re.sub('[0-9a-f]{8}$', '12345678', cases[1]))
    done = check(2, '--vectors=vectors', '--json=v.json', '--resume')
    expect('the digest of the list' in done.stderr.decode(), 'other vectors are not noticed')
    check(2, '--json=same', '--junit=same')
    Path('same').touch()
    check(2, '--json=same', '--junit=./same')
    check(2, '--list', '--json=l.json')
    check(2, '--fault=flip:nosuch')


def test_interrupt():
    arguments = ['check', '--device=reference', '--level=full', '--json=i.json']
    for number in signal.SIGINT, signal.SIGTERM:
        Path('i.json').unlink(missing_ok=True)
        process = subprocess.Popen([KQUANT, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(1.5)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1].decode()
        expect(process.returncode == -number, f'{number!r} ends it with {process.returncode}')
        half = load('i.json')
        count = len(half['devices'][0]['cases'])
        expect(half['status'] == 'incomplete' and count > 0, f'{count} cases when it ends')
        expect(f'interrupted after {count} of ' in said and '--resume' in said, f'it says {said!r}')


def test_reasons():
    """A report says what was found out, not only that something is wrong."""
    check(1, '--fault=flip:quantized_dot.base.random-1', '--json=reason.json')
    case = next(case for case in load('reason.json')['devices'][0]['cases'] if case['status'] == 'fail')
    expect('expected 3f956f2c' in case['reason'] and 'steps alone is right' in case['reason'],
           f'the reason is {case["reason"]!r}')


# --- kquant report

class Page(HTMLParser):
    """The elements of a page, what they refer to, and its data."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.references, self.data, self.script = [], [], '', ''
        self.inside = None
        self.feed(Path(path).read_text(encoding='utf-8'))
        self.data = json.loads(self.data)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside = tag if tag in ('script', 'style') else None
        if dict(attributes).get('id') == 'data':
            self.inside = 'data'
        self.references += [f'{name}={value}' for name, value in attributes
                            if name in ('src', 'href', 'srcset', 'action', 'data', 'poster')]

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == 'data':
            self.data += data
        elif self.inside:
            self.script += data


def test_page():
    Path('a.html').unlink(missing_ok=True)
    done = run(0, 'report', 'a.json', 'again.json', '--output=a.html')
    expect('same bits everywhere' in done.stdout.decode(), 'agreement is not said')
    page = Page('a.html')
    report = load('a.json')
    expect(not page.references, f'the page refers to {page.references}')
    expect(not re.search(r'url\(|@import|https?:|fetch|import\(|innerHTML|document\.write', page.script),
           'the page can load something, or make markup of text')
    expect(len(page.data['devices']) == 2 and page.data['exit'] == 0, 'the page has other devices')
    expect([[row[0], row[2][1]] for row in page.data['rows']] ==
           [[case['name'], case['digest'][:16]] for case in report['devices'][0]['cases']], 'the page has other cases')
    facts = {tuple(fact[:2]): fact[2] for fact in page.data['devices'][0]['facts']}
    for heading in 'system', 'environment', 'options':
        for name, value in report[heading].items():
            expect(facts.get((heading, name)) == value, f'the page has no {heading} {name}')
    expect(facts['kquant', 'commit'] == report['tool']['commit'], 'the page has no commit')
    run(0, 'report', 'a.json', '-o', 'b.html')
    run(2, 'report', 'a.json', '-o')
    run(2, 'report')
    run(2, 'report', 'a.json', '-o', 'b.html', '--output=c.html')
    run(99, 'report', 'a.json', '--output=missing/page.html')


def seal(report):
    """Gives a report whose cases were edited what can be computed of them."""
    device, = report['devices']
    outputs = hashlib.sha256()
    for case in device['cases']:
        op, _, rest = case['name'].split('.', 2)
        outputs.update(f'{op}.{rest}\0{case["digest"]}\0'.encode())
    device['fingerprint'] = outputs.hexdigest()
    names = ''.join(case['name'] + '\0' for case in device['cases'])
    report['case_list'].update(count=len(device['cases']), sha256=hashlib.sha256(names.encode()).hexdigest())


def test_computed():
    """What a report says of its cases, and what follows from them."""
    good = load('g.json')
    copy_of = copy.deepcopy(good)
    seal(copy_of)
    expect(copy_of == good, 'the fingerprint and the digest of the list are not these sums')

    def refused(words, change):
        bad = copy.deepcopy(good)
        change(bad, bad['devices'][0])
        Path('o.json').write_text(json.dumps(bad))
        done = run(99, 'report', 'o.json')
        expect(words in done.stderr.decode(), f'{words!r} is not said: {done.stderr}')

    refused('fingerprint: is not that of its cases', lambda _, device: device['cases'][0].update(digest='0' * 64))
    refused('fingerprint: is not that of its cases', lambda _, device: device['cases'][0].update(digest=''))
    refused('case_list.sha256', lambda root, _: root['case_list'].update(sha256='0' * 64))
    refused('status: is pass, with', lambda _, device: device['cases'][0].update(mismatches=5))
    refused('status: is pass, with', lambda _, device: device['cases'][0].update(reason='none'))
    refused('devices: must have', lambda root, _: root['devices'].clear())
    Path('o.json').write_text(json.dumps(good).replace('"status": "pass"', '"status": "pass", "status": "fail"', 1))
    expect('is there twice' in run(99, 'report', 'o.json').stderr.decode(), 'a member that is there twice')
    # A list of its own, whole in itself, is not the other's.
    for change in (lambda cases: cases[0].update(name='quantize.base.renamed'), lambda cases: cases.__delitem__(0)):
        other = copy.deepcopy(good)
        change(other['devices'][0]['cases'])
        other['devices'][0]['counts']['pass'] = len(other['devices'][0]['cases'])
        seal(other)
        Path('o.json').write_text(json.dumps(other))
        done = run(99, 'report', 'g.json', 'o.json')
        expect('everywhere with' in last(done) and 'different lists' in last(done), last(done))
    expect('are one file' in run(2, 'report', 'g.json', './g.json').stderr.decode(), 'a file twice')


def test_verdicts():
    check(0, '--filter=*.base.*zeros*', '--json=g.json')
    done = run(1, 'report', 'g.json', 'f.json', '-o', 'd.html')
    expect(re.search(r'DIFFER quantize.base.zeros: 1 pass [0-9a-f]{16}; 2 fail [0-9a-f]{16}\n', done.stdout.decode()),
           'the difference is not shown')
    kinds = {row[0]: row[1] for row in Page('d.html').data['rows']}
    expect([name for name, kind in kinds.items() if kind == 0] == ['quantize.base.zeros'], f'differences {kinds}')
    run(1, 'report', 'f.json')
    # All passed, and yet the bits are others.
    other = load('g.json')
    other['devices'][0]['cases'][0]['digest'] = '0' * 64
    seal(other)
    Path('h.json').write_text(json.dumps(other))
    done = run(1, 'report', 'g.json', 'h.json')
    expect(re.search(r'DIFFER \S+: 1 pass [0-9a-f]{16}; 2 pass 0{16}\n', done.stdout.decode()),
           'other bits are not shown')
    run(99, 'report', 'g.json', 'c.json', '-o', 'd.html')
    expect(all(row[1] == 2 and row[3][0] == 4 for row in Page('d.html').data['rows']), 'errors pass for something')
    done = run(99, 'report', 'g.json', 'n.json')
    expect('not opened' in done.stdout.decode(), 'a device that is not there is not shown')
    done = run(99, 'report', 'g.json', 'a.json')
    expect('different lists' in done.stdout.decode(), 'lists of cases are not compared')
    # What could be read still makes a page, which says what is missing, as the last line does.
    Path('d.html').unlink()
    for unread, words in (['no-such.json'], '1 file could'), (['no-such.json', 'c.xml'], '2 files could'):
        done = run(99, 'report', 'g.json', *unread, '-o', 'd.html')
        page = Page('d.html').data
        expect(len(page['devices']) == 1 and page['exit'] == 99, 'no page beside an unreadable file')
        expect(last(done).endswith(f'passed, {words} not be read') and page['sentence'] == last(done), last(done))
    done = run(1, 'report', 'f.json', 'no-such.json')
    expect('1 failed, ' in last(done) and last(done).endswith('1 file could not be read'), last(done))
    expect(last(run(99, 'report', 'no-such.json', '-o', 'none.html')).endswith('1 file could not be read') and
           not Path('none.html').exists(), 'no file could be read, and that is not said')


def last(done):
    return done.stdout.decode().splitlines()[-1]


def test_output():
    """The page never takes the place of a report, by whatever name."""
    Path('in').mkdir()
    Path('in/x.json').write_bytes(Path('g.json').read_bytes())
    os.symlink('in/x.json', 'soft.json')
    os.link('in/x.json', 'hard.json')
    content = Path('in/x.json').read_bytes()
    files = sorted(Path().rglob('*'))
    for given in 'in/x.json', 'soft.json', 'hard.json':
        for output in 'in/x.json', './in/../in/x.json', 'soft.json', 'hard.json', str(Path('in/x.json').resolve()):
            done = run(2, 'report', 'f.json', given, '-o', output)
            expect(given in done.stderr.decode() and not done.stdout, f'{given}, {output}: {done.stderr}')
    run(2, 'report', 'no-such.json', '-o', 'no-such.json')
    expect(Path('in/x.json').read_bytes() == content and Path('soft.json').is_symlink() and
           os.path.samefile('in/x.json', 'hard.json') and sorted(Path().rglob('*')) == files, 'something is written')


def test_lists():
    """Outputs are compared where the inputs are the same, and a list of cases is more than its names."""
    random = ['--filter=primitive.*random']
    check(77, *random, '--json=q.json')
    check(77, *random, '--json=l.json', '--level=full')
    check(77, *random, '--json=s2.json', '--seed=2')
    quick = load('q.json')
    for other, option in ('l.json', '--level'), ('s2.json', '--seed'):
        digests = [{case['name']: case['digest'] for case in load(name)['devices'][0]['cases']}
                   for name in ('q.json', other)]
        differ = [name for name in digests[0] if digests[0][name] != digests[1].get(name, digests[0][name])]
        expect(differ and quick['case_list']['count'] > 10, f'{option} has the same outputs: this tests nothing')
        done = run(99, 'report', 'q.json', other, '-o', 'd.html')
        expect('DIFFER' not in done.stdout.decode() and 'cases: the reports are of different lists of cases ('
               f'{option}), ' in last(done), f'{option}: {last(done)}')
        expect(f'; {option[2:]}: ' in done.stdout.decode(), f'{option} is not in the table')
        expect(all(row[1] != 0 for row in Page('d.html').data['rows']), f'{option}: the page has differences')
    # A case that passed in one list and failed in the other is told all the same.
    failed = load('l.json')
    fail(failed, quick['devices'][0]['cases'][0]['name'])
    Path('lf.json').write_text(json.dumps(failed))
    done = run(1, 'report', 'q.json', 'lf.json')
    expect(done.stdout.decode().count('DIFFER') == 1 and '1 different between devices' in last(done), last(done))
    # Two failures of other inputs are no difference.
    fail(quick, quick['devices'][0]['cases'][0]['name'], '1' * 64)
    Path('qf.json').write_text(json.dumps(quick))
    done = run(1, 'report', 'qf.json', 'lf.json')
    expect('DIFFER' not in done.stdout.decode() and 'FAIL   primitive' in done.stdout.decode(), last(done))
    # The same bits in all cases are of the same inputs, whatever was said on the command line.
    check(0, '--filter=*.base.*zeros*', '--json=g2.json', '--seed=2')
    same = load('g2.json')['devices'][0]['fingerprint'] == load('g.json')['devices'][0]['fingerprint']
    run(0 if same else 99, 'report', 'g.json', 'g2.json')


def fail(report, name, digest='0' * 64):
    device, = report['devices']
    case, = [case for case in device['cases'] if case['name'] == name]
    device['counts']['fail'] += 1
    device['counts'][case['status']] -= 1
    case.update(status='fail', digest=digest, reason='a bit')
    device.update(fingerprint='incomplete')


def test_labels():
    """Devices are told apart by their numbers and files, and what a pass is to be read with is said."""
    for path in 'm/mine.json', 't/mine.json', 'm/other.json':
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(Path('g.json').read_bytes())
    paths = ['m/mine.json', str(Path('t/mine.json').resolve()), 'f.json', 'm/other.json']
    done = run(1, 'report', *paths, '-o', 'd.html')
    lines = done.stdout.decode().splitlines()
    page = Page('d.html').data
    files = ['m/mine.json', 't/mine.json', 'f.json', 'other.json']
    expect([device['file'] for device in page['devices']] == files, f'files {[d["file"] for d in page["devices"]]}')
    for k, (line, file) in enumerate(zip(lines[1:], files)):
        expect(line.split()[0] == str(k + 1) and f'  {file}: reference' in line, f'the table has {line!r}')
    print_of = load('g.json')['devices'][0]['fingerprint'][:16]
    expect(f'  {print_of}  m/' in lines[1] and '  none              f.json' in lines[3], 'fingerprints in the table')
    expect([d['fingerprint'][:16] for d in page['devices']] == [print_of, print_of, 'none', print_of], 'on the page')
    # A fault is told in the table, in the sentence and on the page.
    expect('; a deliberate fault: flip:quantize.base.zeros; filter: ' in lines[3] and
           not any('fault' in line for line in (lines[1], lines[2], lines[4])), 'the fault is not in the table')
    expect(last(done).startswith('4 devices, 1 with a deliberate fault, ') and page['sentence'] == last(done),
           last(done))
    expect([[name for name, _ in device['marks']] for device in page['devices']] ==
           [['filter'], ['filter'], ['fault', 'filter'], ['filter']] and
           page['devices'][2]['marks'][0][1] == 'a deliberate fault: flip:quantize.base.zeros', 'nor on the page')
    expect(last(run(1, 'report', 'f.json')).startswith('1 device with a deliberate fault, '), 'one device')
    # Both counts, for a case that differs has failed too.
    expect('1 different between devices, 1 failed somewhere, ' in last(done), last(done))
    answers, = [line for line in lines if line.startswith('DIFFER')]
    expect(re.search(r': 1-2, 4 pass [0-9a-f]{16}; 3 fail [0-9a-f]{16}$', answers), answers)
    # A filter leaves cases out; of what is there the same is said as without it.
    check(77, '--filter=quantize.base.zeros', '--json=part.json')
    done = run(99, 'report', 'g.json', 'part.json')
    count = load('g.json')['case_list']['count']
    expect(last(done) == f'2 devices, {count} cases: the reports are of different lists of cases (--filter), '
           f'{count - 1} not run somewhere, 1 passed everywhere with the same bits', last(done))
    # Unsupported is no failure.
    report = load('g.json')
    fail(report, 'quantize.base.zeros', '')
    for case in report['devices'][0]['cases']:
        if case['status'] == 'fail':
            case.update(status='unsupported')
    report['devices'][0]['counts'].update(fail=0, unsupported=1)
    Path('u.json').write_text(json.dumps(report))
    done = run(1, 'report', 'u.json')
    expect('UNSUPPORTED quantize.base.zeros: 1 unsupported\n' in done.stdout.decode() and
           '1 unsupported, ' in last(done), last(done))


def test_hostile_strings():
    evil = '</script><img src=x onerror=alert(1)><!--<script>'
    report = load('g.json')
    device = report['devices'][0]
    device.update(name=evil + '\x1b[2J', driver='"\'&amp;\u2028\x1b[2J', reason=evil)
    device['cases'][0]['name'] = 'quantize.base.' + evil + '"\'\\\x07'
    seal(report)
    Path('evil.json').write_text(json.dumps(report))
    done = run(1, 'report', 'evil.json', 'f.json', '-o', 'evil.html')
    expect(not re.search(rb'[\x00-\x09\x0b-\x1f\x7f]', done.stdout), 'control characters on stdout')
    page, plain = Page('evil.html'), Page('a.html')
    expect(page.tags == plain.tags and page.script == plain.script, 'a device name changes the page')
    expect(page.data['devices'][0]['name'] == device['name'] and evil in page.data['rows'][0][0], 'it is not in the data')


def hostile_files():
    """Name, bytes, what the complaint says."""
    good = load('g.json')

    def text(change):
        bad = copy.deepcopy(good)
        change(bad, bad['devices'][0], bad['devices'][0]['cases'])
        return json.dumps(bad).encode()

    raw = json.dumps(good).encode()
    yield 'empty', b'', 'no JSON'
    yield 'cut', raw[:-20], 'no JSON'
    yield 'more', raw + b'{}', 'no JSON'
    yield 'NaN', raw.replace(b'"seconds": 0', b'"seconds": NaN', 1), 'no JSON'
    yield 'inf', raw.replace(b'"seconds": 0', b'"seconds": 1e999, "more": 0', 1), 'seconds: must be a number'
    yield 'deep', b'[' * 1000000, 'no JSON'
    yield 'deep object', b'{"a":' * 100000 + b'1' + b'}' * 100000, 'no JSON'
    yield 'binary', bytes(range(256)) * 10, 'no JSON'
    yield 'zero bytes', b'\0' * 1000, 'no JSON'
    for what, byte in ('no UTF-8', b'\xff'), ('a surrogate', b'\xed\xa0\x80'), ('cut UTF-8', b'\xe2\x82'):
        yield what, raw.replace(b'"version": "', b'"version": "' + byte, 1), 'not all of it is UTF-8'
    yield 'another thing', b'[1, 2]', 'no JSON object'
    yield 'a number', b'7', 'no JSON object'
    yield 'format', text(lambda root, *_: root.update(format=2)), 'format: is not 1'
    yield 'list', text(lambda root, *_: root.update(devices={})), 'devices: must be an array'
    yield 'text', text(lambda root, device, _: device.update(name=None)), 'devices[0].name: must be a string'
    yield 'status', text(lambda root, device, _: device.update(status='fine')), 'devices[0].status: is none'
    yield 'environment', text(lambda root, *_: root.update(environment={'A': 1})), 'environment: must have strings'
    yield 'digest', text(lambda _, __, cases: cases[1].update(digest='0' * 63)), 'cases[1].digest: must be'
    yield 'negative', text(lambda _, __, cases: cases[0].update(seconds=-1)), 'seconds: must be a number'
    yield 'fraction', text(lambda _, __, cases: cases[0].update(mismatches=0.5)), 'must be a whole number'
    yield 'huge', text(lambda _, __, cases: cases[0].update(mismatches=2**60)), 'mismatches: must be'
    yield 'case', text(lambda _, __, cases: cases.insert(0, 'x')), 'cases[0].name: is missing'
    yield 'twice', text(lambda _, __, cases: cases[1].update(name=cases[0]['name'])), 'is there twice'
    yield 'counts', text(lambda _, device, __: device['counts'].update(fail=1)), 'counts: are not'
    yield 'false pass', text(lambda _, device, cases: (cases[0].update(status='fail'),
                             device['counts'].update({'fail': 1, 'pass': len(cases) - 1}))), 'fingerprint: must be'
    yield 'too few', text(lambda root, *_: root['case_list'].update(count=9999)), 'not as many'
    yield 'too many', text(lambda root, *_: root['case_list'].update(count=1)), 'not as many'
    yield 'devices', text(lambda root, *_: root.update(devices=root['devices'] * 300)), 'longer than a report'
    yield 'complete', text(lambda root, *_: root.update(status='incomplete')), 'status: is not what'
    for name in good:
        yield 'no ' + name, text(lambda root, *_, name=name: root.pop(name)), name + ': is missing'
    yield 'large', b' ' * (65 << 20), 'larger'


def test_hostile_files():
    for name, content, words in hostile_files():
        Path('hostile.json').write_bytes(content)
        for arguments in ['report', 'hostile.json'], ['check', '--filter=*.base.*zeros*', '--device=reference',
                                                      '--json=hostile.json', '--resume']:
            done = run(99, *arguments)
            said = done.stderr.decode()
            expect(said.count('\n') == 1 and words in said and len(said) < 300, f'{name}: {said!r}')
        expect(Path('hostile.json').read_bytes() == content, f'{name}: the file is another now')
    Path('hostile.json').unlink()
    Path('hostile.json').mkdir()
    run(99, 'report', 'hostile.json')
    check(99, '--json=hostile.json', '--filter=*.zeros')
    check(99, '--json=missing/a.json', '--filter=*.zeros')
    check(99, '--junit=missing/a.xml', '--filter=*.zeros')


def test_devices(devices):
    for k, device in enumerate(['reference', *devices]):
        run(0, 'check', f'--device={device}', f'--json={k}.json', f'--junit={k}.xml')
        expect_valid(load(f'{k}.json'), device)
        ElementTree.parse(f'{k}.xml')
    done = run(0, 'report', *[f'{k}.json' for k in range(len(devices) + 1)], '-o', 'page.html')
    expect('same bits everywhere' in done.stdout.decode(), f'{devices} differ from the reference')
    expect(len(Page('page.html').data['devices']) == len(devices) + 1, 'the page has other devices')
    properties = load('1.json')['devices'][0]['properties']
    expect(len(properties) > 10, f'the driver says of itself only {properties}')
    expect('.so' in properties.get('libraries', '') or not sys.platform.startswith('linux'), f'only {properties}')


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if len(sys.argv) > 3:
            test_devices(sys.argv[3:])
        else:
            for test in (test_json, test_strings, test_junit, test_schema, test_resume, test_refusals,
                         test_interrupt, test_reasons, test_page, test_verdicts, test_output, test_lists,
                         test_labels, test_computed, test_hostile_strings, test_hostile_files):
                test()
        os.chdir('/')
    sys.exit(sum_up())


main()
