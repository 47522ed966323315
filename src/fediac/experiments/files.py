"""Files that are whole or not there, and folders that only one process writes to."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fediac.errors import RunError


def write_whole(path: Path, text: str) -> None:
    """Replace a file, so that whoever reads it sees the old text or all of the new."""
    temporary = path.with_name(path.name + ".partial")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes of this package from writing to ``folder``, made if needed.

    The lock is on the folder itself and ends with its process, however that ends. A
    system without such locks goes without.

    Raises:
        RunError: Another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


if sys.platform != "win32":
    import fcntl

    def _lock(handle: int, folder: Path) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{folder}: another process is writing to it; wait until it is done"
            ) from None
        except OSError:
            return  # a file system without locks
