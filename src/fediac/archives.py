"""Many small files in one: a zip archive that is read like the folder it stands for.

``runs/digits.zip/fediac/seed1`` is a path like any other: the archive is where a folder
``runs/digits`` would be, and holds the paths below it.
"""

import errno
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from fediac.errors import RunError
from fediac.files import lock_folder, replacing

SUFFIX = ".zip"

Place: TypeAlias = Path | zipfile.Path
"""A file or folder, on disk or inside an archive."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
_REGULAR_FILE = 0o100644 << 16


def open_place(path: Path) -> Place:
    """Return where a path leads: to itself, or into an archive that is part of it.

    Raises:
        RunError: The archive is damaged.
    """
    if path.suffix != SUFFIX and path.exists():
        return path
    for archive in (path, *path.parents):
        if archive.suffix == SUFFIX and archive.is_file():
            inside = "/".join(path.relative_to(archive).parts)
            root = _open(archive)
            return root.joinpath(inside) if inside else root
    return path


def _open(archive: Path) -> zipfile.Path:
    try:
        return zipfile.Path(archive)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise RunError(f"{archive}: not a zip archive ({error})") from None


def read_bytes(place: Place) -> bytes:
    """Return what is in a file.

    Raises:
        OSError: It cannot be read.
        RunError: It is damaged in its archive.
    """
    if not place.is_file() and not isinstance(place, Path):
        reason = errno.EISDIR if place.is_dir() else errno.ENOENT
        raise OSError(reason, os.strerror(reason), str(place))
    try:
        return place.read_bytes()
    except (zipfile.BadZipFile, zlib.error) as error:
        raise RunError(f"{place}: damaged ({error})") from None


def find_below(place: Place, pattern: str) -> list[PurePosixPath]:
    """Return the files below a place, in order: their paths from there.

    Args:
        place: A folder.
        pattern: Names with slashes between them; ``*`` stands for any one of them.
    """
    if isinstance(place, Path):
        found = (PurePosixPath(each.relative_to(place)) for each in place.glob(pattern))
        return sorted(found)
    start = PurePosixPath(place.at)
    names = map(PurePosixPath, place.root.namelist())
    inside = (each.relative_to(start) for each in names if each.is_relative_to(start))
    depth = pattern.count("/") + 1
    return sorted(
        each for each in inside if len(each.parts) == depth and each.match(pattern)
    )


def read_archive(archive: Path) -> dict[str, bytes]:
    """Return all files in an archive by name; none before there is one.

    Raises:
        RunError: It is damaged.
    """
    if not archive.exists():
        return {}
    root = _open(archive)
    files = (root.joinpath(name) for name in root.root.namelist())
    return {each.at: read_bytes(each) for each in files if each.is_file()}


def write_archive(archive: Path, files: Mapping[str, bytes]) -> None:
    """Replace an archive; the same files give the same bytes, whenever and wherever.

    Readers see the old one or all of the new, never a part.
    """
    with (
        replacing(archive) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out,
    ):
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, as permissions are
            info.external_attr = _REGULAR_FILE
            out.writestr(info, files[name], compresslevel=9)


def replace_folder(archive: Path, folder: str, files: Mapping[str, bytes]) -> None:
    """Put files into a folder of an archive, in place of all that was in it.

    Others may do the same at the same time: one waits for the other.
    """
    with lock_folder(archive.parent, waits=True):
        kept = {
            name: content
            for name, content in read_archive(archive).items()
            if not name.startswith(f"{folder}/")
        }
        added = {f"{folder}/{name}": content for name, content in files.items()}
        write_archive(archive, kept | added)
