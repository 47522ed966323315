"""Settings of the wrong kind are refused by name, whatever the algorithm."""

from typing import Any, cast

import numpy as np
import pytest
import torch

from fediac import aggregate
from fediac.compressors import (
    FedAvg,
    FediAC,
    Libra,
    OmniReduce,
    State,
    SwitchML,
    TopK,
    choose_hot,
)
from fediac.core.rng import Stream
from fediac.errors import ArgumentError
from tests.support import refuses
from tests.unit.compressors.rounds import DIM, STREAM, some_update

Make = Any

GOOD: dict[Make, dict[str, Any]] = {
    FediAC: {"n_clients": 4, "n_votes": 5, "threshold": 2, "entries_per_vote": 8},
    SwitchML: {"n_clients": 4, "bits": 12},
    OmniReduce: {"n_clients": 4, "n_sent": 5, "block": 8},
    Libra: {"n_clients": 4, "n_sent": 5, "hot": np.arange(3), "bits": 12},
    FedAvg: {"n_clients": 4},
    TopK: {"n_clients": 4, "n_sent": 5},
}

FEEDBACK = [make for make in GOOD if make is not FedAvg]

IN_A_ROUND = "in 1..4 (clients in a round)"

ROOM = "bits must leave room for 4 clients (at least 4)"

SHARES = ("n_votes", "threshold", "n_sent")

WHOLE = [
    (make, name)
    for make, settings in GOOD.items()
    for name in settings
    if name not in ("hot", *SHARES)
]
COUNTS = [
    (make, name)
    for make, settings in GOOD.items()
    for name in settings
    if name in SHARES
]


@pytest.mark.parametrize(("make", "name"), WHOLE)
@pytest.mark.parametrize("value", [2.5, "3", None, True])
def test_counts_must_be_whole_numbers(make: Make, name: str, value: object) -> None:
    with refuses(f"{name} must be a whole number, got {value!r}", TypeError):
        make(**GOOD[make] | {name: value})


@pytest.mark.parametrize(("make", "name"), COUNTS)
@pytest.mark.parametrize("value", [2.5, None, True])
def test_counts_may_be_shares_and_nothing_else(
    make: Make, name: str, value: object
) -> None:
    text = f"{name} must be a whole number or a share such as 5%, got {value!r}"
    with refuses(text, TypeError):
        make(**GOOD[make] | {name: value})
    make(**GOOD[make] | {name: "50%"})
    for wrong in ("1.5", "some"):
        text = f"{name} must be a whole number or a share such as 5%, got {wrong!r}"
        with refuses(text, ArgumentError):
            make(**GOOD[make] | {name: wrong})
    with refuses(f"{name} must be above 0% and at most 100%, got '0%'", ArgumentError):
        make(**GOOD[make] | {name: "0%"})
    rule = IN_A_ROUND if name == "threshold" else "at least 1"
    with refuses(f"{name} must be {rule}, got 0", ArgumentError):
        make(**GOOD[make] | {name: 0})


def test_shares_are_counted_in_the_round_and_rounded_up() -> None:
    assert FediAC(20).votes_needed == 3
    assert FediAC(4, threshold="51%").votes_needed == 3
    assert FediAC(4, n_votes="5%").count_votes(101) == 6
    assert Libra(4, n_sent="1%").count_sent(101) == 2


@pytest.mark.parametrize("make", [FediAC, OmniReduce, Libra, TopK])
def test_a_share_chooses_what_its_count_chooses(make: Make) -> None:
    updates = np.random.default_rng(1).standard_normal((3, 200)).astype(np.float32)
    name = "n_votes" if make is FediAC else "n_sent"
    means = [
        aggregate(
            list(updates), make(3, **{name: share}), seed=1, round_number=1
        ).mean.tobytes()
        for share in ("10%", 20)
    ]
    assert means[0] == means[1]


@pytest.mark.parametrize("make", GOOD)
def test_there_must_be_clients(make: Make) -> None:
    with refuses("n_clients must be at least 1, got 0"):
        make(**GOOD[make] | {"n_clients": 0})


@pytest.mark.parametrize("make", GOOD)
def test_whole_numbers_may_be_those_of_numpy(make: Make) -> None:
    settings = {
        name: np.int64(value) if type(value) is int else value
        for name, value in GOOD[make].items()
    }
    made = make(**settings)
    for name, value in GOOD[make].items():
        assert type(getattr(made, name)) is type(value)


def test_a_width_may_be_a_number_of_numpy() -> None:
    assert FediAC(4, n_votes=5, threshold=2, bits=cast("int", np.int64(12))).bits == 12


@pytest.mark.parametrize(
    ("make", "flag"), [*((make, "residual") for make in FEEDBACK), (Libra, "narrow")]
)
def test_a_flag_is_true_or_false(make: Make, flag: str) -> None:
    with refuses(f"{flag} must be True or False, got 1", TypeError):
        make(**GOOD[make], **{flag: 1})


