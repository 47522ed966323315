"""Which runs repeat each other, and which differences make a comparison doubtful."""

from pathlib import Path

import pytest

from fediac.report.differences import are_repeats, differing
from fediac.report.reading import read_runs
from fediac.runs.stored import Run
from tests.runs import write_run


def _read(folder: Path, text: str, instead: str) -> list[Run]:
    """Return two runs with unlike seeds, one of them with other settings too."""
    write_run(folder / "a", "fediac", n_rounds=1)
    path = write_run(folder / "b", "fediac", n_rounds=1, seed=2) / "config.toml"
    assert text in path.read_text()
    path.write_text(path.read_text().replace(text, instead))
    return read_runs([folder])[0]


def test_another_seed_makes_a_comparison_doubtful(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fediac", n_rounds=1)
    write_run(tmp_path / "b", "libra", n_rounds=1, seed=2)
    runs, _ = read_runs([tmp_path])
    assert differing(runs) == ["seed"]
    assert not are_repeats(runs)


def test_the_same_run_once_more_is_no_repeat_by_another_seed(tmp_path: Path) -> None:
    for name in "ab":
        write_run(tmp_path / name, "fediac", n_rounds=1)
    runs, _ = read_runs([tmp_path])
    assert not are_repeats(runs)


def test_a_run_without_a_summary_has_no_other_partition(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fediac", n_rounds=1)
    write_run(tmp_path / "b", "libra", n_rounds=1, has_summary=False)
    runs, _ = read_runs([tmp_path])
    assert differing(runs) == []


def test_a_setting_that_is_newer_than_a_run_had_its_default(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fediac", n_rounds=1)
    path = write_run(tmp_path / "b", "libra", n_rounds=1) / "config.toml"
    text = path.read_text()
    assert "weights" not in text
    for value, found in (("equal", []), ("examples", ["clients.weights"])):
        changed = text.replace("[clients]\n", f'[clients]\nweights = "{value}"\n')
        assert changed != text
        path.write_text(changed)
        assert differing(read_runs([tmp_path])[0]) == found


def test_one_run_repeats_nothing(tmp_path: Path) -> None:
    runs, _ = read_runs([write_run(tmp_path / "a", "fediac", n_rounds=1)])
    assert not are_repeats(runs)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("rounds = 24", "simulated_s = 3.0"),
        ('fediac = "0.1.0"', 'fediac = "0.2.0"'),
        ("[switchml]\nbits = 12", "[switchml]\nbits = 14"),
        ("threshold = 3", "threshold = 3\nentries_per_vote = 1"),
    ],
)
def test_repeats_may_differ_in_what_changes_no_round(
    tmp_path: Path, text: str, instead: str
) -> None:
    assert are_repeats(_read(tmp_path, text, instead))


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("threshold = 3", "threshold = 4"),
        ("threshold = 3", "threshold = 3\nentries_per_vote = 16"),
        ("lr = 0.1", "lr = 0.2"),
        ('algorithm = "fediac"', 'algorithm = "fedavg"'),
    ],
)
def test_runs_with_other_settings_are_no_repeats(
    tmp_path: Path, text: str, instead: str
) -> None:
    assert not are_repeats(_read(tmp_path, text, instead))


def test_another_partition_by_another_seed_is_a_repeat(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fediac", n_rounds=1)
    path = write_run(tmp_path / "b", "fediac", n_rounds=1, seed=2) / "summary.json"
    path.write_text(path.read_text().replace("a1b2", "c3d4"))
    runs, _ = read_runs([tmp_path])
    assert "partition.sha256" in differing(runs)
    assert are_repeats(runs)
