import os
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from fediac.archives import (
    find_below,
    open_place,
    read_archive,
    read_bytes,
    replace_folder,
    write_archive,
)
from fediac.errors import RunError
from tests.support import refuses

FILES = {"b/seed1/x.txt": b"1", "a/seed10/x.txt": b"22", "a/seed1/y.txt": b""}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "runs.zip"
    write_archive(path, FILES)
    return path


def test_files_are_read_by_their_paths_through_the_archive(archive: Path) -> None:
    assert read_archive(archive) == FILES
    for name, content in FILES.items():
        assert read_bytes(open_place(archive / name)) == content
    assert open_place(archive / "a").is_dir()
    assert not open_place(archive / "c").exists()


def test_the_same_files_give_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.zip"
    write_archive(other, dict(reversed(FILES.items())))
    assert other.read_bytes() == archive.read_bytes()
    with zipfile.ZipFile(archive) as inside:
        assert inside.namelist() == sorted(FILES)


def test_paths_that_lead_into_no_archive_are_what_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "folder.zip"  # whatever its name says
    folder.mkdir()
    (folder / "x.txt").write_bytes(b"3")
    for path in (folder / "x.txt", folder, tmp_path / "none.zip" / "x.txt"):
        assert open_place(path) == path
    assert read_bytes(open_place(folder / "x.txt")) == b"3"


@pytest.mark.parametrize(
    ("name", "kind"), [("c/x.txt", FileNotFoundError), ("a", IsADirectoryError)]
)
def test_what_is_no_file_is_named(
    archive: Path, name: str, kind: type[OSError]
) -> None:
    with pytest.raises(kind) as caught:
        read_bytes(open_place(archive / name))
    assert Path(caught.value.filename) == archive / name


def test_files_below_are_found_alike_in_folders_and_archives(archive: Path) -> None:
    folder = archive.with_suffix("")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    for start, pattern, names in (
        ("", "*/*/x.txt", ["a/seed10/x.txt", "b/seed1/x.txt"]),
        ("", "*/x.txt", []),
        ("a", "*/x.txt", ["seed10/x.txt"]),
        ("a/seed1", "y.txt", ["y.txt"]),
    ):
        expected = [PurePosixPath(name) for name in names]
        for top in (folder, archive):
            assert find_below(open_place(top / start), pattern) == expected


def test_a_folder_is_replaced_as_a_whole_and_the_others_stay(archive: Path) -> None:
    replace_folder(archive, "a/seed1", {"z.txt": b"new"})
    kept = {name: FILES[name] for name in ("b/seed1/x.txt", "a/seed10/x.txt")}
    assert read_archive(archive) == kept | {"a/seed1/z.txt": b"new"}
    new = archive.with_name("new.zip")
    replace_folder(new, "a", {"z.txt": b"new"})
    assert read_archive(new) == {"a/z.txt": b"new"}


def test_an_archive_that_cannot_be_written_stays_as_it_was(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = archive.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(zipfile.ZipFile, "writestr", fail)
    with pytest.raises(OSError, match="No space left"):
        replace_folder(archive, "a/seed1", {"z.txt": b"new"})
    assert archive.read_bytes() == before
    assert list(archive.parent.iterdir()) == [archive]


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    path.write_bytes(b"no zip")
    with refuses(f"{path}: not a zip archive (File is not a zip file)", RunError):
        open_place(path / "a")
