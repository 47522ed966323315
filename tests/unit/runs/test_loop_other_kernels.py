"""A run that goes on with other kernels or elsewhere: refused, or noted."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fediac import native
from fediac.api.several_runs import compare_algorithms
from fediac.errors import ConfigError
from fediac.runs import versions
from fediac.runs.loop import run_experiment
from fediac.runs.records import CHECKPOINT, CONFIG, Summary
from fediac.runs.stored import read_run
from fediac.runs.versions import describe_training, describe_versions
from tests.planes import require_native
from tests.support import refuses
from tests.tiny import make_settings, read_lines

HINT = (
    "going on would give other last bits; add --allow-other-kernels to go on all the "
    "same"
)


def run(folder: Path, n_rounds: int, **manner: Any) -> Summary:
    settings = make_settings(folder.parent / "data", stop={"rounds": n_rounds})
    return run_experiment(settings, folder, resumes=n_rounds > 1, **manner)


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def stored_versions(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / CONFIG).read_text())["versions"]
    return found


def notes_of(folder: Path) -> tuple[str, ...]:
    found = read_run(folder)
    assert found is not None
    return found.notes


def no_kernels(patch: pytest.MonkeyPatch) -> tuple[str, str]:
    patch.setattr(versions, "name_kernels", lambda _: "none")
    return "kernels", "none"


def another_processor(patch: pytest.MonkeyPatch) -> tuple[str, str]:
    patch.setattr(versions, "name_machine", lambda _: "Another CPU")
    return "machine", "Another CPU"


def narrow_vectors(patch: pytest.MonkeyPatch) -> tuple[str, str]:
    patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    return "torch_cpu", "DEFAULT"


def another_torch(patch: pytest.MonkeyPatch) -> tuple[str, str]:
    patch.setattr(torch, "__version__", "1.2.3")
    return "torch", "1.2.3"


CHANGES = [no_kernels, another_processor, narrow_vectors, another_torch]
Change = Callable[[pytest.MonkeyPatch], tuple[str, str]]


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_goes_on_elsewhere_only_if_told_to_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    require_native()
    folder = tmp_path / "run"
    run(folder, 1)
    before = contents(folder)
    had = stored_versions(folder)
    key, now = change(monkeypatch)
    differs = f"{key} was {had[key]!r}, got {now!r}"
    with refuses(f"{folder / CONFIG}: {differs}; {HINT}", ConfigError):
        run(folder, 3)
    assert contents(folder) == before
    run(folder, 3, allows_other_kernels=True)
    assert len(read_lines(folder)) == 3
    found = stored_versions(folder)
    assert found["earlier"] == [had]
    assert found[key] == now
    assert found["went_on"] == f"after 1 round: {differs}"
    note = (
        f"it went on with other kernels or on another processor after 1 round: "
        f"{differs}; the last bits of what follows may be others."
    )
    assert notes_of(folder) == (note,)
    run(folder, 4)  # nothing has changed since: nobody need say so again
    assert len(read_lines(folder)) == 4
    assert notes_of(folder) == (note,)


def test_kernels_that_are_turned_off_are_others(tmp_path: Path) -> None:
    require_native()
    run(tmp_path / "run", 1)
    config = tmp_path / "run" / CONFIG
    differs = f"kernels was {native.isa()!r}, got 'none'"
    with native.disabled(), refuses(f"{config}: {differs}; {HINT}", ConfigError):
        run(tmp_path / "run", 2)


def test_everything_that_differs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "run", 1)
    had = stored_versions(tmp_path / "run")
    another_processor(monkeypatch)
    narrow_vectors(monkeypatch)
    with refuses(
        f"{tmp_path / 'run' / CONFIG}: torch_cpu was {had['torch_cpu']!r}, got "
        f"'DEFAULT', machine was {had['machine']!r}, got 'Another CPU'; {HINT}",
        ConfigError,
    ):
        run(tmp_path / "run", 2)


def test_the_same_machine_goes_on_without_a_word(tmp_path: Path) -> None:
    for n_rounds in (1, 2, 3):
        run(tmp_path / "run", n_rounds, allows_other_kernels=n_rounds == 2)
    assert not {"went_on", "earlier"} & stored_versions(tmp_path / "run").keys()
    assert notes_of(tmp_path / "run") == ()


def test_a_run_that_is_over_is_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    run(folder, 2)
    before = stored_versions(folder)
    another_processor(monkeypatch)
    assert run(folder, 2).rounds == 2
    assert stored_versions(folder) == before
    with pytest.raises(ConfigError):
        run(folder, 3)


def test_a_run_without_a_checkpoint_begins_anew_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    run(folder, 1)
    (folder / CHECKPOINT).unlink()
    (folder / "summary.json").unlink()
    another_processor(monkeypatch)
    run(folder, 2)
    assert "went_on" not in stored_versions(folder)
    assert notes_of(folder) == ()


def test_what_an_older_version_did_not_write_down_is_taken_for_the_same(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    run(folder, 1)
    config = folder / CONFIG
    lines = config.read_text().splitlines(keepends=True)
    known = [line for line in lines if not line.startswith(("torch_cpu", "kernels"))]
    assert len(known) == len(lines) - 2
    config.write_text("".join(known))
    run(folder, 2)
    assert "went_on" not in stored_versions(folder)


def test_a_comparison_goes_on_elsewhere_only_if_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(n_rounds: int, **manner: Any) -> None:
        settings = make_settings(tmp_path / "data", stop={"rounds": n_rounds})
        compare_algorithms(
            settings,
            ["topk", "fedavg"],
            tmp_path / "all",
            resumes=n_rounds > 1,
            **manner,
        )

    compare(1)
    key, now = another_processor(monkeypatch)
    config = tmp_path / "all" / "topk" / CONFIG
    had = stored_versions(config.parent)[key]
    with refuses(f"{config}: {key} was {had!r}, got {now!r}; {HINT}", ConfigError):
        compare(2)
    assert len(read_lines(config.parent)) == 1
    compare(2, allows_other_kernels=True)
    for name in ("topk", "fedavg"):
        assert "went_on" in stored_versions(tmp_path / "all" / name)


def test_kernels_on_a_gpu_change_no_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
    assert describe_training("cuda") == {
        "machine": "Some GPU",
        "torch": str(torch.__version__),
    }
    assert "kernels" in describe_versions("cuda")
