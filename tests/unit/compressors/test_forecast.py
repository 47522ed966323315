"""What algorithms say of their rounds beforehand."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fediac import FedAvg, FediAC, Libra, OmniReduce, Switch, SwitchML, TopK, aggregate
from fediac.compressors import Compressor, Wrapper
from fediac.compressors.forecast import (
    AsksBlockSum,
    AsksIndexedSum,
    AsksSum,
    AsksTally,
    Conditions,
    Expected,
    asks_of,
    check_dim,
    expect_of,
    measured_of,
    share_of_some,
    tally_threshold,
)
from fediac.core.exchange import BlockSum, Max, Tally
from fediac.errors import AlgorithmError, ArgumentError
from tests.support import refuses


@pytest.mark.parametrize(
    ("compressor", "asked"),
    [
        (FediAC(20, bits=12), (AsksTally(3), AsksSum(((12, 12),)))),
        (FediAC(2), (AsksTally(1), AsksSum(tuple((b, b) for b in range(3, 33))))),
        (SwitchML(20, bits=8, lanes="dense"), (AsksSum(((4, 8),)),)),
        (OmniReduce(20, block=9), (AsksBlockSum(9),)),
        (Libra(20, hot=np.arange(5)), (AsksIndexedSum(5, 64),)),
        (Libra(20, hot=np.arange(5), narrow=True), (AsksIndexedSum(5, 35),)),
        (FedAvg(20), ()),
        (TopK(20), ()),
    ],
)
def test_an_algorithm_says_what_needs_room(
    compressor: Compressor, asked: tuple[Any, ...]
) -> None:
    assert asks_of(compressor) == asked
    assert asks_of(Wrapper(compressor)) == asked


def test_a_width_is_known_when_there_is_one() -> None:
    assert AsksSum(((4, 8),)).known_widths == (4, 8)
    assert AsksSum(((4, 8), (5, 9))).known_widths is None


def test_the_threshold_is_that_of_the_tally() -> None:
    assert tally_threshold(FediAC(20, threshold="50%")) == 10
    assert tally_threshold(Wrapper(FediAC(20, threshold=4))) == 4
    assert tally_threshold(SwitchML(20)) == 1


@dataclass(frozen=True, slots=True)
class Own(Wrapper):
    """A user's own that asks what it is told."""

    asked: Any = None

    def asks(self) -> Iterator[Any]:
        yield self.asked


def test_what_cannot_be_asked_is_refused() -> None:
    text = "asks must yield AsksTally, AsksSum, AsksBlockSum or AsksIndexedSum, got Max"
    with refuses(text, AlgorithmError):
        asks_of(Own(SwitchML(2), asked=Max(1.0)))


def test_a_switch_without_room_for_what_an_own_algorithm_asks_is_refused() -> None:
    own = Own(SwitchML(2), asked=AsksTally(2**14))
    with pytest.raises(ArgumentError, match="two packets of a tally") as caught:
        aggregate(
            [np.ones(9), np.ones(9)],
            own,
            switch=Switch(9000),
            seed=1,
            round_number=1,
        )
    assert caught.value.argument == "register_bytes"


def test_settings_that_do_not_fit_the_model_are_refused_beforehand() -> None:
    for compressor in (TopK(2, 11), Wrapper(TopK(2, 11))):
        check_dim(compressor, 11)
        with refuses("n_sent must be in 1..10 (dim), got 11", ArgumentError):
            check_dim(compressor, 10)
        with refuses("n_sent must be in 1..10 (dim), got 11", ArgumentError):
            list(expect_of(compressor, Conditions(10)))


def test_an_exchange_is_called_what_the_ledger_calls_it() -> None:
    phases = [Expected(kind).phase for kind in (Tally, Max, BlockSum)]
    assert phases == ["votes", "peak", "blocks"]
    assert Expected(Max).widths == (32, 32)
    assert Expected(Max, bits=(4, 8)).widths == (4, 8)


def test_only_the_papers_votes_were_measured() -> None:
    assert measured_of(FediAC(20)) == measured_of(Wrapper(FediAC(20))) == (82, 126)
    for others in ({"n_votes": "1%"}, {"law": "topk"}, {"entries_per_vote": 8}):
        settings: dict[str, Any] = others
        assert measured_of(FediAC(20, **settings)) is None
    assert measured_of(SwitchML(20)) is None


def test_only_pairs_as_published_were_measured() -> None:
    assert measured_of(Libra(20)) == (32, 99)
    assert measured_of(Libra(20, bits=8)) is None
    assert measured_of(Libra(20, narrow=True)) is None


def test_some_of_many_tries_succeeds() -> None:
    assert share_of_some(1.0, 3) == 1.0
    assert share_of_some(0.5, 3) == pytest.approx(0.875)
