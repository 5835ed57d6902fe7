#!/usr/bin/env python3
"""What kquant bench measures and writes: the table, memory and shares, --json, --compare, --plot.

bench_test.py KQUANT KQUANT_BENCH [DEVICE]    DEVICE: reference

KQUANT_BENCH is the same command with a device's name and faults of its own, see bench.c. Exit 1: a check
failed.
"""
import copy
import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
from expect import expect, sum_up

KQUANT, KQUANT_BENCH = (Path(path).resolve() for path in sys.argv[1:3])
DEVICE = sys.argv[3] if len(sys.argv) > 3 else 'reference'
SVG = '{http://www.w3.org/2000/svg}'
UNIT = 16384
SMALL = ['--records=2', '--repeat=8,3']


def bench(code, *arguments, command=KQUANT, **environment):
    done = subprocess.run([command, 'bench', f'--device={DEVICE}', *arguments], capture_output=True,
                          text=True, env={**os.environ, **environment}, timeout=500)
    expect(done.returncode == code,
           f'{arguments}: exit {done.returncode}, not {code}: {(done.stdout + done.stderr)[-400:]}')
    return done


def load(path):
    return json.loads(Path(path).read_text())


# --- Memory and shares

def clock_of(*timings):
    return 'device' if all('device' in timing for timing in timings) else 'host'


def check_memory(device):
    sizes = [memory['bytes'] for memory in device['memory']]
    expect(len(set(sizes)) == len(sizes), f'sizes {sizes}, not each once')
    for memory in device['memory']:
        for kernel in 'read', 'copy':
            timing = memory.get(kernel, {})
            host = timing.get('host', {})
            expect(timing.get('rounds', 0) >= 7 and
                   0 < host.get('least', 0) <= host['median'] <= host['most'],
                   f'{kernel} of {memory["bytes"]} bytes: {timing}')


