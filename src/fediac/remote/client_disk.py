"""A client's holdings in a folder: large arrays in files of their own, and a list.

What is new is written beside what is there, under names that are not in use; then the
list is replaced in one step. So the folder has the old holdings or the new ones, and
never a mixture.
"""

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fediac.errors import RemoteProtocolError, RunError
from fediac.remote.codec import from_bytes, to_bytes
from fediac.sessions.client import Holdings

_LIST = "holdings"
_PARTS = ("model", "state", "work", "attempt")
"""Fields in files of their own: those that are large, and not all new each time."""


class ClientDisk:
    """The folder of one client.

    Args:
        folder: Created if there is none.
        is_synced: Whether what is saved outlives the machine, and not only this
            process.
    """

    def __init__(self, folder: Path, *, is_synced: bool = True) -> None:
        self.folder = folder
        self._is_synced = is_synced
        folder.mkdir(parents=True, exist_ok=True)
        self._saved: Holdings | None = None
        self._names: dict[str, str] = {}
        self._n_written = 0

    def load(self) -> Holdings | None:
        """Return what was saved last; None: nothing yet.

        Raises:
            RunError: A file is missing or damaged.
        """
        path = self.folder / _LIST
        if not path.exists():
            return None
        listed: Mapping[str, Any] = self._read(_LIST)
        self._names = dict(listed["names"])
        self._n_written = listed["n_written"]
        parts = {name: self._read(self._names[name]) for name in _PARTS}
        self._saved = Holdings(**parts, last=listed["last"], epoch=listed["epoch"])
        self._remove_others()
        return self._saved

    def save(self, holdings: Holdings) -> None:
        """Replace what was saved; it is on the disk before this returns, if synced."""
        names = dict(self._names)
        for name in _PARTS:
            part = getattr(holdings, name)
            if self._saved is None or part is not getattr(self._saved, name):
                self._n_written += 1
                names[name] = f"{name}.{self._n_written}"
                self._write(names[name], to_bytes(part))
        listed = {
            "names": names,
            "n_written": self._n_written,
            "last": holdings.last,
            "epoch": holdings.epoch,
        }
        self._write(f"{_LIST}.new", to_bytes(listed))
        (self.folder / f"{_LIST}.new").replace(self.folder / _LIST)
        if self._is_synced:
            _sync_folder(self.folder)
        self._names, self._saved = names, holdings
        self._remove_others()

    def _write(self, name: str, body: bytes) -> None:
        with (self.folder / name).open("wb") as file:
            file.write(zlib.crc32(body).to_bytes(4, "little"))
            file.write(body)
            file.flush()
            if self._is_synced:
                os.fsync(file.fileno())

    def _read(self, name: str) -> Any:  # noqa: ANN401 - whatever was saved
        path = self.folder / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise RunError(f"{path}: missing from a client's folder") from None
        if zlib.crc32(data[4:]).to_bytes(4, "little") != data[:4]:
            raise RunError(f"{path}: damaged")
        try:
            return from_bytes(data[4:])
        except RemoteProtocolError as error:
            raise RunError(f"{path}: {error}") from error

    def _remove_others(self) -> None:
        """Remove the files of older holdings, and of ones that were never finished."""
        kept = {_LIST, *self._names.values()}
        for path in self.folder.iterdir():
            if path.name not in kept and path.name.split(".")[0] in (_LIST, *_PARTS):
                path.unlink()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
