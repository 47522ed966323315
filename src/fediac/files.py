"""Files that are complete or absent, and folders that one process writes to."""

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fediac.errors import ConfigError, RunError


def require_folder(out: Path) -> None:
    """Refuse an ``--out`` that is not a folder and cannot become one; create nothing.

    Raises:
        ConfigError: Something else is there, or where one of its parents would be.
    """
    there = next((each for each in (out, *out.parents) if os.path.lexists(each)), None)
    if there is not None and not there.is_dir():
        below = "" if there == out else f" below {there}"
        raise ConfigError(f"--out must be a folder, got {out}{below}, which is a file")


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file, so that readers see either the old one or all of the new one.

    Args:
        path: The file, as `replacing` takes it.
        content: Text is written as UTF-8, its lines ended as they are.
    """
    data = content.encode() if isinstance(content, str) else content
    with replacing(path) as temporary:
        if temporary == path:
            _write_after(path, data)
        else:
            temporary.write_bytes(data)


def _write_after(path: Path, data: bytes) -> None:
    """Write to something that is not a file, after what it already contains.

    Standard output and error are written to as we have them open: otherwise, other
    processes that share them would overwrite what is written now.
    """
    sys.stdout.flush()
    seen = path.stat()
    own = next((each for each in (1, 2) if _is_open_on(each, seen)), None)
    with path.open("ab") if own is None else open(own, "wb", closefd=False) as file:
        file.write(data)


def _is_open_on(handle: int, seen: os.stat_result) -> bool:
    with suppress(OSError):  # closed
        return os.path.samestat(os.fstat(handle), seen)
    return False


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to; the file there replaces ``path`` when it is complete.

    Several may write the same file at once: each has a temporary file of its own, and
    the last one to be done stays. After an error none is left.

    Args:
        path: The file. A link stays, and what it leads to is replaced. What is no file,
            such as a device, a pipe or /dev/stdout, is given as it is.
    """
    with blamed_on(path):
        place = _find_place(path)
        if place is None:
            yield path
            return
        # Processes on two machines that share a folder may have the same number.
        own = f"{os.getpid()}-{secrets.token_hex(4)}"
        # Systems allow names of 255 bytes, and a character takes up to four.
        temporary = place.with_name(f"{place.name[:50]}.{own}.partial")
        try:
            yield temporary
            if place.exists():
                temporary.chmod(stat.S_IMODE(place.stat().st_mode))
            temporary.replace(place)
        except BaseException:
            with suppress(OSError):  # why it could not be written says more
                temporary.unlink()
            raise


_OPEN_FILES = re.compile(r"/dev/fd|/proc/.*/fd")
"""Folders whose entries are files that a process has open."""


def _find_place(path: Path) -> Path | None:
    """Return where the file is that ``path`` leads to; None where it is no file.

    One that was opened for us, as a shell opens standard output, does not count:
    other processes that write to it would keep the old one.

    Raises:
        OSError: It is a folder, or cannot be looked at.
    """
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            return None
    place = path
    while True:
        if _OPEN_FILES.fullmatch(str(place.parent.resolve())):
            return None
        if not place.is_symlink():
            return place
        place = place.parent / place.readlink()


@contextmanager
def blamed_on(path: Path) -> Iterator[None]:
    """Let errors name ``path`` instead of the temporary file that will replace it.

    Raises:
        OSError: Instead of one about another file; of the same kind.
    """
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def lock_folder(folder: Path, *, waits: bool = False) -> Iterator[None]:
    """Lock ``folder`` against other processes of this package; create it if needed.

    The lock is on the folder itself and ends with its process, however that ends. A
    system without such locks goes without.

    Args:
        folder: The folder.
        waits: Wait for another process that has it; for what takes a moment.

    Raises:
        RunError: Another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, folder, waits=waits)
        yield
    finally:
        os.close(handle)


def lock_file(handle: int, path: Path) -> None:
    """Lock an open file against other processes of this package, while it is open.

    Raises:
        RunError: Another process has it.
    """
    if sys.platform != "win32":
        _lock(handle, path, waits=False)


if sys.platform != "win32":
    import fcntl

    def _lock(handle: int, folder: Path, *, waits: bool) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            raise RunError(
                f"{folder}: another process is writing to it; wait until it is done"
            ) from None
        except OSError:
            return  # a file system without locks