def check_share(device, result, inputs):
    """The share is what the file's own medians give, which have nanoseconds."""
    name, share = result['name'], result.get('share', {})
    kernel = 'copy' if name.startswith('quantize') else 'read'
    expect(share.get('of') == kernel, f'{name}: share {share}')
    expect(share.get('bytes') == -(-inputs // UNIT) * UNIT, f'{name}: share of {inputs} bytes: {share}')
    memory = next((m for m in device['memory'] if m['bytes'] == share.get('bytes')), None)
    if memory is None:
        expect(False, f'{name}: no memory of {share.get("bytes")} bytes')
        return
    clock = clock_of(result, memory[kernel])
    seconds, of_seconds = result[clock]['median'], memory[kernel][clock]['median']
    wanted = result['bytes'] / seconds / (memory['bytes'] / of_seconds)
    error = 1e-9 / seconds + 1e-9 / of_seconds
    expect(abs(share['share'] - wanted) <= wanted * error + 1e-6,
           f'{name}: share {share["share"]}, by its times {wanted}')


def check_table(done, device):
    first = f'first dot {1e3 * device["first_dot"]:.1f} ms after opening it\n'
    expect(first in done.stdout and device['first_dot'] > 0, f'no {first}')
    rows = [line.split() for line in done.stdout.splitlines()]
    rows = {row[1]: row for row in rows if len(row) > 7 and row[0] == device['id']}
    head = next(line for line in done.stdout.splitlines() if line.startswith('device '))
    expect(head.split()[-1] == 'share', f'the heading is {head}')
    expect('against those of memory-read' in done.stdout and
           'against those of memory-copy' in done.stdout, 'the heading tells of what')
    for result in device['results']:
        shown = rows[result['name']][-1]
        expect(shown == f'{100 * result["share"]["share"]:.1f}%',
               f'{result["name"]}: {shown} in the table, {result["share"]} in the file')
    for memory in device['memory']:
        for kernel in 'read', 'copy':
            row = rows.get(f'memory-{kernel}-{memory["bytes"]}')
            timing = memory[kernel]
            rate = memory['bytes'] / timing[clock_of(timing)]['median'] / 1e9
            # Of nanoseconds, and three digits behind the point.
            error = rate * 1e-9 / timing[clock_of(timing)]['median'] + 0.0006
            expect(row is not None and abs(float(row[-3]) - rate) <= error,
                   f'{kernel} of {memory["bytes"]} bytes: {row}, not {rate:.3f}')


def test_shares():
    done = bench(0, '--filter=quantize-16', '--json=q.json')
    device, = load('q.json')['devices']
    result, = device['results']
    check_memory(device)
    check_share(device, result, 16 * 1024)
    check_table(done, device)
    expect(result['name'] == 'quantize-16', result['name'])
    done = bench(0, *SMALL, '--json=d.json')
    device, = load('d.json')['devices']
    expect([m['bytes'] for m in device['memory']] == [UNIT], f'memory {device["memory"]}')
    check_memory(device)
    for result in device['results']:
        check_share(device, result, 8 * 2 * 144)
    check_table(done, device)


def test_faults():
    for kernel in 'read', 'copy':
        done = bench(1, '--records=64', '--repeat=8', '--json=f.json', command=KQUANT_BENCH,
                     KQ_TEST_SHORT=kernel)
        expect(f'the {kernel} kernel is wrong and not timed' in done.stderr, done.stderr)
        device, = load('f.json')['devices']
        expect(all(set(memory) == {'bytes'} for memory in device['memory']), 'it is timed')
        expect(len(device['results']) == 2 and not any('share' in r for r in device['results']),
               f'results {device["results"]}')
        expect(re.search(r'dots-8x1-of-64-sequential .* -\n', done.stdout), done.stdout)


# --- Files

def test_compare():
    now = load('d.json')
    old = copy.deepcopy(now)
    for device in old['devices']:
        del device['memory']
        for result in device['results']:
            del result['share']
    Path('old.json').write_text(json.dumps(old))
    for name in 'old.json', 'd.json':
        done = bench(0, *SMALL, f'--compare={name}')
        ratios = re.findall(r'dots-8x3\S+ .* [0-9.]+%\s+[0-9.]+x$', done.stdout, re.M)
        expect(len(ratios) == 2, f'{name}: {done.stdout}')
        expect(re.search(r'memory-read-16384 .* -$', done.stdout, re.M), done.stdout)


def test_impossible_times():
    """A number that is no time of an operation is refused, not compared with."""
    text = Path('d.json').read_text()
    for median in '1e300', '-1', '0', '1e-300', '1e999', '"0.5"', 'null':
        Path('odd.json').write_text(re.sub(r'"median": [0-9.]+', f'"median": {median}', text))
        done = bench(99, *SMALL, '--compare=odd.json')
        expect('odd.json: devices[0].results[0] must have a name and medians' in done.stderr,
               f'{median}: {done.stderr}')


def test_refusals():
    before = Path('d.json').read_bytes()
    os.link('d.json', 'same.svg')
    for arguments, words in (
            (['--json=d.json', '--compare=d.json'], '--json=d.json and --compare=d.json are one file'),
            (['--plot=same.svg', '--compare=d.json'], '--plot=same.svg and --compare=d.json'),
            (['--json=new', '--plot=new'], '--json=new and --plot=new are one file'),
            (['--json=new', '--plot=./new'], '--json=new and --plot=./new are one file'),
            (['--filter=quantize-16'], '--filter chooses from the list'),
            (['--list', '--plot=new'], '--list times nothing'),
            (['--list', '--json=new'], '--list times nothing'),
            (['--plot'], '--plot')):
        done = bench(2, *SMALL, *arguments)
        expect(words in done.stderr and done.stdout == '', f'{arguments}: {done.stderr}')
    done = bench(2, '--filter=quantize-16', '--long=16')
    expect('--filter chooses from the list' in done.stderr, done.stderr)
    # What can't be written is said before anything is measured.
    for output in '--json=nowhere/new', '--plot=nowhere/new', '--json=.':
        done = bench(99, *SMALL, output)
        expect("can't be written" in done.stderr and done.stdout == '', f'{output}: {done.stderr}')
    os.unlink('same.svg')
    expect(Path('d.json').read_bytes() == before and not Path('new').exists(), 'files were written')


def points(group):
    return [mark for mark in group.iter(f'{SVG}path')
            if mark.get('class', '').split()[:1] == ['point']]


def check_picture(path, device):
    text = Path(path).read_text()
    root = ElementTree.fromstring(text)
    expect(root.tag == f'{SVG}svg' and root.get('viewBox') is not None, f'the root is {root.tag}')
    expect(text.count('http') == 1 and 'href' not in text and '<script' not in text,
           'it asks for something beside it')
    expect('prefers-color-scheme: dark' in text, 'it has no dark colours')
    charts = {kind: [g for g in root.iter(f'{SVG}g') if g.get('class') == kind]
              for kind in ('roofline', 'scaling')}
    if [len(found) for found in charts.values()] != [1, 1]:
        expect(False, f'charts {charts}')
        return root
    roofline, scaling = charts['roofline'][0], charts['scaling'][0]
    names = [r['name'] for r in device['results']]
    titles = [mark.find(f'{SVG}title').text.split(':')[0] for mark in points(roofline)]
    expect(titles == names, f'marks {titles} of {names}')
    curve = [name for name in names if re.fullmatch(r'dots-\d+(x1)?-of-16-\w+', name)]
    titles = [mark.find(f'{SVG}title').text.split(':')[0] for mark in points(scaling)]
    expect(sorted(titles) == sorted(curve) and len(curve) >= 12, f'marks {titles} of {curve}')
    lines = [line.get('points').split() for line in scaling.iter(f'{SVG}polyline')]
    expect([len(line) for line in lines] == [len(curve) / 2] * 2, f'lines {lines}')
    for line in lines:
        x = [float(point.split(',')[0]) for point in line]
        expect(x == sorted(x), f'a line goes back: {line}')
    words = [''.join(element.itertext()) for element in root.iter(f'{SVG}text')]
    for wanted in ('integer products per second', 'Q4_K records per second', 'Q4_K records in all',
                   'integer products per byte, each input and output counted once'):
        expect(wanted in words, f'no axis "{wanted}"')
    largest = max(m['bytes'] for m in device['memory'])
    roof = [word for word in words if word.startswith('memory, read: ')]
    expect(len(roof) == 1 and 'B/s over ' in roof[0] and largest > UNIT, f'roof {roof}')
    for number, name in enumerate(names, 1):
        expect(any(word.startswith(f'{number}  {name}, ') for word in words), f'{name} is in no key')
        expect(str(number) in words, f'{number} is beside no mark')
    box = [float(n) for n in root.get('viewBox').split()]
    for element in root.iter():
        for key, most in (('x', box[2]), ('y', box[3])):
            at = element.get(key)
            expect(at is None or 0 <= float(at) <= most, f'{element.tag} at {key} = {at}')
    return root


def test_plot():
    evil = 'a <b>&amp; "c" \']]> \x01\xe4' + 'long ' * 40
    done = bench(0, '--filter=quantize-16', '--json=p.json', '--plot=p.svg', command=KQUANT_BENCH,
                 KQ_TEST_NAME=evil)
    device, = load('p.json')['devices']
    root = check_picture('p.svg', device)
    names = [''.join(t.itertext()) for t in root.iter(f'{SVG}text') if t.get('class') == 'name']
    expect(len(names) == 1 and names[0].startswith(f'{DEVICE}  a <b>&amp; "c" \']]> \ufffd\xe4long') and
           names[0].endswith('...'), f'the name is {names}')
    expect(len(done.stdout.splitlines()) > 20, done.stdout)
    expect(not list(Path().glob('*.partial*')), 'files are left')


# --- Progress

def test_progress():
    master, slave = pty.openpty()
    done = subprocess.Popen([KQUANT, 'bench', f'--device={DEVICE}', '--filter=quantize-16'],
                            stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    shown = b''
    while select.select([master], [], [], 60)[0]:
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(master)
    expect(done.wait(60) == 0, 'bench on a terminal')
    bars = re.findall(rb'\r(\S+) +\[[#.]{40}\] (\d)/1', shown)
    expect((b'memory', b'0') in bars and (b'quantize-16', b'0') in bars and bars[-1][1] == b'1',
           f'the bars are {bars}')
    expect(shown.endswith(b'\r' + b' ' * 79 + b'\r'), f'it ends {shown[-100:]}')
    quiet = bench(0, '--filter=quantize-16')
    expect(quiet.stderr == 'bench: running 1 measurement\n', f'stderr is {quiet.stderr}')


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for test in (test_shares, test_faults, test_compare, test_impossible_times, test_refusals,
                     test_plot, test_progress):
            test()
        os.chdir('/')
    help_text = bench(0, '--help').stdout
    expect('--plot=F.svg' in help_text and 'memory-copy' in help_text and 'share' in help_text, help_text)
    return sum_up()


sys.exit(main())
