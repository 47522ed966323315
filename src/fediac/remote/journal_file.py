"""A coordinator's journal in a file that only grows.

A record is its length, a checksum and its bytes, synced before `append` returns. A
record that was cut short, because its writer was killed, is none: it is cut off.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from fediac.errors import RemoteProtocolError, RunError, SessionError
from fediac.files import lock_file
from fediac.remote.codec import from_bytes, to_bytes
from fediac.sessions.journal import Began, Committed, Numbered, Record, require_epoch

_MAGIC = b"fediac journal 1\n"
_HEAD = struct.Struct("<QI")


class FileJournal:
    """A journal that one coordinator has open at a time.

    Args:
        path: The file; it is created if there is none.

    Raises:
        RunError: Another process has it, or it is no journal.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        lock_file(self._handle, path)
        self._newest = 0
        self._end = 0

    def close(self) -> None:
        """Let another coordinator have it."""
        os.close(self._handle)

    def load(self) -> list[Record]:
        """Return all records that are whole; cut off what is behind them."""
        data = self.path.read_bytes()
        if not data:
            self._write(_MAGIC)
            return []
        if not data.startswith(_MAGIC):
            raise RunError(f"{self.path}: not a journal of this version of fediac")
        records = []
        self._end = len(_MAGIC)
        for record, end in _records(data, self.path):
            records.append(record)
            self._newest = max(self._newest, record.epoch)
            self._end = end
        os.ftruncate(self._handle, self._end)
        return records

    def append(self, record: Record) -> None:
        """Write one more record to the disk before this returns.

        Raises:
            SessionError: Somebody else has written since, although it is locked.
        """
        require_epoch(record, self._newest)
        if os.fstat(self._handle).st_size != self._end:
            raise SessionError(
                f"{self.path}: another coordinator has written to this journal"
            )
        body = to_bytes(record)
        self._write(_HEAD.pack(len(body), zlib.crc32(body)) + body)
        self._newest = max(self._newest, record.epoch)

    def _write(self, data: bytes) -> None:
        os.lseek(self._handle, self._end, os.SEEK_SET)
        view = memoryview(data)
        while view:
            view = view[os.write(self._handle, view) :]
        os.fsync(self._handle)
        self._end += len(data)


def _records(data: bytes, path: Path) -> Iterator[tuple[Record, int]]:
    """Yield each whole record, and where it ends."""
    at = len(_MAGIC)
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        start, end = at + _HEAD.size, at + _HEAD.size + length
        if end > len(data) or zlib.crc32(data[start:end]) != checksum:
            if end < len(data):
                raise RunError(f"{path}: record at byte {at} is damaged")
            return
        try:
            record = from_bytes(data[start:end])
        except RemoteProtocolError as error:
            raise RunError(f"{path}: record at byte {at}: {error}") from error
        if not isinstance(record, Began | Numbered | Committed):
            raise RunError(f"{path}: record at byte {at} is none of a journal's")
        yield record, end
        at = end
