import builtins
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fediac.errors import ConfigError
from fediac.runs.loop import run_experiment
from fediac.runs.settings import SaveSettings
from fediac.runs.stored import read_run
from fediac.runs.tensorboard import FOLDER, open_log
from tests.support import refuses
from tests.tiny import make_settings, read_lines


def read_scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Return name -> round -> value, as TensorBoard would show them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / FOLDER))
    events.Reload()
    return {
        name: {event.step: event.value for event in events.Scalars(name)}
        for name in events.Tags()["scalars"]
    }


def test_a_run_is_logged_only_if_asked(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "data", stop={"rounds": 1})
    run_experiment(settings, tmp_path / "run", resumes=False)
    assert not (tmp_path / "run" / FOLDER).exists()


def test_logs_show_every_round_once_whatever_happened(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    folder = tmp_path / "run"

    def run(n_rounds: int, *, resumes: bool) -> None:
        save = {"tensorboard": True, "checkpoint_every": 2}
        stop = {"rounds": n_rounds}
        settings = make_settings(tmp_path / "data", stop=stop, save=save)
        run_experiment(settings, folder, resumes=resumes)

    run(2, resumes=False)
    # A round after the last checkpoint, as a run that is killed leaves it.
    with open_log(folder, SaveSettings(tensorboard=True), 2) as log:
        run_so_far = read_run(folder)
        assert run_so_far is not None
        log(replace(run_so_far.last, number=3, accuracy=0.125, loss=None))
    run(4, resumes=True)
    scalars = read_scalars(folder)
    lines = read_lines(folder)
    for name in ("accuracy", "loss", "train_loss", "gamma", "chosen", "bits"):
        expected = {line["round"]: pytest.approx(line[name]) for line in lines}
        assert scalars[name] == expected
    assert scalars["traffic/payload_mib"][4] == pytest.approx(lines[3]["payload_mib"])
    assert scalars["time_s/fast"][4] == pytest.approx(lines[3]["time_s"]["fast"])


def test_without_tensorboard_the_way_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = builtins.__import__

    def refuse(name: str, *args: Any, **named: Any) -> Any:
        if name == "torch.utils.tensorboard":
            raise ImportError(name)
        return really(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    text = "save.tensorboard needs TensorBoard: pip install 'fediac[tensorboard]'"
    with refuses(text, ConfigError), open_log(tmp_path, SaveSettings(1, True), 0):  # noqa: FBT003 - the setting
        pass
