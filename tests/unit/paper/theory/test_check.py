from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fediac.core.rng import Stream
from fediac.core.types import Array
from fediac.errors import ConfigError, RunError
from fediac.paper.theory.check import measure
from fediac.paper.theory.stored import (
    Measurement,
    load_measurement,
    save_measurement,
)
from fediac.runs.build import prepare_run
from fediac.runs.loop import run_experiment
from fediac.runs.observers import NoObserver
from fediac.runs.records import Round
from fediac.runs.settings import (
    ClientSettings,
    RunSettings,
    TrainSettings,
)
from fediac.runs.versions import name_machine
from tests.tiny import make_settings, read_lines


class Notes(NoObserver):
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def start(
        self, settings: RunSettings, n_clients: int, before: Round | None
    ) -> None:
        self.told.append((settings.stop.n_rounds, n_clients, before))

    def client_done(self) -> None:
        self.told.append("client")

    def round_done(self, record: Round) -> None:
        self.told.append(record.number)
        self.last = record


def n_entries(measurement: Measurement, number: int, name: str) -> float:
    """Add up a share of all bins as entries of a client."""
    check = {each.round_number: each for each in measurement.rounds}[number]
    shares = {
        "voted": [each.voted for each in check.bins],
        "chosen": [each.chosen.measured for each in check.bins],
    }
    lengths = [each.last - each.first + 1 for each in check.bins]
    return float(np.dot(shares[name], lengths))


def test_rounds_are_those_of_a_run_with_the_same_settings(tmp_path: Path) -> None:
    network = {"rates": ["paper"], "compute_s": 3.0}  # the trace goes on by seconds
    settings = make_settings(tmp_path / "data", network=network)
    notes = Notes()
    found = measure(settings, [3, 1], notes)
    run_experiment(settings, tmp_path / "run", resumes=False)
    lines = {line["round"]: line for line in read_lines(tmp_path / "run")}
    assert [each.round_number for each in found.rounds] == [1, 3]
    for each in found.rounds:
        line = lines[each.round_number]
        assert each.chosen.measured == line["chosen"] > 0
        assert each.gamma.measured == line["gamma"]
        assert (each.bits, each.peak) == (line["bits"], line["peak"])
        assert each.accuracy == line["accuracy"]
    assert notes.last.time_s == {"fast": lines[3]["time_s"]["fast"]}


def test_votes_and_chosen_by_rank_are_all_that_were_cast(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "data")
    found = measure(settings, [2])
    run_experiment(settings, tmp_path / "run", resumes=False)
    line = read_lines(tmp_path / "run")[1]
    n_clients = 3
    voted = n_entries(found, 2, "voted")
    assert voted * n_clients == pytest.approx(line["votes"], rel=1e-12)
    assert n_entries(found, 2, "chosen") == pytest.approx(line["chosen"], rel=1e-12)


def look_up(
    values: list[Array], masks: list[Array], first: int, last: int
) -> tuple[float, float]:
    """Return the mean magnitude and share of a mask over clients' own ranks."""
    orders = [
        np.argsort(-abs(each), kind="stable")[first - 1 : last] for each in values
    ]
    pairs = list(zip(values, masks, orders, strict=True))
    magnitudes = [abs(each[order]).mean() for each, _, order in pairs]
    shares = [mask[order].mean() for _, mask, order in pairs]
    return float(np.mean(magnitudes)), float(np.mean(shares))


