#!/usr/bin/env python3
"""Seeds the faults of mutants/*.txt one by one and sees that each is noticed.

usage: mutants.py BUILD [--only=GLOB] [--jobs=N] [--list]

BUILD is an up-to-date build folder. Of the library only the objects and kernels that a fault is in
are made again, by the build's own commands; the tool and the tests, which judge them, are linked as
they are. Prints a table and 'N of N killed'. Before that every command must pass with nothing
changed.

A mutant is a name and lines: `why` a driver or a kernel is wrong like that; the `file`; what it is
shown `on`, a driver and, if not `kquant check`, a test with its arguments; the case or the test that
must `kill` it, or a glob of them; `level` full, where quick lacks the case; the variants of kernels
that it is shown `without`, a glob; the text replaced, behind `-`, and what comes in its place,
behind `+`. A blank line ends it.

Exit 0: all were killed. 1: one survived, or its text isn't in its file exactly once, or it does
not compile. 77: a program or a driver is missing.
"""
import argparse
import concurrent.futures
import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import typing
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SOURCES = ['src', 'shaders', 'cl']
DEVICES = {'reference': 'reference', 'lavapipe': 'vulkan:0', 'pocl': 'opencl:0',
           'oclgrind': 'opencl:0'}
LIBRARY = re.compile(r'src/libkquant(-device)?\.a\.p/')
SKIP = 77


class Unusable(Exception):
    """What is no verdict on a mutant: the list is wrong, or the fault doesn't compile."""


# --- The list

class Way(typing.NamedTuple):
    """How a mutant is shown."""
    on: str  # a driver, and a test with its arguments if it isn't the command that shows it
    level: str
    without: str

    @property
    def is_test(self):
        return len(self.on.split()) > 1

    @property
    def program(self):
        """What the build calls it."""
        test = self.on.split()[1:2]
        return f'tests/{test[0]}' if test else \
            'tests/kquant_without' if self.without else 'src/tool/kquant'

    def command(self, program, kill):
        driver, *test = self.on.split()
        if test:
            arguments = [str(PLACES.get(a, a)) for a in test[1:]]
        else:
            arguments = ['check', f'--device={DEVICES[driver]}', f'--level={self.level}',
                         f'--filter={kill}']
        return ['sh', str(HERE / 'drivers.sh'), 'run', driver, str(program)] + arguments

    def environment(self, environment):
        return environment | ({'KQ_TEST_WITHOUT': self.without} if self.without else {})


class Mutant:
    def __init__(self, where, lines):
        self.where = where
        self.name = lines[0]
        self.fields = {'-': [], '+': []}
        for line in lines[1:]:
            key, _, text = line.partition(' ')
            if key in '-+':
                self.fields[key].append(text)
            else:
                self.fields[key] = text.strip()
        for key in ['why', 'file', 'on', 'kill']:
            if not self.fields.get(key):
                raise Unusable(f'{where}: {self.name} has no line "{key}"')
        self.file, self.on, self.kill = (self.fields[k] for k in ['file', 'on', 'kill'])
        self.way = Way(self.on, self.fields.get('level', 'quick'), self.fields.get('without', ''))

    def mutated(self):
        """The text of the file with the fault. Runs of blanks match any others."""
        text = (ROOT / self.file).read_text()
        old = '\n'.join(self.fields['-'])
        pattern = r'\s+'.join(re.escape(word) for word in old.split())
        found = re.findall(pattern, text)
        if not old.strip() or len(found) != 1:
            raise Unusable(f'{self.where}: {self.name}: its text is {len(found)} times in {self.file}')
        new = '\n'.join(self.fields['+'])
        if new.split() == old.split():
            raise Unusable(f'{self.where}: {self.name} changes nothing')
        return re.sub(pattern, lambda _: new, text)


def read_list():
    mutants = []
    for path in sorted((HERE / 'mutants').glob('*.txt')):
        block = []
        for number, line in enumerate(path.read_text().splitlines() + [''], 1):
            if line.strip() and not line.startswith('#'):
                block.append(line)
            elif block and not line.strip():
                mutants.append(Mutant(f'{path.name}:{number - len(block)}', block))
                block = []
    names = [m.name for m in mutants]
    for name in names:
        if names.count(name) > 1:
            raise Unusable(f'{name} is there twice')
    return mutants


# --- Building

