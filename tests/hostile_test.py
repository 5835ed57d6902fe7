#!/usr/bin/env python3
"""The kquant command among hostile files: what it reads, what it writes, who ends it. No driver is needed.

usage: hostile_test.py KQUANT

Outputs lead to inputs, to folders, devices, pipes, nothing; the disk is full and stdout is gone; inputs are
endless, deep, or steer a terminal; a check is ended in the middle. What was there is there afterwards,
what is new is whole, and nothing else lies beside it.
"""
import errno
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from expect import expect, sum_up

KQUANT = str(Path(sys.argv[1]).resolve())
LIMIT_SECONDS = 60
NOBODY = 65534
CHECK = ['check', '--device=reference', '--filter=*.base.*zeros*']
# ESC [ 2 J, a newline, CSI as one character, a right-to-left override, and bytes that are no UTF-8.
EVIL = b'e\x1b[2J\n\xc2\x9b31m\xe2\x80\xae\xff\x9bz'
SHOWN = b'e\\x1b[2J\\x0a\\u009b31m\\u202e\\xff\\x9bz'


def run(code, *arguments, said=(), **how):
    """kquant must end with this code, and say these texts on stderr, in lines that begin as its own do."""
    how = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE,
           'timeout': LIMIT_SECONDS, **how}
    name = ' '.join(os.fsdecode(a) for a in arguments).encode('unicode_escape', 'replace').decode()[:200]
    try:
        done = subprocess.run([KQUANT, *arguments], check=False, **how)
    except subprocess.TimeoutExpired:
        expect(False, f'{name}: not done after {LIMIT_SECONDS} s')
        return None
    expect(done.returncode == code, f'{name}: exit {done.returncode}, not {code}: {done.stderr!r:.300}')
    for text in said:
        text = text if isinstance(text, bytes) else os.fsencode(text)
        expect(text in (done.stderr or b''), f'{name}: {text!r} is not in {done.stderr!r:.300}')
    for text in done.stdout or b'', done.stderr or b'':
        steers = [c for c in text.decode('utf-8', 'surrogateescape')
                  if c != '\n' and (ord(c) < 32 or 127 <= ord(c) < 160 or c == '\u202e' or 0xDC00 <= ord(c) < 0xE000)]
        expect(not steers, f'{name}: {steers} is printed')
    return done


def words(number):
    return os.strerror(number)


def listing():
    return sorted(str(path) for path in Path('.').rglob('*'))


def values(count):
    return struct.pack('<256f', *range(256)) * count


# --- What can write, and to what

def make_inputs():
    Path('in.f32').write_bytes(values(64))
    run(0, 'quantize', '--device=reference', 'in.f32', 'x.q8k')
    Path('w.q4k').write_bytes(bytes(144 * 64))
    run(0, *CHECK, '--json=r.json')
    run(0, 'bench', '--device=reference', '--records=1', '--repeat=1', '--json=b.json')
    shutil.copytree(Path(__file__).parent / 'vectors', 'vectors', ignore=shutil.ignore_patterns('edges', 'README.md'))


def writers():
    """Of each subcommand that writes: its input, and its arguments for an output."""
    yield 'in.f32', lambda path: ['quantize', '--device=reference', 'in.f32', path]
    yield 'r.json', lambda path: ['report', 'r.json', '--output=' + path]
    yield 'r.json', lambda path: ['report', 'r.json', '-o', path]
    yield 'vectors/quantize.tsv', lambda path: ['check', '--device=reference', '--vectors=vectors', '--json=' + path]
    yield 'vectors/dot.tsv', lambda path: ['check', '--device=reference', '--vectors=vectors', '--junit=' + path]
    yield 'b.json', lambda path: ['bench', '--device=reference', '--compare=b.json', '--json=' + path]
    yield 'b.json', lambda path: ['bench', '--device=reference', '--compare=b.json', '--plot=' + path]


def outputs(with_plot=True):
    """The same without inputs. A picture takes half a minute, where it isn't refused before."""
    yield lambda path: ['quantize', '--device=reference', 'in.f32', path]
    yield lambda path: ['report', 'r.json', '--output=' + path]
    yield lambda path: [*CHECK, '--json=' + path]
    yield lambda path: [*CHECK, '--junit=' + path]
    yield lambda path: ['bench', '--device=reference', '--records=1', '--repeat=1', '--json=' + path]
    if with_plot:
        yield lambda path: ['bench', '--device=reference', '--records=1', '--plot=' + path]


