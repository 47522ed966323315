from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fediac import FediAC, SwitchML, TopK, aggregate
from fediac.compressors import State
from fediac.errors import UpdateError
from tests.support import bytes_of, refuses
from tests.unit.transports.checked import (
    DIM,
    N_CLIENTS,
    NOT_FINITE,
    good_updates,
    kept_states,
    run,
    spoilt,
    with_update,
)

BAD_UPDATES: dict[str, tuple[list[Any], str]] = {
    "nan": (with_update(1, spoilt(np.nan)), f"client 1, round 9: {NOT_FINITE}"),
    "infinite": (with_update(2, spoilt(-np.inf)), f"client 2, round 9: {NOT_FINITE}"),
    "too long": (
        with_update(2, np.ones(DIM + 1, dtype=np.float32)),
        "client 2: update has 7 entries but the first has 6",
    ),
    "float16": (
        with_update(0, np.ones(DIM, dtype=np.float16)),
        "client 0: update must be float32 or float64, got float16",
    ),
    "bfloat16": (
        with_update(0, torch.ones(DIM, dtype=torch.bfloat16)),
        "client 0: update must be float32 or float64, got bfloat16",
    ),
    "integers": (
        with_update(1, np.ones(DIM, dtype=np.int64)),
        "client 1: update must be float32 or float64, got int64",
    ),
    "two dimensions": (
        with_update(1, np.ones((2, 3), dtype=np.float32)),
        "client 1: update must be a vector with at least one entry, got shape (2, 3)",
    ),
    "no entries": (
        with_update(0, np.ones(0, dtype=np.float32)),
        "client 0: update must be a vector with at least one entry, got shape (0,)",
    ),
    "list": (
        with_update(0, [1.0] * DIM),
        "client 0: update[0] must be a NumPy array or a PyTorch tensor, got float",
    ),
    "other dtype": (
        with_update(1, np.ones(DIM)),
        "client 1: update is NumPy array of float64 on cpu but the first is "
        "NumPy array of float32 on cpu",
    ),
    "other kind": (
        with_update(1, torch.ones(DIM)),
        "client 1: update is PyTorch tensor of float32 on cpu but the first is "
        "NumPy array of float32 on cpu",
    ),
    "no values": (
        [torch.ones(DIM, device="meta")] * N_CLIENTS,
        "client 0: update must have values, got a tensor on meta",
    ),
    "masked": (
        with_update(0, np.ma.masked_array(good_updates()[0], good_updates()[0] > 3)),
        "client 0: update must not be masked, pass update.filled(0)",
    ),
    "gradient": (
        with_update(0, torch.ones(DIM, requires_grad=True)),
        "client 0: update must not require a gradient, pass update.detach()",
    ),
    "sparse": (
        with_update(0, torch.ones(DIM).to_sparse()),
        "client 0: update must be dense, pass update.to_dense()",
    ),
}


@pytest.mark.parametrize("in_place", ["kept apart", "in place"])
@pytest.mark.parametrize("name", BAD_UPDATES)
def test_bad_update_is_named_and_nothing_is_changed(name: str, in_place: str) -> None:
    updates, text = BAD_UPDATES[name]
    states = kept_states()
    before = [bytes_of(state.residual) for state in states]
    out = states if in_place == "in place" else None
    with refuses(text, UpdateError):
        run(updates, states=states, out=out)
    assert [bytes_of(state.residual) for state in states] == before


def test_parameters_are_tensors_and_maps_of_a_file_are_arrays(tmp_path: Path) -> None:
    values = np.arange(1, DIM + 1, dtype=np.float32)
    frozen: Any = [nn.Parameter(torch.from_numpy(values), requires_grad=False)]
    first = run(frozen)
    second = run(frozen, states=first.states)
    np.save(tmp_path / "update.npy", values)
    mapped = [np.load(tmp_path / "update.npy", mmap_mode="r")]
    again = run([values], states=run(mapped).states)
    assert bytes_of(again.mean) == bytes_of(second.mean)


def test_tensors_stay_where_they_are_whatever_the_default_device() -> None:
    updates = [torch.from_numpy(each) for each in good_updates()]
    expected = run(updates).mean
    with torch.device("meta"):
        found = run(updates).mean
    assert bytes_of(found) == bytes_of(expected)


