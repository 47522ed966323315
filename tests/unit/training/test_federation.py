import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fediac.compressors import (
    Compressor,
    FedAvg,
    FediAC,
    Libra,
    OmniReduce,
    SwitchML,
    TopK,
)
from fediac.core.bitpack import unpack_bits
from fediac.core.magnitudes import largest
from fediac.core.rng import Stream
from fediac.errors import UpdateError
from fediac.training.federation import (
    FederatedRound,
    Progress,
    StatisticsRule,
)
from fediac.training.flat_model import flatten_model
from fediac.training.local import draw_batches, normalize
from fediac.training.local_settings import LocalSettings
from tests.support import bytes_of, refuses
from tests.tiny import plain_model, seeded
from tests.unit.training.federations import (
    DATA,
    DIM,
    Make,
    N,
    federations,
    run_rounds,
)

N_STATISTICS = 8
BIASES = (36, 40)
"""Where the convolution's begin and end."""

HOT = np.arange(0, DIM, 2)
N_SENT, BLOCK = 24, 10


@pytest.fixture
def make() -> Iterator[Make]:
    with federations() as factory:
        yield factory


def payload_bytes(done: FederatedRound, direction: Any, phase: str) -> float:
    rows = done.ledger.select(direction=direction, phase=phase)
    return rows.traffic().payload_bits / 8


def plain_sgd(parameters: Tensor, *, round_number: int, rate: float) -> Tensor:
    """Weights after one client's steps on all data, without any federation."""
    model = flatten_model(seeded(plain_model))
    model.parameters.copy_(parameters)
    images, labels = normalize(DATA.train, DATA)
    settings = LocalSettings(steps=2, batch_size=8)
    for batch in draw_batches(len(labels), settings, Stream(5, round_number, 0)):
        model.gradients.zero_()
        loss = functional.cross_entropy(model.module(images[batch]), labels[batch])
        torch.autograd.backward(loss)
        with torch.no_grad():
            model.parameters.add_(model.gradients, alpha=-rate)
    return model.parameters.double()


def test_averaging_one_client_is_plain_sgd(make: Make) -> None:
    federation = make(model=plain_model, shares=1)
    progress = federation.start()
    for number in (1, 2, 3):
        done = federation.run_round(progress)
        rate = federation.rate(number)
        local = plain_sgd(progress.parameters, round_number=number, rate=rate)
        update = progress.parameters.double() - local
        after = done.progress.parameters.double()
        # w - w_local is rounded by up to 2^-24 of itself; taking it from w rounds once
        # more, by 2^-24 of the exact result, which is 1 + 2^-24 of the rounded one.
        allowed = 2.0**-24 * (update.abs() + (1 + 2.0**-23) * after.abs())
        assert bool(((after - local).abs() <= allowed).all())
        assert float(update.abs().max()) > 1e-3
        progress = done.progress


def test_fediac_with_all_votes_and_24_bits_follows_averaging(make: Make) -> None:
    fediac = FediAC(N, n_votes=DIM, threshold=1, bits=24, law="topk")
    federation, reference = make(fediac), make()
    progress, step_before = federation.start(), 0.0
    for _ in range(3):
        done = federation.run_round(progress)
        exact = reference.run_round(progress)
        difference = done.result.mean.double() - exact.result.mean.double()
        # A level is off by less than 1, so a client's value by less than 1/f, and so is
        # the mean. What the round before was off by comes back as the residual: one
        # more 1/f of that round. Both means are rounded to float32, and the reference
        # adds N values in float32 first.
        step = 1.0 / done.result.facts.scale
        size = max(float(each.update.abs().max()) for each in done.trained)
        allowed = step + step_before + (N + 1) * 2.0**-24 * size
        corrected = [
            each.update if state.residual is None else each.update + state.residual
            for each, state in zip(done.trained, progress.states, strict=True)
        ]
        moved = torch.stack([each != 0.0 for each in corrected]).any(dim=0)
        assert done.result.facts.chosen == int(moved.sum())
        # Biases before a normalization move by rounding errors, if at all.
        assert set(torch.nonzero(~moved).flatten().tolist()) <= set(range(*BIASES))
        assert float(difference.abs().max()) <= allowed
        # And it is the width that explains it: 2^-23 of N times the peak.
        assert step < N * done.result.facts.peak / (2**23 - 2 * N)
        progress, step_before = done.progress, step