def test_inputs_are_no_outputs():
    os.symlink('.', 'round')
    for source, arguments in writers():
        before = Path(source).read_bytes()
        os.link(source, 'hard')
        os.symlink(source, 'soft')
        os.symlink('soft', 'softer')
        for path in (source, './' + source, os.path.abspath(source), 'round/round/' + source, 'vectors/../' + source,
                     'hard', 'soft', 'softer', 'round/softer'):
            run(2, *arguments(path))
        expect(Path(source).read_bytes() == before, f'{source} has changed')
        for path in 'hard', 'soft', 'softer':
            os.unlink(path)
    # An output that is not there yet, by two names.
    os.symlink('new', 'dangling')
    for one, other in (('new', './new'), ('new', 'round/new'), ('dangling', 'new'), ('round/dangling', 'new')):
        run(2, *CHECK, '--json=' + one, '--junit=' + other, said=['one file'])
        run(2, 'bench', '--json=' + one, '--plot=' + other, said=['one file'])
    expect(not os.path.exists('new'), 'new was written')
    os.unlink('dangling')


def test_no_ordinary_files():
    os.mkdir('folder')
    os.mkfifo('pipe')
    os.symlink('pipe', 'to-pipe')
    listener = socket.socket(socket.AF_UNIX)
    listener.bind('socket')
    os.symlink('loop', 'loop')
    os.symlink('nowhere/file', 'astray')
    long_name = 'n' * 300
    before = listing()
    for arguments in outputs():
        for path, reason in (('folder', 'it is a folder'), ('folder/', 'it is a folder'), ('.', 'it is a folder'),
                             ('pipe', 'no ordinary file'), ('to-pipe', 'no ordinary file'),
                             ('socket', 'no ordinary file'), ('/dev/null', 'no ordinary file'),
                             ('/dev/full', 'no ordinary file'), ('/dev/stdout', 'no ordinary file'),
                             ('loop', words(errno.ELOOP)), ('nowhere/file', words(errno.ENOENT)),
                             ('astray', words(errno.ENOENT)), ('in.f32/file', words(errno.ENOTDIR)),
                             ('missing/', words(errno.EISDIR)), (long_name, words(errno.ENAMETOOLONG))):
            if path == 'missing/':
                reason = "can't be written"
            run(99, *arguments(path), said=[path, reason])
    expect(listing() == before, f'files are new: {set(listing()) - set(before)}')
    listener.close()
    for path in 'pipe', 'to-pipe', 'socket', 'loop', 'astray':
        os.unlink(path)
    os.rmdir('folder')


def test_links_are_followed():
    """What a link leads to is written, and keeps its mode; another hard link of it keeps its bytes."""
    os.mkdir('far')
    Path('far/target').write_bytes(b'old')
    os.chmod('far/target', 0o640)
    os.link('far/target', 'far/other')
    os.symlink('far/target', 'link')
    for arguments in outputs(with_plot=False):
        run(0, *arguments('link'))
        expect(os.path.islink('link') and Path('far/target').stat().st_size > 3, 'the link was not followed')
        expect(Path('far/target').stat().st_mode & 0o7777 == 0o640, 'the mode has changed')
    expect(Path('far/other').read_bytes() == b'old', 'another name of the file has other bytes')
    expect(sorted(os.listdir('far')) == ['other', 'target'], f'left: {os.listdir("far")}')
    shutil.rmtree('far')
    os.unlink('link')