@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.uint64, np.int64])
def test_seeds_may_be_numbers_of_numpy(kind: Any) -> None:
    expected = run(good_updates(), seed=7)
    assert np.array_equal(run(good_updates(), seed=kind(7)).mean, expected.mean)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"states": kept_states()[:2]},
            "states must have 3 states (one per update), got 2",
        ),
        (
            {"states": kept_states(), "out": kept_states() * 2},
            "out must have 3 states (one per update), got 6",
        ),
        (
            {"compressor": SwitchML(4)},
            "compressor is for 4 clients, got 3 updates",
        ),
        ({"seed": -1}, "seed must be in 0..2**64-1, got -1"),
        (
            {"round_number": 1 << 32},
            f"round_number must be in 0..2**32-1, got {1 << 32}",
        ),
        (
            {"compressor": FediAC(3, DIM + 1, 2, bits=8)},
            "n_votes must be in 1..6 (dim), got 7",
        ),
        ({"compressor": TopK(3, DIM + 1)}, "n_sent must be in 1..6 (dim), got 7"),
    ],
)
def test_round_that_does_not_fit_together_is_refused(
    settings: dict[str, Any], text: str
) -> None:
    states = kept_states()
    before = [bytes_of(state.residual) for state in states]
    with refuses(text):
        run(good_updates(), **({"states": states, "out": states} | settings))
    assert [bytes_of(state.residual) for state in states] == before


def test_round_needs_someone() -> None:
    with refuses("updates must have at least one that is not None"):
        run([None, None])


def test_more_clients_than_a_bitmap_holds_are_refused() -> None:
    with refuses("updates must be at most 1024 (bits of a slot's bitmap), got 1025"):
        run([np.ones(1, dtype=np.float32)] * 1025)


def test_tensors_must_be_on_one_device() -> None:
    updates = [torch.ones(DIM), torch.ones(DIM, device="meta")]
    text = "client 1: update is PyTorch tensor of float32 on meta but the first is "
    with refuses(f"{text}PyTorch tensor of float32 on cpu", UpdateError):
        run(updates)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"updates": None},
            "updates must be a list with one element a client, got NoneType",
        ),
        (
            {"updates": dict(enumerate(good_updates()))},
            "updates must be a list with one element a client, got dict",
        ),
        (
            {"updates": (each for each in good_updates())},
            "updates must be a list with one element a client, got generator",
        ),
        (
            {"compressor": FediAC},
            "compressor must be one like FediAC(...), with run_round, got FediAC",
        ),
        (
            {"compressor": "fediac"},
            "compressor must be one like FediAC(...), with run_round, got str",
        ),
        (
            {"compressor": SimpleNamespace(run_round=print)},
            "n_clients of the compressor must be a whole number, got None",
        ),
        ({"switch": "fast"}, "switch must be a Switch, got str"),
        ({"phase": ["votes"]}, "phase must be a string, got list"),
        ({"seed": "1"}, "seed must be a whole number, got '1'"),
        ({"seed": None}, "seed must be a whole number, got None"),
        ({"round_number": 1.0}, "round_number must be a whole number, got 1.0"),
        (
            {"states": good_updates()},
            "states must be the list of states that a round returned, "
            "got list of ndarray",
        ),
        (
            {"states": State()},
            "states must be the list of states that a round returned, got State",
        ),
        (
            {"out": 7},
            "out must be the list of states that a round returned, got int",
        ),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(
    changes: dict[str, Any], text: str
) -> None:
    arguments: dict[str, Any] = {
        "updates": good_updates(),
        "compressor": SwitchML(N_CLIENTS),
        "seed": 1,
        "round_number": 9,
    }
    with refuses(text, TypeError):
        aggregate(**arguments | changes)


def test_rows_of_an_array_are_updates() -> None:
    rows: Any = np.stack(good_updates())
    both = [
        aggregate(updates, SwitchML(N_CLIENTS), seed=1, round_number=1).mean
        for updates in (rows, good_updates())
    ]
    assert bytes_of(both[0]) == bytes_of(both[1])
