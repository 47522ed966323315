"""FediAC's presets: one word, for any number of clients."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fediac import FediAC, State, SwitchML, aggregate
from fediac.compressors.forecast import AsksSum, AsksTally
from fediac.compressors.settings import presets_of, setting_fields
from fediac.core.quantize import level_limit
from fediac.core.widths import fewest_bits
from tests.support import refuses

DIM = 6400
NUMBERS = (1, 2, 3, 10, 20, 1024)


def some_updates(n_clients: int, seed: int = 0) -> list[np.ndarray]:
    """Clients that agree on what is large, more or less."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(DIM) * np.geomspace(1.0, 1e-3, DIM)
    noise = 0.3 * rng.standard_normal((n_clients, DIM)) * np.abs(common)
    return list((common + noise).astype(np.float32))


def test_the_preset_of_the_paper_is_the_default_of_all_but_small_models() -> None:
    preset = FediAC.PRESETS["paper"]
    assert not preset.beside
    paper, usual = FediAC(8, **preset.settings), FediAC(8)
    assert replace(usual, n_votes=paper.n_votes, bits=paper.bits) == paper
    for dim in (20_461, 100_000, 11_173_962):
        assert usual.count_votes(dim) == paper.count_votes(dim)
    rng = np.random.default_rng(1)
    updates = list(rng.standard_normal((8, 20_480)).astype(np.float32))
    means = [
        aggregate(updates, each, seed=1, round_number=1).mean.tobytes()
        for each in (usual, paper)
    ]
    assert means[0] == means[1]


def test_clients_vote_for_more_in_small_models() -> None:
    usual = FediAC(8)
    votes = {dim: usual.count_votes(dim) for dim in (1, 900, 1024, 3010, 20_460)}
    assert votes == {1: 1, 900: 900, 1024: 1024, 3010: 1024, 20_460: 1024}
    assert FediAC(8, n_votes="5%").count_votes(3010) == 151


def test_the_width_of_small_models_is_the_tuned_one() -> None:
    updates = some_updates(8)
    means = [
        aggregate(updates, FediAC(8, bits=bits), seed=1, round_number=1).mean.tobytes()
        for bits in ("auto", "tuned")
    ]
    assert means[0] == means[1]


def test_few_votes_in_a_small_model_are_doubted() -> None:
    assert list(FediAC(8).doubts(3010)) == []
    assert list(FediAC(8, n_votes="5%").doubts(20_461)) == []
    assert list(FediAC(8, n_votes="25%").doubts(3010)) == []
    assert list(FediAC(8, n_votes="5%", budget_mib=1.0).doubts(3010)) == []
    assert list(FediAC(8, n_votes="5%").doubts(3010)) == [
        "clients vote for 151 of 3,010 parameters; so few make a model this small "
        'learn slowly, and hardly save a packet; n_votes = "auto" takes 1,024'
    ]


def test_lean_votes_for_a_share_but_for_no_fewer_than_fill_a_packet() -> None:
    lean = FediAC.lean(8)
    votes = [lean.count_votes(dim) for dim in (900, 3010, 34_100, 105_866)]
    assert votes == [900, 1024, 1024, 3176]
    assert list(lean.doubts(3010)) == []
    assert FediAC(8, n_votes="few").count_votes(3010) == 1024


def test_votes_of_lean_are_shared_by_more_in_large_models() -> None:
    lean = FediAC.lean(8)
    lengths = [lean.group_length(dim) for dim in (900, 791_774, 999_999, 1_000_000)]
    assert lengths == [32, 32, 32, 64]
    assert FediAC.lean(8, entries_per_vote=16).group_length(10**9) == 16
    assert FediAC(8).group_length(10**9) == 1


def test_lean_is_its_preset_and_takes_other_settings() -> None:
    lean = FediAC.lean(20)
    assert lean == FediAC(20, **FediAC.PRESETS["lean"].settings)
    assert FediAC.lean(20, n_votes="1%").n_votes == "1%"
    assert FediAC.lean(20, n_votes="1%").law == lean.law
    settings = {each.name for each in setting_fields(FediAC)}
    assert set(FediAC.PRESETS["lean"].settings) <= settings
    with pytest.raises(TypeError, match="'votes'"):
        FediAC.lean(20, votes=3)


def test_algorithms_without_presets_have_none() -> None:
    assert not presets_of(SwitchML)


@pytest.mark.parametrize(
    ("n_clients", "threshold", "bits"),
    [(1, 1, 3), (2, 1, 4), (3, 2, 5), (10, 4, 6), (20, 8, 7), (1024, 410, 13)],
)
def test_threshold_and_width_of_lean_follow_the_number_of_clients(
    n_clients: int, threshold: int, bits: int
) -> None:
    lean = FediAC.lean(n_clients)
    assert lean.votes_needed == threshold
    assert lean.known_bits == bits
    tally, total = lean.asks()
    assert tally == AsksTally(threshold)
    assert isinstance(total, AsksSum)
    assert total.known_widths is not None
    assert total.known_widths[1] == bits


@pytest.mark.parametrize("n_clients", [*NUMBERS, 7, 33, 500])
def test_a_coarse_width_has_three_steps_and_no_bit_too_many(n_clients: int) -> None:
    bits = fewest_bits(n_clients=n_clients, limit=3)
    assert level_limit(bits=bits, n_clients=n_clients) >= 3
    if bits > n_clients.bit_length() + 1:  # else there is no narrower lane at all
        assert level_limit(bits=bits - 1, n_clients=n_clients) < 3


@pytest.mark.parametrize("n_clients", NUMBERS)
def test_lean_rounds_go_on_with_any_number_of_clients(n_clients: int) -> None:
    lean = FediAC.lean(n_clients)
    states = [State()] * n_clients
    for number in (1, 2, 3):
        updates = some_updates(n_clients, seed=number)
        done = aggregate(updates, lean, seed=1, round_number=number, states=states)
        states = list(done.states)
        assert done.facts.chosen > 0
        assert done.facts.bits == lean.known_bits
        mean = np.mean(updates, axis=0)
        chosen = done.mean != 0.0
        if number == 1:  # later ones bring what was left as well
            left = np.sum((mean - done.mean)[chosen] ** 2)
            assert left < np.sum(mean[chosen] ** 2)


def test_a_client_that_was_away_goes_on_with_what_it_has() -> None:
    lean = FediAC.lean(4)
    states = [State()] * 4
    for number, away in ((1, 0), (2, 3), (3, 0)):
        updates: list[np.ndarray | None] = list(some_updates(4, seed=number))
        updates[away] = None
        done = aggregate(updates, lean, seed=1, round_number=number, states=states)
        before, states = states, list(done.states)
        assert states[away] is before[away]
        assert done.facts.chosen > 0


def test_an_unknown_width_rule_is_refused() -> None:
    rules = "'auto', 'tuned', 'bound', 'adaptive', 'coarse'"
    with refuses(f"bits must be a number or {rules}, got 'corse'"):
        FediAC(4, bits="corse")  # type: ignore[arg-type] # that is the test


@pytest.mark.parametrize("votes", [["few"], {}, None, True])
def test_votes_are_a_count_a_share_or_a_rule(votes: Any) -> None:
    message = "n_votes must be a whole number or a share such as 5%, got"
    with refuses(f"{message} {votes!r}", TypeError):
        FediAC(4, n_votes=votes)