def run_tool(command, cwd):
    done = subprocess.run(command, shell=True, cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace')
    if done.returncode != 0:
        raise Unusable(f'does not compile: {command}\n{done.stdout}')


class Build:
    """The commands of a build folder, by what they make, and what each object includes."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        lines = self.ninja('commands').splitlines()
        self.commands = {}
        for line in lines:
            output = re.search(r' -o (\S+)', line)
            kernels = re.search(r'embed\.py kernels (\S+)', line)
            if output or kernels:
                self.commands[(output or kernels).group(1)] = line
        self.table = next(c for c in self.commands if c.endswith('kernel_table.c'))
        self.deps = {}
        for line in self.ninja('deps').splitlines():
            if line.startswith(' '):
                path = os.path.normpath(self.folder / line.strip())
                self.deps.setdefault(path, set()).add(target)
            else:
                target = line.partition(':')[0]

    def ninja(self, tool):
        return subprocess.run(['ninja', '-C', self.folder, '-t', tool], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def modules_with(self, file):
        """Names of the kernels whose shaders include a file."""
        def includes(path):
            found = {path}
            for name in re.findall(r'#include "([^"]+)"', path.read_text()):
                for folder in [ROOT / 'shaders', ROOT / 'src']:
                    if (folder / name).exists():
                        found |= includes(folder / name)
            return found
        return [c.stem if '.' in c.stem else c.stem + '.base'
                for c in sorted((ROOT / 'shaders').glob('*.comp')) if file in includes(c)]

    def link(self, mutant, folder):
        """Makes the program that shows a mutant; its path."""
        for name in SOURCES:
            shutil.copytree(ROOT / name, folder / name)
        (folder / mutant.file).write_text(mutant.mutated())
        made = {}  # what is made again, by what the build calls it
        here = os.path.relpath(ROOT, self.folder)

        def make(output, extra=''):
            made[output] = folder / output.replace('/', '_')
            command = self.commands[output]
            for name in SOURCES:
                for root in [here, str(ROOT)]:
                    command = re.sub(rf'(?<![\w./]){re.escape(root)}/{name}(?=[/|\'\s]|$)|'
                                     rf'(?<=-I){re.escape(root)}/{name}(?=[/|\'\s]|$)',
                                     str(folder / name), command)
            for was, now in made.items():
                for path in [str(self.folder / was), was]:
                    command = re.sub(rf'(?<![\w./]){re.escape(path)}', str(now), command)
            run_tool(command + extra, self.folder)

        file = ROOT / mutant.file
        driver = mutant.on.split()[0]
        kernels = []
        if driver == 'lavapipe':
            kernels = self.modules_with(file)
        for name in kernels:
            make(f'shaders/{name}.long.spv')
            make(f'shaders/{name}.spv')
        objects = sorted(o for o in self.deps.get(str(file), []) if LIBRARY.match(o))
        if kernels or (driver in ['pocl', 'oclgrind'] and file.suffix in ['.cl', '.h']):
            make(self.table)
            objects += [o for o in self.commands
                        if LIBRARY.match(o) and o.endswith('kernel_table.c.o')]
        for output in dict.fromkeys(objects):
            make(output, ' -O1 -w')
        if not objects:
            raise Unusable(f'nothing of {driver} is made of {mutant.file}')
        program = mutant.way.program
        again = ' '.join(shlex.quote(str(made[o])) for o in dict.fromkeys(objects))
        # Before the archives, whose objects of the same names are then left alone.
        made_program = folder / 'program'
        command = self.commands[program].replace(f'-o {program} ', f'-o {made_program} {again} ', 1)
        run_tool(command, self.folder)
        return made_program


# --- Running

# What stands for a path in the list. FEW has one vector in 25, and the first of each small count of
# records, for an interpreter.
PLACES = {'VECTORS': HERE / 'vectors', 'CONTRACT': ROOT / 'include/kquant/CONTRACT.md'}


def write_few(folder):
    folder.mkdir()
    for path in (HERE / 'vectors').glob('*.tsv'):
        few, counts = [], set()
        for i, line in enumerate(path.read_text().splitlines(True)):
            count = line.split('\t')[1]
            if i % 25 == 1 or (count.isdigit() and int(count) <= 40 and count not in counts):
                few.append(line)
                counts.add(count)
        (folder / path.name).write_text(''.join(few))
    PLACES['FEW'] = folder


class Run:
    """Runs until `until` has seen enough of its lines, or to the end."""

    def __init__(self, command, environment, until, limit=300):
        self.lines = []
        self.is_cut = False
        end = time.monotonic() + limit
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace',
                              start_new_session=True) as process:
            for line in process.stdout:
                self.lines.append(line.rstrip())
                if until(self.lines[-1]) or time.monotonic() > end:
                    self.is_cut = True
                    os.killpg(process.pid, 9)
                    break
        self.code = process.returncode


def failed_case(line):
    found = re.match(r'(?:FAIL  |ERROR ) (\S+): ', line)
    return found.group(1) if found else None


def failed_test(line):
    found = re.match(r'\[  FAILED  \] (.+?)$', line)
    return found.group(1) if found else None


def passed_test(line):
    found = re.match(r'\[       OK \] (.+?)$', line)
    return found.group(1) if found else None


def killer(mutant, program, environment):
    """The case or test that fails, of those that the list names; None: none does."""
    failure = failed_test if mutant.way.is_test else failed_case

    def is_killer(line):
        name = failure(line)
        return name is not None and fnmatch.fnmatchcase(name, mutant.kill)

    run = Run(mutant.way.command(program, mutant.kill), mutant.way.environment(environment),
              is_killer)
    hits = [failure(line) for line in run.lines if is_killer(line)]
    if not hits and mutant.on != 'reference' and run.code == SKIP and len(run.lines) < 3:
        raise Unusable('\n'.join(run.lines))
    return (hits[0] if hits else None), run


def control(way, kills, program, environment):
    """None if all that is to kill is there and passes without a fault; else what was printed; or SKIP."""
    missing = set(kills)
    environment = way.environment(environment)

    def see(name):
        missing.difference_update(k for k in kills if name and fnmatch.fnmatchcase(name, k))

    def is_enough(line):
        see(passed_test(line))
        return way.is_test and not missing

    # All cases of a level that takes minutes are too many.
    for glob in kills if way.level == 'full' else ['*']:
        run = Run(way.command(program, glob), environment, is_enough)
        if run.code == SKIP and any('drivers.sh: no ' in line for line in run.lines):
            return SKIP
        is_good = run.is_cut and not any(failed_test(line) for line in run.lines)
        if not way.is_test:
            is_good = any(re.match(r'[1-9]\d* passed, 0 failed', line) for line in run.lines)
        if not is_good:
            break
    if not way.is_test:
        command = [str(program), 'check', f'--level={way.level}', '--list']
        for name in Run(command, environment, lambda _: False).lines:
            see(name)
    if is_good and not missing:
        return None
    return f'{way.on}, with nothing changed; missing: {" ".join(missing)}\n' + '\n'.join(run.lines)


def judge(build, mutant, scratch, environment):
    """(killer or None, seconds, what there is to say)."""
    begin = time.monotonic()
    folder = scratch / mutant.name
    folder.mkdir()
    say = ''
    try:
        name, run = killer(mutant, build.link(mutant, folder), environment)
        if name is None:
            say = '\n'.join(run.lines[-15:])
    except Unusable as error:
        name, say = None, f'ERROR {error}'
    shutil.rmtree(folder)
    return name, time.monotonic() - begin, say


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('build')
    parser.add_argument('--only', default='*')
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--list', action='store_true')
    options = parser.parse_args()
    mutants = sorted(read_list(), key=lambda m: m.name)
    mutants = [m for m in mutants if fnmatch.fnmatchcase(m.name, options.only)]
    for mutant in mutants:
        mutant.mutated()
    if options.list:
        for mutant in mutants:
            print(f'{mutant.name}\t{mutant.file}\t{mutant.on}\t{mutant.fields["why"]}')
        return 0
    build = Build(options.build)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # Programs of drivers keep what they compile; faults are no use to anyone.
        environment = dict(os.environ, POCL_CACHE_DIR=f'{scratch}/pocl',
                           MESA_SHADER_CACHE_DISABLE='true')
        write_few(Path(scratch) / 'few')
        kills = {}
        for mutant in mutants:
            kills.setdefault(mutant.way, {})[mutant.kill] = None
        controls = {way: pool.submit(control, way, list(kills[way]), build.folder / way.program,
                                     environment)
                    for way in kills}
        for way, future in controls.items():
            said = future.result()
            if said == SKIP:
                print(f'mutants.py: {way.on.split()[0]} is not installed', file=sys.stderr)
                return SKIP
            if said is not None:
                print(said)
                return 1
        print(f'{len(kills)} controls passed, '
              f'{time.monotonic() - begin:.0f} s', flush=True)
        results = [(m, pool.submit(judge, build, m, Path(scratch), environment)) for m in mutants]
        killed = 0
        print(f'{"mutant":42} {"on":30} {"s":>5}  killed by')
        for mutant, future in results:
            name, seconds, say = future.result()
            killed += name is not None
            print(f'{mutant.name:42} {" ".join(mutant.on.split()[:2]):30} {seconds:5.1f}  '
                  f'{name or "SURVIVED " + mutant.kill}', flush=True)
            if say:
                print('    ' + say.replace('\n', '\n    '), flush=True)
    print(f'{time.monotonic() - begin:.0f} s\n{killed} of {len(mutants)} killed')
    return 0 if killed == len(mutants) and killed > 0 else 1


try:
    sys.exit(main())
except Unusable as error:
    sys.exit(f'mutants.py: {error}')
