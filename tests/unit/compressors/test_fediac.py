from typing import Any

import numpy as np
import pytest

from fediac import aggregate
from fediac.compressors import FediAC, Outcome, State
from fediac.core.bitpack import pack_bits, unpack_bits, unpack_lanes
from fediac.core.bounds import Setting, smallest_bits
from fediac.core.exchange import (
    Consensus,
    Max,
    Peak,
    Sum,
    Tally,
)
from fediac.core.powerlaw import fit_power_law
from fediac.core.quantize import check_lanes, float32_above, level_limit
from fediac.core.tuning import best_bits
from tests.support import refuses
from tests.unit.compressors.rounds import (
    DIM,
    answer,
    some_update,
    start,
    totals,
)

SETTINGS: Any = {"n_clients": 4, "n_votes": 100, "threshold": 2}
GIA = np.arange(DIM) % 4 == 0


def consensus(gia: Any = GIA, peak: float = 4.0, bits: int = 10) -> Consensus:
    return Consensus(pack_bits(gia), peak, bits)


def power_law_update(dim: int = 2000) -> Any:
    magnitudes = np.arange(1.0, dim + 1.0) ** -0.5
    signs = np.where(np.arange(dim) % 3, 1.0, -1.0)
    return (signs * magnitudes).astype(np.float32)


