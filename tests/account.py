#!/usr/bin/env python3
"""Prints what became of each driver, and the closing line over all build folders given.

usage: account.py BUILD...

The first build ran the tests of every driver, each in a suite of the driver's name; those that not
every processor can run are in suite `processor` too, and may be skipped. Exit 1: a test failed;
nothing ran; or, where CI=true, a driver was not there, unless drivers.sh says that the package
registry could not be reached.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
UNREACHABLE = 'package registry unreachable'


def results(build):
    """(suites, result) of each test of the last run. Meson's log names one `project:suite / name`,
    several suites joined by `+`.
    """
    for line in (build / 'meson-logs/testlog.json').read_text().splitlines():
        test = json.loads(line)
        suites = test['name'].split(' / ')[0].split(':')[-1].split('+')
        yield suites, test['result']


def drivers():
    listed = subprocess.run(['sh', HERE / 'drivers.sh', 'list'], check=True, text=True,
                            stdout=subprocess.PIPE)
    return listed.stdout.split()


def reason_missing(driver):
    """Why a driver can't be used, or None."""
    tried = subprocess.run(['sh', HERE / 'drivers.sh', 'run', driver, 'true'], text=True,
                           stderr=subprocess.PIPE)
    return tried.stderr.strip() if tried.returncode == 77 else None


def account_driver(driver, tests):
    """Prints the driver's line; True if it counts as a failure."""
    mine = [result for suites, result in tests
            if driver in suites and (result != 'SKIP' or 'processor' not in suites)]
    passed, skipped = mine.count('OK'), mine.count('SKIP')
    bad = len(mine) - passed - skipped
    reason = reason_missing(driver)
    if bad:
        verdict = 'fail'
    elif passed and not skipped:
        verdict = 'pass'
    elif reason is not None:
        verdict = f'not installable: {reason}'
    else:
        verdict = 'fail: installed, but not tested'
    print(f'{driver:<12} {passed:>4} passed {bad:>4} failed {skipped:>4} skipped   {verdict}')
    if verdict == 'pass':
        return False
    return bad == 0 and (reason is None or
                         (os.environ.get('CI') == 'true' and UNREACHABLE not in reason))


def main():
    builds = [Path(b) for b in sys.argv[1:]]
    if not builds:
        sys.exit(__doc__)
    tests = [list(results(build)) for build in builds]
    missing = sum(account_driver(driver, tests[0]) for driver in drivers())
    all_results = [result for build in tests for _, result in build]
    passed, skipped = all_results.count('OK'), all_results.count('SKIP')
    bad = len(all_results) - passed - skipped + missing
    print(f'\n{passed} passed, {bad} failed, {skipped} skipped')
    return 1 if bad or not passed else 0


sys.exit(main())