def test_permissions():
    """As a user, for whom they count."""
    how = {}
    if os.geteuid() == 0:
        how = {'user': NOBODY, 'group': NOBODY, 'extra_groups': []}
        if subprocess.run([KQUANT, '--version'], check=False, capture_output=True, **how).returncode != 0:
            print('hostile_test: no permissions, for another user does not reach the command')
            return
    os.mkdir('closed')
    os.mkdir('open')
    Path('closed/old').write_bytes(b'old')
    Path('open/read-only').write_bytes(b'old')
    os.chmod('open/read-only', 0o444)
    os.chmod('open', 0o777)
    os.chmod('closed', 0o555)
    if how:
        os.chown('open/read-only', NOBODY, NOBODY)
    for arguments in outputs():
        for path in 'closed/new', 'closed/old', 'open/read-only':
            run(99, *arguments(path), said=[path, words(errno.EACCES)], **how)
    os.chmod('closed', 0o755)
    expect(os.listdir('closed') == ['old'] and os.listdir('open') == ['read-only'], 'files are new')
    expect(Path('open/read-only').read_bytes() == Path('closed/old').read_bytes() == b'old', 'a file has changed')
    Path('secret.f32').write_bytes(values(1))
    os.chmod('secret.f32', 0)
    run(99, 'quantize', 'secret.f32', 'new', said=['secret.f32', words(errno.EACCES)], **how)
    for path in 'secret.f32', 'closed', 'open':
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def test_new_names():
    """The name of the new file is taken, by what leads elsewhere: it is not followed."""
    Path('victim').write_bytes(b'mine')
    os.symlink('victim', 'out.partial')
    os.link('victim', 'out.partial1')
    os.mkfifo('out.partial2')
    run(0, 'quantize', '--device=reference', 'in.f32', 'out')
    expect(Path('victim').read_bytes() == b'mine' and os.path.islink('out.partial'), 'a link was followed')
    expect(Path('out').read_bytes() == Path('x.q8k').read_bytes(), 'out is something else')
    for k in range(3, 100):
        Path(f'out.partial{k}').touch()
    run(99, 'quantize', '--device=reference', 'in.f32', 'out', said=['out', 'out.partial and 99 like it'])
    for path in [*Path('.').glob('out*'), 'victim']:
        os.unlink(path)


# --- The disk is full

def test_limit_of_size():
    """A file that may not get as large: SIGXFSZ, of which a program dies, and EFBIG."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))

    Path('out').write_bytes(b'old')
    before = listing()
    for arguments in outputs(with_plot=False):
        for path in 'out', 'new':
            done = run(99, *arguments(path), said=[path, words(errno.EFBIG)], preexec_fn=limit)
            expect(done is None or done.stderr.count(words(errno.EFBIG).encode()) == 1, f'said twice: {done}')
    expect(listing() == before and Path('out').read_bytes() == b'old', f'left: {set(listing()) - set(before)}')
    os.unlink('out')


def test_limit_of_size_unheard():
    """Nobody reads complaints any more: SIGPIPE, of which a program dies."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))

    there, here = os.pipe()
    os.close(there)
    before = listing()
    for arguments in (['quantize', '--device=reference', 'in.f32', 'new'], ['report', 'r.json', '--output=new']):
        run(-signal.SIGPIPE, *arguments, stderr=here, preexec_fn=limit)
        expect(listing() == before, f'left: {set(listing()) - set(before)}')
    os.close(here)


def test_full_disk():
    disk = Path('disk')
    disk.mkdir()
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', str(disk)], check=False,
                      stderr=subprocess.DEVNULL).returncode != 0:
        print('hostile_test: no full disk, for nothing can be mounted; the limit of size stands for it')
        disk.rmdir()
        return
    try:
        Path('disk/out').write_bytes(b'old')
        for arguments in outputs(with_plot=False):
            for path in 'disk/out', 'disk/new':
                run(99, *arguments(path), said=[path, words(errno.ENOSPC)])
        expect(os.listdir(disk) == ['out'] and Path('disk/out').read_bytes() == b'old', f'left: {os.listdir(disk)}')
        # It gets full when a report is there already, which stays as it is and can be gone on from.
        Path('disk/out').unlink()
        subprocess.run(['mount', '-o', 'remount,size=64k', str(disk)], check=True)
        run(99, 'check', '--device=reference', '--json=disk/r.json', said=['disk/r.json', words(errno.ENOSPC)])
        report = json.loads(Path('disk/r.json').read_bytes())
        expect(report['status'] == 'incomplete' and os.listdir(disk) == ['r.json'], f'left: {os.listdir(disk)}')
        run(99, 'report', 'disk/r.json')
        subprocess.run(['mount', '-o', 'remount,size=8m', str(disk)], check=True)
        run(0, 'check', '--device=reference', '--json=disk/r.json', '--resume')
        run(0, 'report', 'disk/r.json')
    finally:
        subprocess.run(['umount', str(disk)], check=True)
    disk.rmdir()


