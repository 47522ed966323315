"""Files that are whole or not there, and folders that only one process writes to."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fediac.errors import ConfigError, RunError


def require_folder(out: Path) -> None:
    """Refuse an ``--out`` that is no folder and cannot become one; nothing is made.

    Raises:
        ConfigError: Something else is there, or where one of its parents would be.
    """
    there = next((each for each in (out, *out.parents) if os.path.lexists(each)), None)
    if there is not None and not there.is_dir():
        below = "" if there == out else f" below {there}"
        raise ConfigError(f"--out must be a folder, got {out}{below}, which is a file")


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file, so that whoever reads it sees the old one or all of the new.

    Several may write the same file at once: each has a temporary file of its own, and
    the last one to be done stays.

    Args:
        path: The file.
        content: Text is written as UTF-8, its lines ended as they are.
    """
    # Processes on two machines that share a folder may have the same number.
    own = f"{os.getpid()}-{secrets.token_hex(4)}"
    temporary = path.with_name(f"{path.name}.{own}.partial")
    data = content.encode() if isinstance(content, str) else content
    try:
        with blamed_on(path):
            temporary.write_bytes(data)
            temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # why it could not be written says more
            temporary.unlink()
        raise


@contextmanager
def blamed_on(path: Path) -> Iterator[None]:
    """Let errors name ``path`` where they would name a temporary file in its place.

    Raises:
        OSError: Instead of one about another file; of the same kind.
    """
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


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
