"""What the tests written in Python share: expectations that are counted, and their sum."""
import sys
from pathlib import Path

TEST = Path(sys.argv[0]).stem

checks = failures = 0


def expect(condition, message):
    """Prints the message if the condition does not hold, and goes on."""
    global checks, failures
    checks += 1
    if not condition:
        failures += 1
        print(f'{TEST}: {message}')


def sum_up():
    """Prints how many expectations there were. Returns the exit code: 1 where one failed or none was made."""
    print(f'{TEST}: {checks} checks, {failures} failed')
    return 1 if failures or not checks else 0
