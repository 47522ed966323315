"""What is settled before a run's first round: libra's hot entries."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from fediac.compressors import Libra, choose_hot
from fediac.core.bitpack import unpack_bits
from fediac.core.magnitudes import largest
from fediac.runs.build import PreparedRun
from fediac.runs.settled import Settled, find_hot
from fediac.switch import Switch
from fediac.training.cpu import CpuEngine
from fediac.training.federation import Progress
from fediac.training.local import LocalResult


def test_hot_entries_are_the_same_whenever_they_are_looked_for(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The smallest switch has a register for every entry of so small a model.
    monkeypatch.setattr(Switch, "indexed_capacity", lambda _self, _n: 100)
    prepared = build(algorithm="libra")
    start = prepared.federation.start()
    libra = prepared.make_compressor()
    hot = find_hot(prepared.federation, libra, start)
    prepared.federation.run_round(start, libra)
    assert torch.equal(find_hot(prepared.federation, libra, start), hot)
    assert len(hot) == 100
    assert bool((hot.diff() > 0).all())
    compressor = prepared.make_compressor(Settled(hot=hot))
    assert isinstance(compressor, Libra)
    assert torch.equal(torch.as_tensor(compressor.hot), hot)


@dataclass
class HotRound:
    """What a round that finds hot entries began with, and what it trained."""

    parameters: Tensor
    statistics: Tensor
    trained: list[LocalResult]


@pytest.fixture
def hot_rounds(monkeypatch: pytest.MonkeyPatch) -> list[HotRound]:
    """Those there were; a switch then has a register for few entries."""
    found: list[HotRound] = []

    def spy(engine: CpuEngine, clients: list[int], **settings: Any) -> Any:
        model = engine.model
        begin = HotRound(model.parameters.clone(), model.statistics.clone(), [])
        begin.trained = train(engine, clients, **settings)
        found.append(begin)
        return begin.trained

    train = CpuEngine.train
    monkeypatch.setattr(CpuEngine, "train", spy)
    monkeypatch.setattr(Switch, "indexed_capacity", lambda _self, _n: 24)
    return found


LIBRA: dict[str, Any] = {
    "algorithm": "libra",
    "model": {"name": "tests.tiny:normed_model"},
    "libra": {"n_sent": 24, "hot_rounds": 3},
}


def look_for_hot(prepared: PreparedRun, start: Progress) -> Tensor:
    libra = prepared.make_compressor()
    assert isinstance(libra, Libra)
    return find_hot(prepared.federation, libra, start)


def most_counted(results: list[LocalResult]) -> Tensor:
    dim = len(results[0].update)
    largest_of = [unpack_bits(largest(each.update, 24), dim) for each in results]
    chosen: Tensor = choose_hot(torch.stack(largest_of).sum(dim=0), 24)
    return chosen


def test_hot_entries_are_the_largest_of_all_clients_in_all_rounds(
    build: Any, hot_rounds: list[HotRound]
) -> None:
    prepared = build(**LIBRA)
    hot = look_for_hot(prepared, prepared.federation.start())
    assert [len(each.trained) for each in hot_rounds] == [3, 3, 3]
    everything = [result for each in hot_rounds for result in each.trained]
    assert torch.equal(hot, most_counted(everything))
    assert not torch.equal(hot, most_counted(everything[::3]))  # of one client
    assert not torch.equal(hot, most_counted(everything[:3]))  # of one round


def test_each_round_that_finds_hot_entries_goes_on_from_the_last(
    build: Any, hot_rounds: list[HotRound]
) -> None:
    prepared = build(**LIBRA)
    start = prepared.federation.start()
    look_for_hot(prepared, start)
    parameters, statistics = start.parameters, start.statistics
    for each in hot_rounds:
        assert torch.equal(each.parameters, parameters)
        assert torch.equal(each.statistics, statistics)
        first, second, third = each.trained
        update = (first.update + second.update + third.update) / 3
        change = (first.statistics + second.statistics + third.statistics) / 3
        parameters, statistics = parameters - update, statistics - change
        assert not torch.equal(each.parameters, parameters)
        assert not torch.equal(each.statistics, statistics)


def test_rounds_that_find_hot_entries_have_batches_of_their_own(
    build: Any, hot_rounds: list[HotRound]
) -> None:
    prepared = build(**LIBRA)
    start = prepared.federation.start()
    settled = Settled(hot=look_for_hot(prepared, start))
    # The first round of the run: the same weights, examples and rate.
    done = prepared.federation.run_round(start, prepared.make_compressor(settled))
    first = hot_rounds[0]
    assert torch.equal(first.parameters, start.parameters)
    for mine, own in zip(first.trained, done.trained, strict=True):
        assert not torch.equal(mine.update, own.update)
