"""Official archives from the web: fetched, checked and unpacked, or not at all."""

import gzip
import hashlib
import shutil
import sys
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from fediac.errors import DatasetError, say_reason
from fediac.training.datasets.file_checks import refuse

_TIMEOUT_S = 30.0
_BLOCK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Archive:
    """A published .tar.gz file, and which of its files are wanted.

    Attributes:
        md5: The checksum its publisher gives.
        folder: Folder of the wanted files, in the archive and in the data folder.
        sizes: Wanted file -> its bytes.
    """

    url: str
    md5: str
    folder: str
    sizes: Mapping[str, int]


def download(archive: Archive, into: Path) -> None:
    """Put an archive's wanted files into ``into / archive.folder``.

    Everything happens in a temporary folder beside it; a file appears under its name
    only when the archive's checksum and the file's size were right. Of the archive
    nothing else is unpacked, whatever it holds.

    Raises:
        DatasetError: The archive cannot be had, or is not the published one.
    """
    target = into / archive.folder
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=into) as temporary:
            packed = Path(temporary) / "archive.tar.gz"
            _fetch(archive, packed, target)
            unpacked = Path(temporary) / "files"
            unpacked.mkdir()
            _unpack(archive, packed, unpacked)
            for name in archive.sizes:
                (unpacked / name).replace(target / name)
    except OSError as error:
        raise DatasetError(
            f"cannot store {archive.url} in {into}: {say_reason(error)}"
        ) from error


def _fetch(archive: Archive, packed: Path, target: Path) -> None:
    """Download into ``packed`` and check the whole file's checksum."""
    # The publisher gives MD5: it tells damage, and the transport is HTTPS.
    digest = hashlib.md5(usedforsecurity=False)
    n_bytes = 0
    with packed.open("wb") as file, _progress() as progress:
        task = progress.add_task(archive.url.rsplit("/", 1)[-1], total=None)
        for block, total in _blocks(archive, target):
            file.write(block)
            digest.update(block)
            n_bytes += len(block)
            progress.update(task, completed=n_bytes, total=total)
    if digest.hexdigest() != archive.md5:
        raise DatasetError(
            f"{archive.url}: expected MD5 {archive.md5}, "
            f"found {digest.hexdigest()} ({n_bytes:,} bytes)"
        )


def _blocks(archive: Archive, target: Path) -> Iterator[tuple[bytes, int | None]]:
    """Yield the archive's bytes, with their total number if the server gives it."""
    try:
        with urllib.request.urlopen(archive.url, timeout=_TIMEOUT_S) as response:
            length = response.headers.get("Content-Length")
            total = int(length) if length and length.isdecimal() else None
            while block := response.read(_BLOCK_BYTES):
                yield block, total
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DatasetError(
            f"cannot download {archive.url} ({reason}); "
            f"put {', '.join(archive.sizes)} into {target} by hand"
        ) from error


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def _unpack(archive: Archive, packed: Path, unpacked: Path) -> None:
    """Copy the wanted files out of the archive, by name and size."""
    found = set()
    try:
        with tarfile.open(packed, "r:gz") as tar:
            for member in tar:
                folder, _, name = member.name.removeprefix("./").rpartition("/")
                if folder != archive.folder or name not in archive.sizes:
                    continue
                content = tar.extractfile(member) if member.isfile() else None
                if content is None or member.size != archive.sizes[name]:
                    raise refuse(
                        Path(member.name),
                        f"a file of {archive.sizes[name]:,} bytes in {archive.url}",
                        f"{member.size:,}",
                    )
                _copy(content, unpacked / name)
                found.add(name)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DatasetError(f"{archive.url}: not a whole .tar.gz file") from error
    missing = [name for name in archive.sizes if name not in found]
    if missing:
        raise DatasetError(f"{archive.url}: {', '.join(missing)} not in the archive")


def _copy(content: IO[bytes], target: Path) -> None:
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file)