def test_every_bin_is_what_the_corrected_updates_say(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "data")
    (check,) = measure(settings, [2]).rounds
    prepared = prepare_run(settings)
    federation = prepared.federation
    compressor = prepared.make_compressor()
    before = federation.run_round(federation.start(), compressor).progress
    done = federation.run_round(before, compressor)
    prepared.engine.close()

    n_votes = -(-federation.model.dim // 5)
    values, voted = [], []
    for client, trained in enumerate(done.trained):
        residual = before.states[client].residual
        assert residual is not None
        corrected = (trained.update + residual).numpy().astype(np.float64)
        stream = Stream(settings.seed, 2, client).purpose("votes")
        units = np.asarray(stream.words(0, len(corrected), like=corrected)) * 2.0**-32
        shares = abs(corrected) / abs(corrected).sum()
        values.append(corrected)
        voted.append(units < 1.0 - (1.0 - shares) ** n_votes)
    chosen = np.sum(voted, axis=0) >= 2
    for each in check.bins:
        magnitude, share = look_up(values, voted, each.first, each.last)
        assert each.magnitude == pytest.approx(magnitude, rel=1e-6)
        assert each.voted == pytest.approx(share, abs=1e-12)
        _, share = look_up(values, [chosen] * 3, each.first, each.last)
        assert each.chosen.measured == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize(
    "changes",
    [
        {"fediac": {"residual": False}},
        {"fediac": {"law": "draws"}},
        {"clients": {"n_clients": 6, "n_participants": "50%"}},
        {"fediac": {"bits": 9}, "tuning": "none"},
    ],
)
def test_other_settings_are_looked_at_as_they_run(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    settings = make_settings(tmp_path / "data", **changes)
    found = measure(settings, [3])
    assert found.rounds[0].n_clients == 3
    chosen = found.rounds[0].chosen.measured
    assert n_entries(found, 3, "chosen") == pytest.approx(chosen, rel=1e-12)


def test_a_watcher_is_told_about_every_round(tmp_path: Path) -> None:
    notes = Notes()
    settings = make_settings(tmp_path / "data", stop={"target": 0.01})
    measure(settings, [2], notes)
    clients = ["client"] * 3
    assert notes.told == [(2, 3, None), *clients, 1, *clients, 2]
    run_experiment(settings, tmp_path / "run", resumes=False)
    first = read_lines(tmp_path / "run")[0]
    assert notes.last.time_s["fast"] > first["time_s"]["fast"] > 0.0


@pytest.mark.parametrize(
    ("changes", "rounds", "message"),
    [
        (
            {"algorithm": "libra"},
            [1],
            "algorithm must be fediac to check its theory, got libra",
        ),
        (
            {"tuning": "server"},
            [1],
            "tuning must be local or none to check the theory, got server: its first "
            "round has no votes",
        ),
        (
            {"fediac": {"law": "topk"}},
            [1],
            "fediac.law must be bernoulli or draws to check the theory, got topk: it "
            "votes by another",
        ),
        (
            {"fediac": {"entries_per_vote": 8}},
            [1],
            "fediac.entries_per_vote must be 1 to check the theory, got 8: it is about "
            "single entries",
        ),
        (
            {"fediac": {"lanes": "words"}},
            [1],
            "fediac.lanes must be same or dense to check the theory, got words: its "
            "levels take what room is left",
        ),
        ({}, [], "rounds must name at least one round, from 1 on, got none"),
        ({}, [2, 0], "rounds must name at least one round, from 1 on, got 2, 0"),
    ],
)
def test_what_the_theory_does_not_speak_of_is_refused(
    tmp_path: Path, changes: dict[str, Any], rounds: list[int], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        measure(make_settings(tmp_path, **changes), rounds)
    assert str(caught.value) == message


def test_updates_without_a_law_are_an_error_that_names_the_client(
    tmp_path: Path,
) -> None:
    settings = make_settings(tmp_path, train={"lr": 1e-38})
    with pytest.raises(RunError) as caught:
        measure(settings, [1])
    assert str(caught.value) == (
        "client 0, round 1: no power law fits its update (values must have at least 2 "
        "non-zero entries to fit a power law, got 0)"
    )


def test_a_measurement_survives_its_file(tmp_path: Path) -> None:
    found = measure(make_settings(tmp_path / "data"), [1, 2])
    path = tmp_path / "theory.json"
    save_measurement(found, path)
    assert load_measurement(path) == found
    assert found.versions["machine"] == name_machine("cpu")


def furthest(mean: float) -> float:
    """Return how far a sum of coins may be from its mean, but for 1 in a million.

    Entries are agreed on independently of each other, so Bernstein's inequality holds,
    with a variance of at most the mean.
    """
    log_odds = log(2 / 1e-6)
    return sqrt(2.0 * mean * log_odds) + log_odds / 3.0


def test_digits_keep_what_own_ranks_promise_and_not_what_the_law_does() -> None:
    settings = RunSettings(
        clients=ClientSettings(n_clients=6),
        train=TrainSettings(steps=4, device="cpu"),
    )
    settings = settings.changed("fediac.threshold", 2)
    for check in measure(settings, [1, 2]).rounds:
        chosen = check.chosen
        assert abs(chosen.measured - chosen.own) <= furthest(chosen.own)
        # The control: fitted power laws miss by more than chance could.
        assert abs(chosen.measured - chosen.law) > furthest(chosen.law)
