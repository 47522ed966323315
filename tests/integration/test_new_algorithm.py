"""An algorithm inside the package is one file and one line of the catalog."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from array_api_compat import array_namespace, device

from fediac.compressors import CATALOG, ErrorFeedback
from fediac.core.bitpack import pack_bits
from fediac.extend import (
    AsksSum,
    Conditions,
    Corrected,
    Expected,
    Max,
    Round,
    Share,
    State,
    Stream,
    Sum,
    Update,
    add_levels,
    count_share,
    scale_to_peak,
    unsent,
)
from tests.integration.command import Command, Result
from tests.tiny import write_config


@dataclass(frozen=True, slots=True)
class First(ErrorFeedback):
    """Add levels of the first entries.

    Attributes:
        n_first: Entries that are sent: a count, or a share of all entries.
        bits: Width of the sums.
    """

    n_first: Share = "10%"
    bits: int = 10

    def check_dim(self, dim: int) -> None:
        self._count(dim)

    def asks(self) -> Iterator[AsksSum]:
        yield AsksSum(((self.bits, self.bits),))

    def expect(self, conditions: Conditions) -> Iterator[tuple[Expected, ...]]:
        n_first = self._count(conditions.dim)
        yield (Expected(Max),)
        yield (Expected(Sum, n_first, n_first, self.bits),)

    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        peak, grid = yield from scale_to_peak(
            corrected, bits=self.bits, n_clients=self.n_clients
        )
        if grid is None:
            return unsent(corrected, state, n_votes=0, bits=self.bits, peak=peak)
        values = corrected.values
        dim = values.shape[0]
        order = array_namespace(values).arange(dim, device=device(values))
        first = pack_bits(order < self._count(dim))
        added = yield from add_levels(corrected, first, grid, stream, kept=kept)
        return added.outcome(state, peak=peak, n_votes=0)

    def _count(self, dim: int) -> int:
        return count_share("n_first", self.n_first, of=dim, what="dim")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings of a tiny run, in a package that has one more algorithm."""
    monkeypatch.setitem(CATALOG, "first", First)
    return write_config(
        tmp_path,
        algorithm="first",
        train={"steps": 2},
        stop={"rounds": 2},
        first={"n_first": "20%"},
    )


def test_it_runs_with_the_settings_of_its_table(
    fediac: Command, config: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    found = fediac.json("run", config, f"--out={out}", "--set=first.fade=0.1")
    assert (found["algorithm"], found["rounds"]) == ("first", 2)
    written = tomllib.loads((out / "config.toml").read_text())["first"]
    assert written == {"n_first": "20%", "bits": 10, "residual": True, "fade": 0.1}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "first.n_frst=3",
            "--set: unknown key 'n_frst' in [first]; did you mean 'n_first'?",
        ),
        ("first.bits=wide", "--set: first.bits must be a whole number, got 'wide'"),
        ("first.n_first=476", "first.n_first must be in 1..475 (dim), got 476"),
        ("first.fade=1.0", "first.fade must be at least 0 and below 1, got 1.0"),
    ],
)
def test_its_settings_are_refused_by_their_names(
    fediac: Command, config: Path, tmp_path: Path, override: str, message: str
) -> None:
    result = fediac("run", config, f"--out={tmp_path / 'run'}", f"--set={override}")
    assert result == Result(2, "", f"error: {message}\n")


def test_it_is_compared_with_the_others(
    fediac: Command, config: Path, tmp_path: Path
) -> None:
    found = fediac.json(
        *("compare", config, f"--out={tmp_path / 'both'}"),
        *("--algorithms=first,switchml", "--set=network.memory=bounded"),
    )
    names = [each["algorithm"] for each in found["algorithms"]]
    assert sorted(names) == ["first", "switchml"]


@pytest.mark.usefixtures("config")
def test_it_is_simulated_listed_and_tried(fediac: Command) -> None:
    options = ("--dim=20000", "--clients=3", "--set=n_first=5%")
    found = fediac.json("simulate", "--algorithm=first", *options)
    assert [each["items_up"] for each in found["exchanges"]] == [0, 1000]
    points = fediac.json("motivation", "--sizes=1000", "--clients=3")["points"]
    assert "first" in [each["algorithm"] for each in points]
    rows = fediac.json("round", "--dim=1000", "--clients=3", "--algorithms=first")
    assert rows["rows"][0]["chosen"] == 100
    listed = fediac.json("list")["algorithms"]
    summary = "Add levels of the first entries"
    assert {"name": "first", "summary": summary} in listed
    keys = {each["key"]: each for each in fediac.json("list", "settings")["settings"]}
    assert keys["first.n_first"]["default"] == "10%"
    assert keys["first.fade"]["meaning"].startswith("Share of the residual")
