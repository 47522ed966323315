from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

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
)


@pytest.mark.parametrize(
    ("residuals", "text"),
    [
        (lambda: np.ones(5, np.float32), "has shape (5,) but update has shape (6,)"),
        (
            lambda: np.ones((6, 1), np.float32),
            "has shape (6, 1) but update has shape (6,)",
        ),
        (
            lambda: np.ones(6),
            "is NumPy array of float64 on cpu but update is NumPy array of float32 on "
            "cpu",
        ),
        (
            lambda: torch.ones(6),
            "is PyTorch tensor of float32 on cpu but update is NumPy array of float32 "
            "on cpu",
        ),
    ],
)
def test_residual_that_does_not_fit_is_named(
    residuals: Callable[[], Any], text: str
) -> None:
    states = kept_states()
    states[1] = State(residuals())
    before = [bytes_of(state.residual) for state in states]
    with refuses(f"client 1: residual {text}", UpdateError):
        run(good_updates(), states=states, out=states)
    with refuses(f"client 1: out {text}", UpdateError):
        run(good_updates(), out=states)
    assert [bytes_of(state.residual) for state in states] == before


def test_residual_with_nan_is_refused_before_others_are_overwritten() -> None:
    states = kept_states()
    states[2] = State(spoilt(np.nan))
    before = [bytes_of(state.residual) for state in states]
    text = f"client 2, round 9: {NOT_FINITE.replace('update', 'update + residual')}"
    hint = " (update has none); State() starts without a residual"
    with refuses(f"{text}{hint}", UpdateError):
        run(good_updates(), states=states, out=states)
    assert [bytes_of(state.residual) for state in states] == before


def test_residual_nobody_may_write_to_is_no_out() -> None:
    states = kept_states()
    assert states[2].residual is not None
    states[2].residual.flags.writeable = False
    before = [bytes_of(state.residual) for state in states]
    with refuses("client 2: out must be writable, got a read-only array", UpdateError):
        run(good_updates(), states=states, out=states)
    assert [bytes_of(state.residual) for state in states] == before
    run(good_updates(), states=states)


def test_clients_cannot_share_one_out() -> None:
    states = [State(np.zeros(DIM, dtype=np.float32))] * N_CLIENTS
    text = "client 1: out must be an array of its own, got memory of client 0's out"
    with refuses(text, UpdateError):
        run(good_updates(), states=states, out=states)
    run(good_updates(), states=states)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_nothing_is_written_over_what_is_still_to_be_read(kind: Any) -> None:
    updates = [kind(each) for each in good_updates()]
    zeros = [kind(np.zeros(DIM, dtype=np.float32)) for _ in range(N_CLIENTS)]
    states = [State(each) for each in zeros]
    text = "client {}: out must be an array of its own, got memory of client {}'s {}"
    with refuses(text.format(0, 0, "update"), UpdateError):
        run(updates, states=states, out=[State(each) for each in updates])
    with refuses(text.format(2, 0, "residual"), UpdateError):
        run(updates, states=states, out=states[::-1])
    rows = kind(np.zeros(DIM + N_CLIENTS, dtype=np.float32))
    shifted = [State(rows[i : i + DIM]) for i in range(N_CLIENTS)]
    with refuses(text.format(1, 0, "out"), UpdateError):
        run(updates, states=shifted, out=shifted)
    halves = kind(np.zeros(N_CLIENTS * DIM, dtype=np.float32))
    apart = [State(halves[i * DIM : (i + 1) * DIM]) for i in range(N_CLIENTS)]
    run(updates, states=apart, out=apart)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_nothing_is_written_over_what_an_absent_client_keeps(kind: Any) -> None:
    updates = [kind(each) for each in good_updates()[:2]]
    shared = State(kind(np.zeros(DIM, dtype=np.float32)))
    text = "client 0: out must be an array of its own, got memory of client 1's "
    with refuses(f"{text}residual", UpdateError):
        run([updates[0], None], states=[shared, shared], out=[shared, shared])
    assert bytes_of(shared.residual) == bytes(4 * DIM)
    apart = [shared, State(kind(np.ones(DIM, dtype=np.float32)))]
    run([updates[0], None], states=apart, out=apart)


def test_a_residual_and_its_out_are_the_same_memory_or_apart() -> None:
    memory = np.zeros(DIM + 1, dtype=np.float32)
    updates = good_updates()[:1]
    text = "client 0: out must be an array of its own, got memory of client 0's "
    with refuses(f"{text}residual", UpdateError):
        run(updates, states=[State(memory[:-1])], out=[State(memory[1:])])
    run(updates, states=[State(memory[:-1])], out=[State(memory[:-1])])


def made_in_inference_mode() -> torch.Tensor:
    with torch.inference_mode():
        return torch.zeros(DIM)


@pytest.mark.parametrize(
    ("kept", "name", "text"),
    [
        (
            torch.zeros(DIM, requires_grad=True),
            "residual",
            "must not require a gradient, pass residual.detach()",
        ),
        (
            made_in_inference_mode(),
            "out",
            "must not be an inference tensor, pass one made outside "
            "torch.inference_mode()",
        ),
        (
            torch.zeros(1).expand(DIM),
            "out",
            "must have memory for each entry, got an expanded tensor",
        ),
    ],
)
def test_tensors_that_cannot_be_kept_are_refused(
    kept: torch.Tensor, name: str, text: str
) -> None:
    states = [State(kept)]
    with refuses(f"client 0: {name} {text}", UpdateError):
        run([torch.ones(DIM)], states=states, out=states)
    assert not kept.any()


@pytest.mark.parametrize("bits", [0, 33, 300])
def test_an_agreed_width_is_that_of_a_lane(bits: int) -> None:
    states = [State(None, bits)] * N_CLIENTS
    text = f"client 0: bits in states must be in 1..32 (a lane), got {bits}"
    with refuses(text):
        run(good_updates(), states=states)


def test_a_width_is_a_whole_number() -> None:
    width: Any = 12.7
    with refuses(
        "client 0: bits in states must be a whole number, got 12.7", TypeError
    ):
        run(good_updates(), states=[State(None, width)] * N_CLIENTS)


def test_a_residual_is_an_array() -> None:
    values: Any = [1.0] * DIM
    states = [State(values)] * N_CLIENTS
    text = "client 0: residual must be a NumPy array or a PyTorch tensor, got list"
    with refuses(text, UpdateError):
        run(good_updates(), states=states)