class TestVotes:
    def test_client_asks_with_its_votes_peak_and_width(self) -> None:
        client = start(FediAC(2, 5, 2, bits=10, law="topk"), some_update())
        asked = answer(client)
        assert isinstance(asked, Tally)
        votes = unpack_bits(asked.votes, DIM)
        assert np.flatnonzero(votes).tolist() == [0, 1, 37, 38, 39]
        assert (asked.dim, asked.threshold, asked.bits) == (DIM, 2, 10)
        assert asked.peak == 4.0

    def test_neighbours_vote_and_are_sent_together(self) -> None:
        # The five groups of eight are largest at both ends: 3.8, ..., 4.0.
        settings: Any = {"bits": 10, "law": "topk", "entries_per_vote": 8}
        client = start(FediAC(2, 16, 2, **settings), some_update())
        asked = answer(client)
        assert asked.dim == 5
        assert np.flatnonzero(unpack_bits(asked.votes, 5)).tolist() == [0, 4]
        groups = np.array([False, True, False, False, True])
        asked = answer(client, consensus(groups))
        assert isinstance(asked, Sum)
        assert asked.n_levels == 16
        outcome = answer(client, totals(asked))
        mean = outcome.mean.dense(some_update())
        assert set(np.flatnonzero(mean) // 8) == {1, 4}
        assert outcome.facts.n_votes == 2
        assert outcome.facts.n_chosen == 16
        kept = outcome.state.residual
        left = np.repeat(~groups, 8)
        assert kept[left].tolist() == some_update()[left].tolist()
        assert np.abs(kept[~left]).max() < 4.0 / 100

    def test_votes_are_for_the_corrected_update(self) -> None:
        residual = np.zeros(DIM, dtype=np.float32)
        residual[20] = 100.0
        state = State(residual)
        asked = answer(
            start(FediAC(2, 1, 2, bits=10, law="topk"), some_update(), state)
        )
        assert np.flatnonzero(unpack_bits(asked.votes, DIM)).tolist() == [20]
        assert asked.peak == np.float32(100.2)

    def test_peak_of_a_float64_update_is_rounded_up_to_float32(self) -> None:
        update = np.full(DIM, 0.1 + 2.0**-40)
        asked = answer(start(FediAC(2, 1, 2, bits=10), update))
        assert asked.peak == float(np.float32(asked.peak))
        assert 0.0 < asked.peak - update[0] < np.finfo(np.float32).eps


class TestWidth:
    def asked_bits(self, bits: Any, update: Any, state: State | None = None) -> int:
        asked = answer(start(FediAC(**SETTINGS, bits=bits), update, state))
        assert isinstance(asked, Tally)
        return asked.bits

    def wish(self, update: Any, peak: float | None = None, **settings: Any) -> int:
        """Return the width that a client asks for when nobody knows one yet."""
        client = start(FediAC(**SETTINGS | settings), update)
        asked = answer(client)
        assert asked.bits == 0
        agreed = Consensus(
            pack_bits(np.full(asked.dim, fill_value=True)),
            max(asked.peak, 1.0) if peak is None else peak,
            0,
        )
        asked = answer(client, agreed)
        assert isinstance(asked, Max)
        assert asked.phase == "width"
        return int(asked.peak)

    def test_first_wish_follows_from_the_fit(self) -> None:
        update = power_law_update()
        fit = fit_power_law(update)
        setting = Setting(dim=2000, **SETTINGS, alpha=fit.alpha)
        for rule, choose in (("tuned", best_bits), ("bound", smallest_bits)):
            expected = choose(setting, phi=fit.phi, peak=1.0)
            assert self.wish(update, bits=rule) == expected

    @pytest.mark.parametrize("rule", ["bound", "tuned", "adaptive"])
    def test_the_bound_takes_the_peak_of_all_clients(self, rule: str) -> None:
        # Equation 6 for a client that is sixteen times smaller than another one.
        update = power_law_update()
        alone = self.wish(update, 1.0, bits=rule)
        fit = fit_power_law(update)
        setting = Setting(dim=2000, **SETTINGS, alpha=fit.alpha)
        choose = best_bits if rule == "tuned" else smallest_bits
        assert self.wish(update, 16.0, bits=rule) == choose(
            setting, phi=fit.phi, peak=16.0
        )
        assert self.wish(update, 16.0, bits=rule) > alone + 2

    def test_wish_knows_the_law_and_length_of_votes(self) -> None:
        update = power_law_update()
        fit = fit_power_law(update)
        wishes = set()
        for law, length in (("bernoulli", 1), ("topk", 1), ("topk", 8)):
            setting = Setting(
                dim=2000,
                **SETTINGS,
                alpha=fit.alpha,
                is_drawn=law == "bernoulli",
                entries_per_vote=length,
            )
            wish = self.wish(update, bits="bound", law=law, entries_per_vote=length)
            assert wish == smallest_bits(setting, phi=fit.phi, peak=1.0)
            wishes.add((law, wish))
        assert len(wishes) > 1

    def test_the_widest_wish_is_taken_by_all(self) -> None:
        client = start(FediAC(**SETTINGS), power_law_update())
        asked = answer(client)
        everything = pack_bits(np.full(asked.dim, fill_value=True))
        answer(client, Consensus(everything, 1.0, 0))
        asked = answer(client, Peak(15.0))
        assert isinstance(asked, Sum)
        assert (asked.bits_up, asked.bits_down) == (15, 15)
        assert answer(client, totals(asked)).state.bits == 15

    def test_who_joins_later_takes_what_was_agreed_on(self) -> None:
        client = start(FediAC(**SETTINGS), power_law_update())
        asked = answer(client)
        everything = pack_bits(np.full(asked.dim, fill_value=True))
        asked = answer(client, Consensus(everything, 1.0, 7))
        assert isinstance(asked, Sum)
        assert (asked.bits_up, asked.bits_down) == (7, 7)

    def test_nothing_agreed_on_does_not_settle_the_width(self) -> None:
        client = start(FediAC(**SETTINGS), power_law_update())
        asked = answer(client)
        nothing = pack_bits(np.full(asked.dim, fill_value=False))
        outcome = answer(client, Consensus(nothing, 1.0, 0))
        assert outcome.state.bits is None

    def test_agreed_width_stays(self) -> None:
        assert self.asked_bits("tuned", power_law_update(), State(bits=17)) == 17
        assert self.asked_bits(9, power_law_update(), State(bits=17)) == 9

    @pytest.mark.parametrize("rule", ["bound", "tuned", "adaptive"])
    def test_width_that_fewer_clients_agreed_on_grows(self, rule: Any) -> None:
        wish = self.asked_bits(rule, power_law_update(), State(bits=3))
        assert wish == 4
        check_lanes(bits=wish, n_clients=4)
        with refuses("bits must leave room for 4 clients (at least 4), got 3"):
            check_lanes(bits=3, n_clients=4)

    @pytest.mark.parametrize(
        ("rule", "peak", "bits", "wish"),
        [
            # Levels 57 apart: an entry below 4 rounds to nothing, or to far too much.
            ("adaptive", 400.0, 5, 6),
            ("bound", 400.0, 5, 5),
            (5, 400.0, 5, 5),
            ("adaptive", 4.0, 5, 5),
            # Every entry rounds to nothing: exactly as much is left as there was.
            ("adaptive", 1e30, 5, 6),
            ("adaptive", 1e30, 32, 32),
        ],
    )
    def test_adaptive_width_grows_where_as_much_is_left_as_there_was(
        self, rule: Any, peak: float, bits: int, wish: int
    ) -> None:
        compressor = FediAC(2, 40, 2, bits=rule, law="topk")
        client = start(compressor, some_update())
        answer(client)
        everything = np.full(DIM, fill_value=True)
        asked = answer(client, consensus(everything, peak, bits))
        outcome = answer(client, totals(asked))
        facts = outcome.facts
        assert (facts.left_energy >= facts.energy) == (peak > 4.0)
        assert outcome.state.bits == wish
        again = answer(start(compressor, some_update(), outcome.state))
        assert again.bits == wish

    def test_a_client_without_an_update_never_asks_for_more(self) -> None:
        zeros = np.zeros(DIM, dtype=np.float32)
        client = start(FediAC(2, 40, 2, bits="adaptive"), zeros)
        answer(client)
        asked = answer(client, consensus(bits=5))
        outcome = answer(client, totals(asked))
        assert outcome.facts.energy == outcome.facts.left_energy == 0.0
        assert outcome.state.bits == 5

    def test_no_width_helps_who_has_nothing_where_others_agree(self) -> None:
        update = some_update()
        update[GIA] = 0.0
        state = None
        for _ in range(3):
            client = start(FediAC(2, 40, 2, bits="adaptive"), update, state)
            known = answer(client).bits
            asked = answer(client, consensus(bits=max(known, 5)))
            outcome = answer(client, totals(asked))
            assert 0.0 < outcome.facts.energy <= outcome.facts.left_energy
            assert outcome.state.bits == 5
            state = State(bits=outcome.state.bits)

    def test_adaptive_width_begins_at_the_bound(self) -> None:
        update = power_law_update()
        assert self.wish(update, bits="adaptive") == self.wish(update, bits="bound")

    @pytest.mark.parametrize("rule", ["tuned", "bound"])
    def test_update_without_a_law_asks_for_some_room(self, rule: str) -> None:
        update = np.zeros(2000, dtype=np.float32)
        update[7] = 1.0
        assert self.wish(update, bits=rule) == 3 + 6

    @pytest.mark.parametrize("rule", ["tuned", "bound"])
    def test_zeros_leave_the_width_to_others(self, rule: str) -> None:
        least = self.wish(np.zeros(2000, dtype=np.float32), bits=rule)
        check_lanes(bits=least, n_clients=SETTINGS["n_clients"])
        with pytest.raises(ValueError, match="bits"):
            check_lanes(bits=least - 1, n_clients=SETTINGS["n_clients"])

    @pytest.mark.parametrize("rule", ["tuned", "bound"])
    @pytest.mark.parametrize("peak", [1e12, 1e30])
    def test_wish_never_exceeds_a_lane(self, rule: str, peak: float) -> None:
        # One entry far above the law of all others puts the bound above 32 bits.
        update = power_law_update()
        update[0] = peak
        assert self.wish(update, bits=rule) == 32

    def test_a_thousand_clients_leave_a_lane_for_an_update_without_a_law(self) -> None:
        update = np.zeros(2000, dtype=np.float32)
        update[7] = 1.0
        assert self.wish(update, n_clients=2**27) == 32

    def test_round_of_zeros_does_not_settle_the_width(self) -> None:
        zeros = np.zeros(2000, dtype=np.float32)
        client = start(FediAC(**SETTINGS), zeros)
        asked = answer(client)
        outcome = answer(client, Consensus(asked.votes, 0.0, asked.bits))
        assert outcome.state.bits is None


class TestLevels:
    def test_chosen_entries_are_sent_in_the_agreed_width(self) -> None:
        client = start(FediAC(2, 5, 2, bits=8), some_update())
        answer(client)
        asked = answer(client, consensus(bits=10))
        assert isinstance(asked, Sum)
        assert (asked.n_levels, asked.bits_down, asked.limit) == (10, 10, 511 // 2)
        levels = unpack_lanes(asked.lanes, 10, 10) - asked.limit
        scale = (2**9 - 2) / (2 * 4.0)
        chosen = some_update()[GIA].astype(np.float64)
        assert np.all(np.abs(levels - scale * chosen) < 1.0)

    def test_residual_keeps_what_was_not_sent(self) -> None:
        client = start(FediAC(2, 5, 2, bits=10), some_update())
        answer(client)
        asked = answer(client, consensus())
        outcome = answer(client, totals(asked))
        levels = unpack_lanes(asked.lanes, 10, 10) - asked.limit
        expected = some_update().astype(np.float64)
        expected[GIA] -= levels / outcome.facts.scale
        assert np.array_equal(outcome.state.residual, expected.astype(np.float32))
        assert outcome.state.bits == 10

    def test_what_a_clipped_peak_cuts_stays_unsent(self) -> None:
        offered, outcomes = [], []
        for clip in (None, 0.5):
            client = start(FediAC(2, 5, 2, bits=10, clip=clip), some_update())
            offered.append(answer(client).peak)
            asked = answer(client, consensus(peak=offered[-1]))
            outcomes.append(answer(client, totals(asked)))
        # The five largest are 4.0, 3.9, 3.9, 3.8 and 3.8.
        largest = np.sort(np.abs(some_update().astype(np.float64)))[-5:]
        half = float32_above(0.5 * float(np.sqrt(np.mean(largest**2))))
        assert offered == [4.0, half]
        n_above = int(np.count_nonzero(np.abs(some_update()[GIA]) > half))
        assert [each.facts.n_clamped for each in outcomes] == [0, n_above]
        limit = level_limit(bits=10, n_clients=2)
        cut = limit / outcomes[1].facts.scale
        expected = np.maximum(np.abs(some_update()[GIA]) - cut, 0.0)
        left = np.abs(outcomes[1].state.residual[GIA])
        step = 1.0 / outcomes[1].facts.scale
        assert np.all(np.abs(left - expected) <= step)

    def check_facts(self, outcome: Outcome, left: Any) -> None:
        """Facts count what was counted: two of ten levels, and all that is left."""
        assert outcome.facts.n_chosen == 2
        energy = float(np.sum(np.asarray(left, dtype=np.float64) ** 2))
        assert outcome.facts.left_energy == pytest.approx(energy, rel=1e-12)

    def test_facts_measure_the_error(self) -> None:
        client = start(FediAC(2, 5, 2, bits=10, law="topk"), some_update())
        answer(client)
        facts = (outcome := answer(client, totals(answer(client, consensus())))).facts
        assert (facts.n_votes, facts.n_chosen, facts.bits) == (5, 10, 10)
        exact = float(np.sum(outcome.state.residual.astype(np.float64) ** 2))
        assert facts.left_energy == pytest.approx(exact, rel=1e-12)
        energy = float(np.sum(some_update().astype(np.float64) ** 2))
        assert facts.energy == pytest.approx(energy, rel=1e-12)


class TestNothingToSend:
    @pytest.mark.parametrize(
        "agreed",
        [consensus(GIA & False), consensus(peak=0.0), consensus(peak=2.0**-101)],
        ids=["empty gia", "zero peak", "tiny peak"],
    )
    def test_residual_keeps_everything(self, agreed: Consensus) -> None:
        client = start(FediAC(2, 5, 2, bits=10), some_update())
        answer(client)
        outcome = answer(client, agreed)
        assert np.array_equal(outcome.state.residual, some_update())
        assert outcome.mean.parts == ()
        assert (outcome.facts.n_chosen, outcome.facts.scale) == (0, 0.0)
        assert outcome.facts.left_energy == outcome.facts.energy


def test_groups_are_large_by_their_peak_or_their_root_mean_square() -> None:
    update = np.zeros(16, dtype=np.float32)
    update[0], update[8:] = 5.0, 2.0
    for rank_by, sent in (("peak", [5.0, 0.0]), ("rms", [0.0, 2.0])):
        votes = FediAC(
            2,
            n_votes=8,
            threshold=2,
            bits=12,
            law="topk",
            entries_per_vote=8,
            rank_by=rank_by,  # type: ignore[arg-type] # both are
        )
        done = aggregate([update] * 2, votes, seed=1, round_number=1)
        np.testing.assert_allclose(done.mean[[0, 8]], sent, rtol=0.01)


@pytest.mark.parametrize("rank_by", ["mean", None, ["rms"]])
def test_groups_are_ranked_by_nothing_else(rank_by: Any) -> None:
    with refuses(f"rank_by must be one of peak, rms, got {rank_by!r}"):
        FediAC(2, rank_by=rank_by)