# --- stdout, stderr and stdin are not what they were

def speakers():
    return (['--help'], ['--version'], ['help', 'check'], ['devices'], ['devices', '--json'], ['check', '--list'],
            ['bench', '--list'], ['dot', '--device=reference', 'w.q4k', 'x.q8k'], ['gen', 'f32_add'],
            ['report', 'r.json'], CHECK, ['bench', '--device=reference', '--records=1', '--repeat=1'])


def test_stdout():
    for arguments in speakers():
        with open('/dev/full', 'wb') as full:
            run(99, *arguments, stdout=full, said=["stdout can't be written: " + words(errno.ENOSPC)])
        run(99, *arguments, stdout=None, preexec_fn=lambda: os.close(1),
            said=["stdout can't be written: " + words(errno.EBADF)])
        for restores in True, False:
            # Nobody reads any more: by the signal, as other commands end, or in words where it is ignored.
            there, here = os.pipe()
            os.close(there)
            run(-signal.SIGPIPE if restores else 99, *arguments, stdout=here, restore_signals=restores,
                said=[] if restores else [words(errno.EPIPE)])
            os.close(here)
    with open('lines', 'wb') as lines:
        run(0, 'gen', 'f32_add', stdout=lines)
    os.unlink('lines')


def test_closed():
    """A file that is opened must not become stdout or stderr, with what is printed in it."""
    nowhere = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}
    for closed in (1,), (2,), (0, 1), (0, 1, 2):
        def close(files=closed):
            for file in files:
                os.close(file)

        run(99 if 1 in closed else 0, *CHECK, '--json=closed.json', **nowhere, preexec_fn=close)
        report = json.loads(Path('closed.json').read_bytes())
        expect(report['status'] == 'complete', f'{closed} closed: {report["status"]}')
        run(0, 'quantize', '--device=reference', 'in.f32', 'closed.q8k', **nowhere, preexec_fn=close)
        expect(Path('closed.q8k').read_bytes() == Path('x.q8k').read_bytes(), f'{closed} closed: other records')
        os.unlink('closed.json')
        os.unlink('closed.q8k')
    run(99, 'verify', 'f32_add', preexec_fn=lambda: os.close(0), said=["stdin can't be read"])
    folder = os.open('vectors', os.O_RDONLY)
    run(99, 'verify', 'f32_add', stdin=folder, said=["stdin can't be read"])
    os.close(folder)


# --- Inputs

def test_sizes():
    for size, code, said in ((1 << 40, 99, 'memory'), ((1 << 40) + 1, 1, 'are left over'),
                             (1 << 42, 1, 'more than 2^32 - 1')):
        with open('huge', 'wb') as huge:
            try:
                huge.truncate(size)
            except OSError:
                print(f'hostile_test: no file of {size} bytes here')
                continue
        # So that a machine which would give it the memory doesn't.
        how = {'preexec_fn': lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))}
        if os.environ.get('ASAN_OPTIONS'):
            how = {}  # whose shadow is larger
            if code == 99:
                continue
        run(code, 'quantize', '--device=reference', 'huge', 'new', said=['huge', said], **how)
        run(99, 'report', 'huge', said=['huge', 'larger than such a file'], **how)
        run(99, 'bench', '--compare=huge', '--device=reference', said=['huge', 'larger than such a file'], **how)
        run(99, *CHECK, '--json=huge', '--resume', said=['huge', 'larger than such a file'], **how)
        shutil.copytree('vectors', 'huge-vectors')
        os.replace('huge', 'huge-vectors/dot.tsv')
        run(99, 'check', '--vectors=huge-vectors', said=['dot.tsv', 'larger than such a file'], **how)
        shutil.rmtree('huge-vectors')
    for arguments in (['report', '/dev/zero'], ['bench', '--device=reference', '--compare=/dev/zero'],
                      ['quantize', '--device=reference', '/dev/zero', 'new'], ['dot', '/dev/zero', 'x.q8k']):
        run(99, *arguments, said=['/dev/zero', 'larger than such a file'])
    with open('/dev/zero', 'rb') as zero:
        run(99, 'verify', 'f32_add', stdin=zero, said=['line 1', '2^28'])
    expect(not os.path.exists('new'), 'new was written')