@pytest.mark.parametrize(
    ("make", "settings", "text"),
    [
        (
            FediAC,
            {"threshold": 5},
            "threshold must be in 1..4 (clients in a round), got 5",
        ),
        (FediAC, {"bits": 3}, f"{ROOM}, got 3"),
        (FediAC, {"bits": 10**20}, f"bits must be at most 32 (a lane), got {10**20}"),
        (
            FediAC,
            {"law": "top"},
            "law must be one of bernoulli, draws, topk, got 'top'",
        ),
        (SwitchML, {"bits": 3}, f"{ROOM}, got 3"),
        (SwitchML, {"bits": 33}, "bits must be at most 32 (a lane), got 33"),
        (Libra, {"bits": 3}, f"{ROOM}, got 3"),
        (Libra, {"bits": 33}, "bits must be at most 32 (a lane), got 33"),
        (OmniReduce, {"block": 0}, "block must be at least 1, got 0"),
    ],
)
def test_settings_out_of_range_are_refused(
    make: Make, settings: dict[str, Any], text: str
) -> None:
    with refuses(text):
        make(**GOOD[make] | settings)


@pytest.mark.parametrize("make", [FediAC, OmniReduce, Libra, TopK])
def test_more_than_there_are_is_refused_before_anything_is_written(make: Make) -> None:
    name = "n_votes" if make is FediAC else "n_sent"
    residual = some_update()
    compressor = make(4, **{name: DIM + 1})
    client = compressor.run_round(some_update(), State(residual), STREAM, out=residual)
    with refuses(f"{name} must be in 1..{DIM} (dim), got {DIM + 1}"):
        next(client)
    assert np.array_equal(residual, some_update())


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("make", FEEDBACK)
def test_a_fade_may_be_a_number_of_numpy(make: Make, kind: Any) -> None:
    made = make(**GOOD[make], fade=kind(0.25))
    assert type(made.fade) is float
    assert made.fade == 0.25


@pytest.mark.parametrize("make", FEEDBACK)
def test_a_residual_does_not_fade_altogether(make: Make) -> None:
    with refuses("fade must be at least 0 and below 1, got 1.0"):
        make(**GOOD[make], fade=1.0)


@pytest.mark.parametrize("bits", [True, 2.5, None, "wide", np.array([8, 9])])
def test_the_width_is_a_number_or_a_rule(bits: Any) -> None:
    with refuses(
        f"bits must be a number or 'auto', 'tuned', 'bound', 'adaptive', 'coarse', "
        f"got {bits!r}"
    ):
        FediAC(4, n_votes=5, threshold=2, bits=bits)


@pytest.mark.parametrize(
    ("hot", "found"),
    [
        ([1, 2], "list of shape ()"),
        (None, "NoneType of shape ()"),
        (np.array([0.5]), "float64 of shape (1,)"),
        (torch.zeros(2, 2, dtype=torch.int64), "int64 of shape (2, 2)"),
    ],
)
def test_hot_entries_are_a_vector_of_numbers(hot: Any, found: str) -> None:
    text = f"hot must be a vector of whole numbers, NumPy's or PyTorch's, got {found}"
    with refuses(text, TypeError):
        Libra(4, n_sent=5, hot=hot)


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
@pytest.mark.parametrize(
    ("hot", "found"), [([3, 1], "3, 1"), ([-1, 4], "-1, 4"), ([2, 2], "2, 2")]
)
def test_hot_entries_ascend_from_0(kind: Any, hot: list[int], found: str) -> None:
    with refuses(f"hot must be ascending entry numbers from 0, got {found}"):
        Libra(4, n_sent=5, hot=kind(hot))


def test_hot_entries_may_be_unsigned_numbers_of_pytorch() -> None:
    updates = [torch.arange(8.0), torch.ones(8)]
    means = [
        aggregate(updates, Libra(2, n_sent=3, hot=hot), seed=1, round_number=1).mean
        for hot in (torch.tensor([1, 7]), torch.tensor([1, 7], dtype=torch.uint16))
    ]
    assert torch.equal(*means)


def test_hot_entries_are_those_of_the_update() -> None:
    client = Libra(2, n_sent=1, hot=np.array([1, 8])).run_round(
        np.ones(8, dtype=np.float32), State(), Stream(1, 1, 0)
    )
    with refuses("hot must be entry numbers below 8 (dim), got 8"):
        next(client)


def test_hot_entries_are_chosen_by_a_vector_and_a_number() -> None:
    counts: Any = [1, 2]
    with refuses("counts must be a vector, NumPy's or PyTorch's, got list", TypeError):
        choose_hot(counts, 1)
    n_hot: Any = "2"
    with refuses("n_hot must be a whole number, got '2'", TypeError):
        choose_hot(np.ones(5), n_hot)
