"""Keys of jobs, from a file or the environment; never from a command line.

A line of a key file is a key for all jobs that have none of their own, or a job's
number and its key. Keys are written in hexadecimal digits. No error shows any part of
one.
"""

import stat
from collections.abc import Mapping
from pathlib import Path

from fediac.errors import StartError, say_reason
from fediac.switch.keys import Keyring
from fediac.wire.tag import KEY_BYTES, MAX_KEY_BYTES

BAD_KEY = 6
"""The exit code of who has no usable key."""

VARIABLE = "FEDIAC_KEY"
_MAX_FILE_BYTES = 1 << 20
_MAX_JOB = 2**64 - 1


def find_keys(path: Path | None, environment: Mapping[str, str]) -> Keyring:
    """Return the keys in a file, or the one in the environment, or none.

    Raises:
        StartError: They cannot be used, or both are there.
    """
    written = environment.get(VARIABLE)
    if path is not None and written:
        raise StartError(f"give a key file or {VARIABLE}, not both", BAD_KEY)
    if path is not None:
        return read_key_file(path)
    return Keyring(parse_key(written, VARIABLE) if written else None)


def read_key_file(path: Path) -> Keyring:
    """Return the keys in a file that nobody but its owner and group can read.

    Raises:
        StartError: It cannot be read, others can read it, or it is no key file.
    """
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise StartError(f"{path}: {say_reason(error)}", BAD_KEY) from None
    if mode & stat.S_IRWXO:
        raise StartError(
            f"{path}: everybody on this machine can use this file; run chmod 600 "
            f"{path}",
            BAD_KEY,
        )
    return _read_lines(data.decode("utf-8", errors="replace"), path)


def is_read_by_group(path: Path) -> bool:
    """Return whether others than its owner can read a file."""
    return bool(path.stat().st_mode & stat.S_IRWXG)


def _read_lines(text: str, path: Path) -> Keyring:
    default: bytes | None = None
    of_jobs: dict[int, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words, where = line.partition("#")[0].split(), f"{path} line {number}"
        if not words:
            continue
        *job, written = words
        key = parse_key(written, where)
        if not job and default is None:
            default = key
        elif len(job) == 1 and job[0].isdecimal() and int(job[0]) <= _MAX_JOB:
            of_jobs[int(job[0])] = key
        else:
            raise StartError(
                f"{where}: must be a key, once, or a job's number and its key", BAD_KEY
            )
    if default is None and not of_jobs:
        raise StartError(f"{path}: must have a key, got none", BAD_KEY)
    return Keyring(default, of_jobs)


def parse_key(written: str, where: str) -> bytes:
    """Return a key that was written in hexadecimal digits.

    Args:
        written: The digits.
        where: Where they stood, for errors.
    """
    digits = written.strip()
    least, most = 2 * KEY_BYTES, 2 * MAX_KEY_BYTES
    is_hex = all(each in "0123456789abcdefABCDEF" for each in digits)
    if not is_hex or not least <= len(digits) <= most or len(digits) % 2:
        said = f"{len(digits)} digits" if is_hex else "something else"
        raise StartError(
            f"{where}: a key must have {least} to {most} hexadecimal digits, two a "
            f"byte, got {said}; python3 -c 'import secrets; "
            "print(secrets.token_hex(32))' makes one",
            BAD_KEY,
        )
    return bytes.fromhex(digits)
