"""Downloads over a real connection to a server on this machine."""

import errno
import hashlib
import io
import os
import re
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fediac.errors import DatasetError
from fediac.training.datasets.cifar import CIFAR10, CIFAR100, Release, read_cifar
from fediac.training.datasets.download import Archive, download
from tests.unit.training.files import cifar_records, small

WANTED = {"one.bin": 3, "two.bin": 5}
CONTENT = {"set/one.bin": b"abc", "set/two.bin": b"defgh"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None:
        pass


class Site:
    """A web server that offers the files of a folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url

    def publish(self, content: bytes, *, name: str = "set.tar.gz") -> Archive:
        (self._folder / name).write_bytes(content)
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return Archive(f"{self._url}/{name}", md5, "set", WANTED)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder = tmp_path / "site"
    folder.mkdir()
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Site(folder, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "data"


def pack(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refuses(archive: Archive, data: Path, text: str) -> None:
    """The download fails with this text and leaves no file behind."""
    with pytest.raises(DatasetError, match=f"^{re.escape(text)}$"):
        download(archive, data)
    assert files_in(data) == {}


def test_wanted_files_arrive_and_nothing_else(site: Site, data: Path) -> None:
    extra = {
        "set/readme.html": b"hello",
        "../escaped.bin": b"out",
        "/absolute/one.bin": b"out",
        "set/../one.bin": b"out",
        "set/deeper/one.bin": b"out",
    }
    download(site.publish(pack(CONTENT | extra)), data)
    assert files_in(data) == CONTENT
    assert not list(data.parent.glob("*.bin"))


def test_missing_file_is_replaced_beside_others(site: Site, data: Path) -> None:
    (data / "set").mkdir(parents=True)
    (data / "set" / "one.bin").write_bytes(b"old")
    (data / "set" / "notes").write_bytes(b"mine")
    download(site.publish(pack(CONTENT)), data)
    assert files_in(data) == CONTENT | {"set/notes": b"mine"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_sees_a_progress_bar(
    site: Site, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)
    monkeypatch.delenv("TTY_INTERACTIVE", raising=False)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    download(site.publish(pack(CONTENT)), data)
    assert "set.tar.gz" in terminal.getvalue()


def test_pipe_sees_nothing(
    site: Site, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    download(site.publish(pack(CONTENT)), data)
    assert capsys.readouterr() == ("", "")


def test_wrong_checksum_leaves_nothing(site: Site, data: Path) -> None:
    archive = site.publish(pack(CONTENT))
    n_bytes = len(pack(CONTENT))
    refuses(
        replace(archive, md5="0" * 32),
        data,
        f"{archive.url}: expected MD5 {'0' * 32}, found {archive.md5} "
        f"({n_bytes} bytes)",
    )


def test_file_of_the_wrong_size_is_named(site: Site, data: Path) -> None:
    archive = site.publish(pack(CONTENT | {"set/two.bin": b"toolong"}))
    refuses(
        archive,
        data,
        f"set/two.bin: expected a file of 5 bytes in {archive.url}, found 7",
    )


def test_link_in_a_files_place_is_refused(site: Site, data: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        link = tarfile.TarInfo("set/one.bin")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/hostname"
        tar.addfile(link)
    archive = site.publish(stream.getvalue())
    refuses(
        archive,
        data,
        f"set/one.bin: expected a file of 3 bytes in {archive.url}, found 0",
    )


def test_incomplete_archive_is_named(site: Site, data: Path) -> None:
    archive = site.publish(pack({"set/one.bin": b"abc"}))
    refuses(archive, data, f"{archive.url}: two.bin not in the archive")


@pytest.mark.parametrize("keep", [0, 10, 60])
def test_damaged_archive_is_named(site: Site, data: Path, keep: int) -> None:
    archive = site.publish(pack(CONTENT)[:keep])
    refuses(archive, data, f"{archive.url}: not a whole .tar.gz file")


def test_absent_page_tells_where_to_put_the_files(site: Site, data: Path) -> None:
    archive = site.publish(pack(CONTENT))
    archive = replace(archive, url=archive.url + ".old")
    refuses(
        archive,
        data,
        f"cannot download {archive.url} (File not found); "
        f"put one.bin, two.bin into {data / 'set'} by hand",
    )


def test_offline_machine_is_told_where_to_put_the_files(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        port = server.server_port
    # The server is gone: nobody answers there.
    refused = errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)
    archive = Archive(f"http://127.0.0.1:{port}/set.tar.gz", "", "set", WANTED)
    refuses(
        archive,
        data,
        f"cannot download {archive.url} ({ConnectionRefusedError(*refused)}); "
        f"put one.bin, two.bin into {data / 'set'} by hand",
    )


def test_folder_that_cannot_be_written_is_named(site: Site, data: Path) -> None:
    data.parent.mkdir()
    data.write_bytes(b"a file in the folder's place")
    archive = site.publish(pack(CONTENT))
    text = f"cannot store {archive.url} in {data}: not a directory"
    with pytest.raises(DatasetError, match=f"^{re.escape(text)}$"):
        download(archive, data)


@pytest.mark.parametrize(
    "release", [CIFAR10, CIFAR100], ids=lambda release: release.name
)
def test_missing_set_is_downloaded_once(
    release: Release, site: Site, data: Path
) -> None:
    release = small(release)
    folder = release.archive.folder
    files = {
        f"{folder}/{name}": cifar_records(release, seed).tobytes()
        for seed, name in enumerate(release.archive.sizes)
    }
    published = site.publish(pack(files))
    archive = replace(release.archive, url=published.url, md5=published.md5)
    release = replace(release, archive=archive)
    first = read_cifar(release, data, may_download=True)
    assert files_in(data) == files
    site.publish(b"gone")
    assert read_cifar(release, data, may_download=True).sha256 == first.sha256