def topk_masks(done: FederatedRound) -> list[Any]:
    """What each client of a first round sends: its largest entries."""
    return [
        unpack_bits(largest(each.update, N_SENT), DIM).bool().numpy()
        for each in done.trained
    ]


def expected_fediac(done: FederatedRound) -> dict[str, tuple[float, float]]:
    facts = done.result.facts
    levels = N * facts.chosen * facts.bits / 8
    return {"votes": (N * DIM / 8, N * DIM / 8), "levels": (levels, levels)}


def expected_switchml(_: FederatedRound) -> dict[str, tuple[float, float]]:
    return {"peak": (0, 0), "levels": (N * DIM * 12 / 8, N * DIM * 12 / 8)}


def expected_omnireduce(done: FederatedRound) -> dict[str, tuple[float, float]]:
    n_padded = -(-DIM // BLOCK) * BLOCK
    padded = [np.pad(mask, (0, n_padded - DIM)) for mask in topk_masks(done)]
    blocks = [mask.reshape(-1, BLOCK).any(axis=1) for mask in padded]
    up = sum(int(each.sum()) for each in blocks) * BLOCK * 4
    down = N * int(np.any(blocks, axis=0).sum()) * BLOCK * 4
    return {"peak": (0, 0), "blocks": (up, down)}


def expected_libra(done: FederatedRound) -> dict[str, tuple[float, float]]:
    is_hot = np.isin(np.arange(DIM), HOT)
    bill = {"peak": (0.0, 0.0)}
    for phase, part in (("indexed", is_hot), ("server", ~is_hot)):
        masks = [mask & part for mask in topk_masks(done)]
        up = 8 * sum(int(mask.sum()) for mask in masks)
        bill[phase] = (up, 8 * N * int(np.any(masks, axis=0).sum()))
    return bill


def expected_narrow_libra(done: FederatedRound) -> dict[str, tuple[float, float]]:
    # 64-bit pairs become 11 bits of a value and those that tell places apart.
    bill = expected_libra(done)
    for phase, n_places in (("indexed", len(HOT)), ("server", DIM)):
        pair = 11 + len(f"{n_places - 1:b}")
        up, down = bill[phase]
        bill[phase] = (up / 64 * pair, down / 64 * pair)
    return bill


def expected_fedavg(_: FederatedRound) -> dict[str, tuple[float, float]]:
    return {"server": (N * DIM * 4, N * DIM * 4)}


def expected_topk(done: FederatedRound) -> dict[str, tuple[float, float]]:
    union = int(np.any(topk_masks(done), axis=0).sum())
    return {"server": (N * N_SENT * 8, N * union * 8)}


BILLS: dict[str, tuple[Compressor, Callable[[FederatedRound], Any]]] = {
    "fediac": (FediAC(N, 50, 2, bits=9), expected_fediac),
    "switchml": (SwitchML(N, 12), expected_switchml),
    "omnireduce": (OmniReduce(N, N_SENT, BLOCK), expected_omnireduce),
    "libra": (Libra(N, N_SENT, HOT), expected_libra),
    "narrow libra": (
        Libra(N, N_SENT, HOT, bits=11, narrow=True),
        expected_narrow_libra,
    ),
    "fedavg": (FedAvg(N), expected_fedavg),
    "topk": (TopK(N, N_SENT), expected_topk),
}


@pytest.mark.parametrize("statistics", ["average", "recalibrate"])
@pytest.mark.parametrize("name", BILLS)
def test_bytes_are_those_of_the_closed_form(
    make: Make, name: str, statistics: str
) -> None:
    compressor, expect = BILLS[name]
    through_server = name in ("fedavg", "topk")
    federation = make(compressor, statistics=statistics)
    done = federation.run_round(federation.start())
    n_bytes = N * N_STATISTICS * (4 if through_server else 3)
    expected = expect(done) | {"statistics": (n_bytes, n_bytes)}
    found = {
        phase: (payload_bytes(done, "up", phase), payload_bytes(done, "down", phase))
        for phase in done.ledger.phases
    }
    assert found == expected


@pytest.mark.parametrize("through_server", [False, True])
def test_statistics_are_averaged_after_the_totals(
    make: Make, *, through_server: bool
) -> None:
    federation = make(FedAvg(N) if through_server else SwitchML(N, 12))
    start = federation.start()
    done = federation.run_round(start)
    changes = torch.stack([each.statistics.double() for each in done.trained])
    expected = start.statistics.double() - changes.mean(dim=0)
    # A lane of 24 bits: less than one step a client, N peak / (2^23 - N); floats: the
    # rounding of N additions and two more operations on values near 1.
    step = N * float(changes.abs().max()) / (2**23 - N)
    allowed = (N + 2) * 2.0**-23 + (0.0 if through_server else step)
    error = (done.progress.statistics.double() - expected).abs().max()
    assert float(error) <= allowed
    rows = done.ledger.select(phase="statistics").rows
    assert {row.destination for row in rows} == {
        "server" if through_server else "switch"
    }
    others = [row.step for row in done.ledger.rows if row.phase != "statistics"]
    assert min(row.step for row in rows) == max(others) + 1
    assert done.progress.own_statistics == ()


def test_clients_count_by_their_weights_in_updates_and_statistics(make: Make) -> None:
    weights = (5, 1, 2, 8)
    federation = make(FedAvg(N), weights=weights)
    start = federation.start()
    done = federation.run_round(start)
    shares = torch.tensor(weights, dtype=torch.float64) / sum(weights)
    for before, after, changes in (
        (start.parameters, done.progress.parameters, "update"),
        (start.statistics, done.progress.statistics, "statistics"),
    ):
        each = torch.stack([getattr(one, changes).double() for one in done.trained])
        expected = before.double() - (shares[:, None] * each).sum(dim=0)
        # Factors of at most 2, products, N additions and two operations more.
        allowed = 2 * (N + 4) * 2.0**-23 * (1.0 + float(each.abs().max()))
        assert float((after.double() - expected).abs().max()) <= allowed
    assert done.ledger.phases == ("weights", "server", "statistics")
    assert federation.factors((0, 3)) == {0: 10 / 13, 3: 16 / 13}


def test_a_model_without_batch_norm_sends_no_statistics(make: Make) -> None:
    for statistics in get_args(StatisticsRule):
        federation = make(model=plain_model, statistics=statistics)
        done = federation.run_round(federation.start())
        assert done.ledger.phases == ("server",)
        assert done.progress.statistics.shape == (0,)
        assert done.progress.own_statistics == ()
        assert done.pauses == ()


def test_local_statistics_stay_with_their_client(make: Make) -> None:
    federation = make(statistics="local")
    first, second = run_rounds(federation, 2)
    assert second.ledger.phases == ("server",)
    own = first.progress.own_statistics
    assert not torch.equal(own[0], own[1])
    # The second round begins with each client's own, not with what all share.
    for client, trained in enumerate(second.trained):
        after = second.progress.own_statistics[client]
        assert torch.equal(after, own[client] - trained.statistics)
    mean = torch.stack(second.progress.own_statistics).mean(dim=0)
    torch.testing.assert_close(second.progress.statistics, mean)
    assert torch.equal(federation.model.statistics, second.progress.statistics)


def test_absent_clients_keep_their_statistics_and_states(make: Make) -> None:
    compressor = SwitchML(2, bits=8)
    federation = make(compressor, n_participants=2, statistics="local")
    before = federation.start()
    for _ in range(4):
        done = federation.run_round(before)
        absent = set(range(N)) - set(done.clients)
        assert len(absent) == 2
        after = done.progress
        for client in range(N):
            is_absent = client in absent
            assert (after.states[client] is before.states[client]) == is_absent
            kept = after.own_statistics[client] is before.own_statistics[client]
            assert kept == is_absent
        before = after


@pytest.mark.parametrize("n_participants", [1, 3])
def test_the_mean_is_that_of_the_participants(make: Make, n_participants: int) -> None:
    federation = make(n_participants=n_participants)
    seen = set()
    for done in run_rounds(federation, 4):
        seen.add(done.clients)
        assert len(done.clients) == n_participants
        assert list(done.clients) == sorted(done.clients)
        mean = torch.stack([each.update for each in done.trained]).mean(dim=0)
        torch.testing.assert_close(done.result.mean, mean)
        for phase in done.ledger.phases:
            rows = done.ledger.select(phase=phase).rows
            assert tuple(sorted({row.client for row in rows})) == done.clients
    assert len(seen) > 1


def test_who_takes_part_depends_on_seed_and_round_alone(make: Make) -> None:
    federation = make(n_participants=2)
    drawn = [federation.draw_clients(number) for number in range(1, 30)]
    again = make(n_participants=2)
    assert [again.draw_clients(number) for number in range(1, 30)] == drawn
    assert {client for clients in drawn for client in clients} == set(range(N))
    other = replace(federation.federation, seed=6)
    assert [other.draw_clients(number) for number in range(1, 30)] != drawn
    assert make().draw_clients(1) == tuple(range(N))


def test_the_same_progress_gives_the_same_round(make: Make) -> None:
    compressor = FediAC(N, 50, 2)
    first, second = run_rounds(make(compressor), 2)
    other = make(compressor)
    other.run_round(second.progress)  # whatever ran before
    again = other.run_round(first.progress)
    assert torch.equal(again.progress.parameters, second.progress.parameters)
    assert again.result.facts == second.result.facts
    assert again.ledger == second.ledger
    assert again.evaluation == second.evaluation
    for one, two in zip(again.progress.states, second.progress.states, strict=True):
        assert one.bits == two.bits
        assert bytes_of(one.residual) == bytes_of(two.residual)


def test_a_round_changes_no_earlier_progress(make: Make) -> None:
    federation = make(FediAC(N, 50, 2), statistics="local")
    progress = run_rounds(federation, 1)[0].progress
    tensors = [progress.parameters, progress.statistics, *progress.own_statistics]
    tensors += [torch.as_tensor(state.residual) for state in progress.states]
    copies = [each.clone() for each in tensors]
    federation.run_round(progress)
    for tensor, before in zip(tensors, copies, strict=True):
        assert torch.equal(tensor, before)


def test_the_engine_has_the_model_of_the_last_round(make: Make) -> None:
    federation = make()
    done = run_rounds(federation, 2)[-1]
    assert torch.equal(federation.model.parameters, done.progress.parameters)
    assert done.evaluation == federation.engine.evaluate()
    assert done.train_loss == math.fsum(each.loss for each in done.trained) / N


def test_diverged_training_names_client_and_round(make: Make) -> None:
    federation = make(model=plain_model, n_participants=2)
    start = federation.start()
    endless = replace(start, parameters=torch.full_like(start.parameters, 1e38))
    first = federation.draw_clients(1)[0]
    n_entries = len(start.parameters)
    with pytest.raises(UpdateError, match=f"^client {first}, round 1: update has "):
        federation.run_round(endless)
    with refuses(
        f"client {first}, round 1: update has {n_entries} entries that are NaN, "
        "infinite or beyond 2**100; training diverged, a lower learning rate (lr) may "
        "help",
        UpdateError,
    ):
        federation.run_round(replace(start, parameters=start.parameters * math.nan))
    after = federation.run_round(start).progress
    assert isinstance(after, Progress)
    assert bool(after.parameters.isfinite().all())