def test_changing_inputs():
    """A file that grows while it is read is noticed by its size; a pipe is read to its end."""
    run(0, 'quantize', '--device=reference', '/dev/stdin', 'piped', stdin=None, input=values(64))
    expect(Path('piped').read_bytes() == Path('x.q8k').read_bytes(), 'a pipe gives other records')
    os.unlink('piped')
    with open('grows', 'wb', buffering=0) as grows:
        grows.write(values(40000))
        noticed = False
        for _ in range(20):
            process = subprocess.Popen([KQUANT, 'quantize', '--device=reference', 'grows', 'out'],
                                       stderr=subprocess.PIPE)
            while process.poll() is None:
                grows.write(values(16))
            said = process.communicate()[1]
            noticed |= b'its size changed' in said
            expect(process.returncode in (0, 99), f'a file that grows: exit {process.returncode}, {said!r}')
            expect((process.returncode == 0) == os.path.exists('out'), 'out is there without success')
            Path('out').unlink(missing_ok=True)
            grows.truncate(len(values(40000)))
            if noticed:
                break
    expect(noticed, 'a file that grows is not noticed')
    os.unlink('grows')


def test_vectors():
    os.mkdir('v')
    for make, code, said in ((lambda: os.mkfifo('v/dot.tsv'), 99, 'no ordinary file'),
                             (lambda: os.symlink('dot.tsv', 'v/dot.tsv'), 99, words(errno.ELOOP)),
                             (lambda: os.symlink('/dev/zero', 'v/dot.tsv'), 99, 'no ordinary file'),
                             (lambda: os.mkdir('v/dot.tsv'), 99, 'folder'),
                             (lambda: Path('v/dot.tsv').write_bytes(b'a' * (32 << 20)), 99, '1 columns'),
                             (lambda: Path('v/dot.tsv').write_bytes(b'\t' * (32 << 20)), 99, 'columns, not 6'),
                             (lambda: Path('v/dot.tsv').write_bytes(EVIL + b'\t1\t-\t-\t0\t0\n'), 99, 'dot.tsv:1')):
        make()
        run(code, 'check', '--device=reference', '--vectors=v', said=['v/dot.tsv', said])
        os.rmdir('v/dot.tsv') if os.path.isdir('v/dot.tsv') and not os.path.islink('v/dot.tsv') else os.unlink('v/dot.tsv')
    os.rmdir('v')


