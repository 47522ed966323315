from pathlib import Path

import pytest

from fediac.errors import ConfigError, RunError
from fediac.experiments.files import lock_folder, write_whole
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
    write_whole(path, "new\n")
    assert path.read_text() == "new\n"
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


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
