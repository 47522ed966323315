"""A safetensors file that holds the digest of all of itself: damage is noticed.

The digest stands in the file's metadata. It is that of the file, header and all, with
zeros in the place of the digest.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import BinaryIO

from fediac.errors import RunError

ROOM = {"sha256": "0" * 64}
"""Metadata that a file needs before a digest can be put into it."""

# Quotes inside of a name or a value have a backslash before them: there is one place.
_PLACE = re.compile(rb'"sha256":"([0-9a-f]{64})"')
_ZEROS = ROOM["sha256"].encode()
_CHUNK = 1 << 20

_MAX_HEADER = 100_000_000
"""Longer ones the format does not allow."""


def write_digest(path: Path) -> None:
    """Put the digest of a file into the room for it; it is on disk afterwards."""
    with path.open("r+b") as file:
        header = _read_header(file)
        place = _PLACE.search(header)
        if place is None:
            raise ValueError(f"path must have metadata with room for a digest: {path}")
        digest = _digest(header, place, file)
        file.seek(place.start(1))
        file.write(digest)
        file.flush()
        os.fsync(file.fileno())


def check_digest(path: Path) -> None:
    """Refuse a file that is not what was written.

    Raises:
        RunError: Some of it has changed or is missing, or it has no digest.
    """
    with path.open("rb") as file:
        header = _read_header(file)
        place = _PLACE.search(header)
        is_right = place is not None and _digest(header, place, file) == place[1]
    if is_right:
        return
    is_whole = len(header) > _LENGTH and header[_LENGTH:].rstrip().endswith(b"}")
    what = (
        "has no digest of its content, older versions wrote none"
        if place is None and is_whole
        else "is damaged, its content does not have the digest that is in it"
    )
    raise RunError(
        f"{path}: {what}; put a copy of it back, or delete {path.parent} to begin anew"
    )


_LENGTH = 8


def _read_header(file: BinaryIO) -> bytes:
    """Return the header and its length before it, as far as they are there."""
    length = file.read(_LENGTH)
    return length + file.read(min(int.from_bytes(length, "little"), _MAX_HEADER))


def _digest(header: bytes, place: re.Match[bytes], file: BinaryIO) -> bytes:
    """Return the digest in hexadecimal, of the header and the rest of the file."""
    digest = hashlib.sha256(header[: place.start(1)])
    digest.update(_ZEROS)
    digest.update(header[place.end(1) :])
    chunk = memoryview(bytearray(_CHUNK))
    while n_bytes := file.readinto(chunk):  # type: ignore[attr-defined] # of files
        digest.update(chunk[:n_bytes])
    return digest.hexdigest().encode()
