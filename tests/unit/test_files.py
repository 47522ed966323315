import os
import subprocess
import sys
from pathlib import Path

import pytest

from fediac.errors import ConfigError, RunError
from fediac.files import lock_folder, require_folder, write_whole
from fediac.runs.loop import run_experiment
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


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "stored").mkdir()
    target = tmp_path / "stored" / "table.md"
    target.write_text("old\n")
    second = tmp_path / "stored" / "latest.md"
    second.symlink_to("table.md")
    link = tmp_path / "link.md"
    link.symlink_to(second)
    write_whole(link, "new\n")
    assert link.is_symlink()
    assert second.is_symlink()
    assert target.read_text() == "new\n"
    assert set((tmp_path / "stored").iterdir()) == {target, second}
    target.unlink()  # a link that leads nowhere yet
    write_whole(link, "first\n")
    assert link.is_symlink()
    assert target.read_text() == "first\n"


@pytest.mark.parametrize("name", ["to-it", "afile/below"])
def test_links_that_lead_nowhere_are_named(tmp_path: Path, name: str) -> None:
    link = tmp_path / "link"
    link.symlink_to("link" if name == "to-it" else name)
    (tmp_path / "afile").touch()
    with pytest.raises(OSError) as caught:  # noqa: PT011 - systems differ
        write_whole(link, "new\n")
    assert caught.value.filename == str(link)
    assert link.is_symlink()


def test_a_device_is_written_to_and_stays() -> None:
    write_whole(Path(os.devnull), "gone\n")
    assert not Path(os.devnull).is_file()
    assert not list(Path("/dev").glob("null.*"))


def test_a_pipe_gets_all_of_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    handle = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "through\n")
        assert os.read(handle, 100) == b"through\n"
    finally:
        os.close(handle)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_file_that_is_open_gets_it_at_its_end(
    tmp_path: Path, name: str, mode: str
) -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs Linux's /proc")
    path = tmp_path / "all.txt"
    write = (
        "from pathlib import Path; from fediac.files import write_whole; "
        f"write_whole(Path({name!r}), 'here\\n'); print('after')"
    )
    with path.open(mode) as file:
        file.write("before\n")
        file.flush()
        subprocess.run([sys.executable, "-c", write], stdout=file, check=True)
    assert path.read_text() == "before\nhere\nafter\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_keeps_who_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old\n")
    path.chmod(0o600)
    write_whole(path, "new\n")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("letter", ["a", "字"])
def test_a_name_may_be_as_long_as_the_system_allows(
    tmp_path: Path, letter: str
) -> None:
    path = tmp_path / (letter * (255 // len(letter.encode())))
    write_whole(path, "whole\n")
    assert list(tmp_path.iterdir()) == [path]


def test_this_folder_is_no_file() -> None:
    with pytest.raises(IsADirectoryError):
        write_whole(Path("."), "new\n")


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
