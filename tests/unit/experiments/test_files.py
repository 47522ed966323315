from pathlib import Path

import pytest

from fediac.errors import ConfigError, RunError
from fediac.experiments.files import lock_folder, require_folder, write_whole
from fediac.experiments.run import run_experiment
from tests.support import refuses
from tests.tiny import make_settings


def test_a_file_is_replaced_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    write_whole(path, "old β\n")
    assert path.read_bytes() == "old β\n".encode()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            write_whole(path, "new\n")
    assert path.read_text() == "old β\n"
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]
    write_whole(path, "new\n")
    assert path.read_text() == "new\n"
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("dies_in", ["write_bytes", "replace"])
def test_a_file_that_could_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    def fill_disk(path: Path, _: object) -> None:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, dies_in, fill_disk)
    with pytest.raises(OSError, match="No space left on device"):
        write_whole(tmp_path / "table.md", "new\n")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "table1.md"
    path.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_whole(path, "new\n")
    assert caught.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == ["table1.md"]
    (tmp_path / "results").touch()
    path = tmp_path / "results" / "table1.md"
    with pytest.raises(NotADirectoryError) as caught_below:
        write_whole(path, "new\n")
    assert caught_below.value.filename == str(path)


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    write_whole(path, b"\x89PNG\r\n\xff")
    assert path.read_bytes() == b"\x89PNG\r\n\xff"


def test_two_who_write_one_file_do_not_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.md"
    replace = Path.replace

    def write_meanwhile(temporary: Path, target: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replace)
            write_whole(path, "the other's\n")
        replace(temporary, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", write_meanwhile)
        write_whole(path, "own\n")
    assert path.read_text() == "own\n"
    assert list(tmp_path.iterdir()) == [path]


def test_results_go_to_a_folder_or_where_one_can_be_made(tmp_path: Path) -> None:
    for out in (tmp_path, tmp_path / "new", tmp_path / "new" / "deep", Path("new")):
        require_folder(out)
    assert list(tmp_path.iterdir()) == []


def test_results_cannot_go_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "afile"
    path.touch()
    with refuses(f"--out must be a folder, got {path}, which is a file", ConfigError):
        require_folder(path)
    deep = path / "new" / "deep"
    message = f"--out must be a folder, got {deep} below {path}, which is a file"
    with refuses(message, ConfigError):
        require_folder(deep)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "gone")
    with refuses(f"--out must be a folder, got {link}, which is a file", ConfigError):
        require_folder(link)


def test_a_folder_belongs_to_one_until_it_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    with lock_folder(folder):
        with (
            refuses(
                f"{folder}: another process is writing to it; wait until it is done",
                RunError,
            ),
            lock_folder(folder),
        ):
            pass
        with lock_folder(tmp_path / "made"):  # its neighbours do not
            pass
    with lock_folder(folder):
        assert list(folder.iterdir()) == []


def test_a_folder_that_belongs_to_somebody_is_not_run_in(tmp_path: Path) -> None:
    settings, folder = make_settings(tmp_path / "data"), tmp_path / "run"
    with lock_folder(folder), pytest.raises(RunError):
        run_experiment(settings, folder, resumes=False)
    assert list(folder.iterdir()) == []
    run_experiment(settings, folder, resumes=False)
    with pytest.raises(ConfigError):
        run_experiment(settings, folder, resumes=False)