def test_names_of_devices():
    """One whose process can't be started is named as it was asked for."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))

    for option, other in (b'--device=', b'--against=reference'), (b'--against=', b'--device=reference'):
        done = run(99, 'check', CHECK[-1], option + EVIL, other, preexec_fn=limit)
        expect(done is None or SHOWN in done.stdout, f'{option!r}: {done and done.stdout!r}')


def test_names():
    for name, shown in ((EVIL, SHOWN), (b'--device=x', b'--device=x'), (b'a' * 200 + EVIL, SHOWN)):
        operand = b'./' + name if name.startswith(b'-') else name
        run(99, 'quantize', '--device=reference', operand, b'out', said=[shown])
        run(99, 'report', operand, said=[shown])
        run(99, 'check', b'--vectors=' + operand, said=[shown])
        run(99, 'bench', b'--compare=' + operand, said=[shown])
        run(2, 'check', b'--' + EVIL, said=[SHOWN])
        run(2, EVIL, said=[SHOWN])
        run(99, 'check', b'--device=' + EVIL, said=[SHOWN])
        run(0, 'quantize', '--device=reference', 'in.f32', operand)
        expect(Path(os.fsdecode(operand)).read_bytes() == Path('x.q8k').read_bytes(), f'{name}: other records')
        os.unlink(operand)
    run(0, 'quantize', '--device=reference', '--', 'in.f32', '-o')
    os.unlink('-o')
    # Too long for any system: in words, with all of the words.
    run(99, 'report', 'n' * 5000, said=['n' * 5000, words(errno.ENAMETOOLONG)])


def test_reports():
    good = json.loads(Path('r.json').read_bytes())
    text = json.dumps(good)
    name = good['devices'][0]['name']

    def steering(report):
        evil = EVIL.decode('utf-8', 'surrogateescape')
        evil = ''.join(c for c in evil if ord(c) < 0xDC00) + '</script><!--<b>]]>'
        report['devices'][0].update(name=evil, id=evil, driver=evil, kind=evil)
        report['devices'][0]['properties'][evil] = evil
        report['environment'][evil] = evil

    steered = json.loads(text)
    steering(steered)
    Path('h.json').write_text(json.dumps(steered, ensure_ascii=False))
    done = run(0, 'report', 'h.json', '-o', 'h.html')
    expect(b'e\\x1b[2J\\x0a\\u009b31m\\u202e' in done.stdout, f'{done.stdout!r}')
    page = Path('h.html').read_bytes()
    expect(page.count(b'</script>') == 2, f'{page.count(b"</script>")} scripts end')
    # What JSON is printed or written says the same of devices.
    for c in EVIL.decode('utf-8', 'ignore'):
        expect(c.isprintable() or c == '\n' or c.encode() not in page, f'{c!r} is in the page')
    many = json.loads(text)
    many['environment'] = {f'V{k}': 'x' for k in range(200000)}
    for content, code, said in (
            (text.replace(json.dumps(name), json.dumps(name + '\0more'), 1), 99, 'a NUL'),
            (text.replace(json.dumps(name), json.dumps('\\u0000'), 1), 0, ''),
            (text.replace(': ', ':\0 ', 1), 99, 'a NUL'),
            (text + '\0', 99, 'NUL'),
            (text.replace('"devices": [', '"devices": [' + '[' * 2000, 1), 99, 'no JSON'),
            (text.replace('"format": 1', '"format": 1, "format": 1', 1), 99, 'format: is there twice'),
            (text.replace('"format": 1', '"format": 1e400', 1), 99, 'format'),
            (text.replace('"seed": "1"', '"seed": 1e400', 1), 99, 'options'),
            (text.replace(good['devices'][0]['fingerprint'], 'f' * 64), 99, 'fingerprint'),
            (text.replace(good['devices'][0]['fingerprint'], 'f' * (1 << 20)), 99, 'fingerprint'),
            (json.dumps(many), 0, ''),
            ('{"a": "' + 'x' * (100 << 20) + '"}', 99, 'larger than such a file')):
        Path('h.json').write_text(content)
        begin = time.monotonic()
        run(code, 'report', 'h.json', said=[said])
        expect(time.monotonic() - begin < 20, f'{said or "many"}: {time.monotonic() - begin:.1f} s')
    os.unlink('h.json')
    os.unlink('h.html')


def test_baselines():
    good = json.loads(Path('b.json').read_bytes())
    expect(good['status'] == 'complete', f'status {good["status"]}')
    small = ['bench', '--device=reference', '--records=1', '--repeat=1', '--compare=h.json']

    def changed(change):
        other = json.loads(json.dumps(good))
        change(other['devices'][0])
        return json.dumps(other)

    def median(value):
        return changed(lambda device: device['results'][0]['host'].update(median=value))

    for content, said in ((median(1e300), 'results[0]'), (median(0), 'results[0]'), (median(-1), 'results[0]'),
                          (median('1'), 'results[0]'), (median(1).replace('"median": 1,', '"median": 1e999,'), 'results[0]'),
                          (changed(lambda device: device.update(results=7)), 'devices[0] must'),
                          (changed(lambda device: device.pop('name')), 'devices[0] must'),
                          (changed(lambda device: device.update(name='other')), 'none of these devices is in it'),
                          (json.dumps({**good, 'devices': []}), 'none of these devices is in it'),
                          (json.dumps(good) + '[]', 'is no file of kquant bench'),
                          ('[' * 100000, 'is no file of kquant bench')):
        Path('h.json').write_text(content)
        done = run(99, *small, said=['h.json', said])
        expect(done is None or done.stdout == b'', f'{said}: something was timed')
    Path('h.json').write_text(median(1000))
    done = run(0, *small)
    expect(done is None or b'x\n' in done.stdout, 'no ratio')
    os.unlink('h.json')


# --- What ends a command

def wait_for(condition, what):
    until = time.monotonic() + LIMIT_SECONDS
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    expect(condition(), f'{what} after {LIMIT_SECONDS} s')


def cases_of(path):
    try:
        return len(json.loads(Path(path).read_bytes())['devices'][0]['cases'])
    except FileNotFoundError:
        return 0


def children_of(process):
    return [int(n) for n in Path(f'/proc/{process.pid}/task/{process.pid}/children').read_text().split()]


def without_times(path):
    report = json.loads(Path(path).read_bytes())
    for device in report['devices']:
        for case in device['cases']:
            case.pop('seconds')
    return report


def test_ended_checks():
    check = ['check', '--device=reference', '--filter=quantize*.base.?*', '--json=i.json', '--junit=i.xml']
    run(0, *check)
    whole = without_times('i.json')
    os.unlink('i.json')
    count = len(whole['devices'][0]['cases'])
    for name, end in (('SIGINT', lambda p: p.send_signal(signal.SIGINT)),
                      ('SIGTERM', lambda p: p.send_signal(signal.SIGTERM)),
                      ('SIGHUP', lambda p: p.send_signal(signal.SIGHUP)),
                      ('SIGINT from a terminal', lambda p: os.killpg(p.pid, signal.SIGINT)),
                      ('kill -9', lambda p: p.kill()),
                      ('kill -9 of the child', lambda p: os.kill(children_of(p)[0], signal.SIGKILL))):
        process = subprocess.Popen([KQUANT, *check], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   start_new_session=True)
        # Stopped in the middle, and saved, which is done every other second.
        wait_for(lambda: children_of(process), 'a child')
        child = children_of(process)[0]
        until = time.monotonic() + LIMIT_SECONDS
        while cases_of('i.json') == 0 and time.monotonic() < until:
            os.kill(child, signal.SIGCONT)
            time.sleep(0.1)
            os.kill(child, signal.SIGSTOP)
            saved = time.monotonic() + 4
            while cases_of('i.json') == 0 and time.monotonic() < saved:
                time.sleep(0.05)
        time.sleep(0.3)  # i.xml comes after i.json
        if name == 'kill -9 of the child':
            os.kill(child, signal.SIGKILL)
        else:
            end(process)
        if name == 'kill -9':
            os.kill(child, signal.SIGCONT)
        said = process.communicate(timeout=LIMIT_SECONDS)[1]
        if name == 'kill -9 of the child':
            expect(process.returncode == 99, f'{name}: exit {process.returncode}')
            run(99, 'report', 'i.json')
            lost = [c for c in json.loads(Path('i.json').read_bytes())['devices'][0]['cases'] if c['status'] == 'error']
            expect(len(lost) == 1 and 'signal 9' in lost[0]['reason'], f'{name}: {lost[:2]}')
        else:
            report = json.loads(Path('i.json').read_bytes())
            done = report['devices'][0]
            expect(report['status'] == done['status'] == 'incomplete', f'{name}: {report["status"]}')
            expect(0 < len(done['cases']) < count and done['counts']['error'] == 0,
                   f'{name}: {len(done["cases"])} of {count} cases, {done["counts"]}')
            expect(process.returncode < 0, f'{name}: exit {process.returncode}')
            expect(b'--resume' in said or name == 'kill -9', f'{name}: {said!r}')
            shown = run(99, 'report', 'i.json')
            expect(b'incomplete' in shown.stdout, f'{name}: {shown.stdout!r}')
            expect(b'type="incomplete"' in Path('i.xml').read_bytes(), f'{name}: JUnit is complete')
        run(0, *check, '--resume')
        expect(without_times('i.json') == whole, f'{name}: what --resume makes is not what a whole run does')
        expect(not list(Path('.').glob('*.partial*')), f'{name}: {list(Path(".").glob("*.partial*"))}')
        os.unlink('i.json')
    os.unlink('i.xml')


def test_ended_writes():
    """A signal while a file is written: it is whole, and the command ends by the signal."""
    Path('large.f32').write_bytes(values(1 << 14))
    arguments = ['quantize', '--device=reference', 'large.f32', 'i.q8k']
    run(0, *arguments)
    whole = Path('i.q8k').read_bytes()
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        process, until = None, time.monotonic() + LIMIT_SECONDS
        # Once more where the command was faster.
        while (process is None or process.returncode == 0) and time.monotonic() < until:
            Path('i.q8k').write_bytes(b'old')
            process = subprocess.Popen([KQUANT, *arguments], stderr=subprocess.DEVNULL)
            while not os.path.exists('i.q8k.partial') and process.poll() is None:
                time.sleep(0.0005)
            process.send_signal(number)
            process.wait(timeout=LIMIT_SECONDS)
        expect(process.returncode == -number, f'{number!r}: exit {process.returncode}')
        expect(Path('i.q8k').read_bytes() == whole, f'{number!r}: something else was written')
        expect(not list(Path('.').glob('*.partial*')), f'left: {list(Path(".").glob("*.partial*"))}')
        for path in Path('.').glob('*.partial*'):
            path.unlink()
    # One that is ignored stays so.
    run(0, *arguments, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    os.unlink('large.f32')
    os.unlink('i.q8k')


def test_orphans():
    """A child whose parent is gone ends by itself."""
    process = subprocess.Popen([KQUANT, 'check', '--device=reference', '--fault=hang:quantize.base.zeros'],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: children_of(process), 'a child')
    child = children_of(process)[0]
    process.kill()
    process.wait()
    wait_for(lambda: not os.path.exists(f'/proc/{child}') or
             Path(f'/proc/{child}/stat').read_text().split()[2] == 'Z', 'the child ends')


def test_ended_benches():
    arguments = ['bench', '--device=reference', '--long=65536', '--json=i.json', '--plot=i.svg']
    Path('i.svg').write_bytes(b'old')
    for number, rows in (signal.SIGINT, 0), (signal.SIGTERM, 2), (signal.SIGHUP, 2):
        Path('i.json').write_bytes(b'old')
        process = subprocess.Popen([KQUANT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        seen = 0
        while seen < rows:
            seen += process.stdout.readline().startswith(b'reference   long-')
        if rows == 0:
            process.stdout.readline()  # its head comes with the first times
        process.send_signal(number)
        said = process.communicate(timeout=LIMIT_SECONDS)[1]
        expect(process.returncode == -number and b'bench: interrupted after ' in said,
               f'{number!r}: exit {process.returncode}, {said!r}')
        if Path('i.json').read_bytes() == b'old':
            expect(rows == 0 and b'nothing was written' in said, f'{number!r}: nothing was written, {said!r}')
        else:
            report = json.loads(Path('i.json').read_bytes())
            count = len(report['devices'][0]['results'])
            expect(report['status'] == 'incomplete' and rows <= count and
                   f'after {count} of '.encode() in said, f'{number!r}: {report["status"]}, {count}, {said!r}')
        expect(Path('i.svg').read_bytes() == b'old', 'a picture of some of it was drawn')
        expect(not list(Path('.').glob('*.partial*')), f'left: {list(Path(".").glob("*.partial*"))}')
    os.unlink('i.json')
    os.unlink('i.svg')


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix='kquant-hostile-') as folder:
        os.chmod(folder, 0o755)
        os.chdir(folder)
        make_inputs()
        before = listing()
        for test in (test_inputs_are_no_outputs, test_no_ordinary_files, test_links_are_followed, test_permissions,
                     test_new_names, test_limit_of_size,
                     test_limit_of_size_unheard, test_full_disk, test_stdout, test_closed, test_sizes,
                     test_changing_inputs, test_vectors, test_names, test_names_of_devices, test_reports, test_baselines,
                     test_ended_checks, test_ended_writes, test_orphans, test_ended_benches):
            begin = time.monotonic()
            test()
            print(f'{test.__name__[5:]}: {time.monotonic() - begin:.1f} s')
            if os.path.lexists('round'):
                os.unlink('round')
            expect(listing() == before, f'{test.__name__}: left {set(listing()) ^ set(before)}')
        os.chdir('/')
    return sum_up()


sys.exit(main())
