"""What an algorithm keeps beside a residual: it comes back, or is refused by name."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from fediac import SwitchML
from fediac.compressors import Round, State
from fediac.errors import UpdateError
from tests.support import bytes_of, refuses
from tests.unit.transports.checked import (
    DIM,
    N_CLIENTS,
    good_updates,
    kept_states,
    run,
)


@dataclass(frozen=True)
class Keeping:
    """SwitchML that leaves its clients what ``keep`` makes of what they had."""

    keep: Callable[[Any], Any]
    n_clients: int = N_CLIENTS

    def run_round(
        self, update: Any, state: State, stream: Any, *, out: Any = None
    ) -> Round:
        switchml = SwitchML(self.n_clients)
        outcome = yield from switchml.run_round(update, state, stream, out=out)
        extras = self.keep(state.extras)
        return type(outcome)(
            outcome.mean, State(outcome.state.residual, None, extras), outcome.facts
        )


def pickled(state: State) -> State:
    loaded: State = pickle.loads(pickle.dumps(state))
    return loaded


def counted(before: Any) -> Any:
    return {"rounds": before.get("rounds", np.zeros(1, np.int64)) + 1}


def test_extras_of_one_round_are_there_in_the_next() -> None:
    first = run(good_updates(), compressor=Keeping(counted))
    # Who is absent keeps what it had.
    updates = [*good_updates()[:2], None]
    second = run(updates, compressor=Keeping(counted), states=first.states)
    assert [int(state.extras["rounds"][0]) for state in second.states] == [2, 2, 1]


def test_extras_may_be_arrays_of_any_shape_and_kind() -> None:
    extras = {
        "a matrix": np.ones((2, 3)),
        "whole": np.arange(3),
        "a number": np.asarray(7.0),
        "nothing": np.zeros((0, 4)),
        "flags": np.asarray([True, False]),
    }
    states = [State(each.residual, None, extras) for each in kept_states()]
    after = run(good_updates(), compressor=Keeping(dict), states=states, out=states)
    assert [dict(state.extras) for state in after.states] == [extras] * N_CLIENTS


PLACES = [
    ([1, 2], "extras must be arrays by name, got list"),
    ({3: np.ones(2)}, "extras must be arrays by name, got the name 3"),
    (
        {"rounds": 4},
        "extras['rounds'] must be a NumPy array or a PyTorch tensor, got int",
    ),
    (
        {"old": torch.ones(2)},
        "extras['old'] must be a NumPy array on cpu as updates are, got a PyTorch "
        "tensor on cpu",
    ),
    (
        {"old": torch.ones(2, requires_grad=True)},
        "extras['old'] must not require a gradient, pass extras['old'].detach()",
    ),
    (
        {"half a pair \ud800": np.ones(2)},
        "extras must be arrays by name, got the name 'half a pair \\ud800'",
    ),
    *(
        (
            {"odd": array},
            "extras['odd'] must be of floats, whole numbers or booleans, got "
            f"{array.dtype}".replace("torch.", ""),
        )
        for array in (
            np.ones(2, np.complex128),
            np.asarray(["a"]),
            np.asarray([None]),
            np.zeros(1, "M8[s]"),
            torch.ones(2, dtype=torch.complex64),
        )
    ),
    (
        {"odd": torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)},
        "extras['odd'] must be dense, pass extras['odd'].to_dense()",
    ),
]


@pytest.mark.parametrize(("extras", "text"), PLACES)
def test_extras_that_no_checkpoint_could_keep_are_refused(
    extras: Any, text: str
) -> None:
    states = kept_states()
    states[1] = State(states[1].residual, None, extras)
    before = [bytes_of(state.residual) for state in states]
    with refuses(f"client 1: {text}", UpdateError):
        run(good_updates(), states=states, out=states)
    assert [bytes_of(state.residual) for state in states] == before
    with refuses(f"client 0: {text}", UpdateError):
        run(good_updates(), compressor=Keeping(lambda _: extras))


def test_nobody_changes_the_extras_of_others() -> None:
    # Clients may begin with one state; each would write into it.
    state = State(extras={"a": np.ones(1)})
    with pytest.raises(TypeError, match="does not support item assignment"):
        state.extras["b"] = np.ones(1)  # type: ignore[index]
    given = {"z": np.ones(1), "a": np.ones(1)}
    state = State(extras=given)
    given.pop("z")
    assert list(state.extras) == ["z", "a"]


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, pickled])
def test_states_can_be_copied_and_sent_to_other_processes(copied: Any) -> None:
    state = copied(State(np.ones(3), 9, {"a": np.arange(2)}))
    assert type(state) is State
    assert np.array_equal(np.asarray(state.residual), np.ones(3))
    assert state.bits == 9
    assert list(state.extras) == ["a"]
    assert np.array_equal(state.extras["a"], np.arange(2))


@pytest.mark.parametrize("absent", [(), (2,)])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_nothing_is_written_over_extras(kind: Any, absent: tuple[int, ...]) -> None:
    updates: list[Any] = [kind(each) for each in good_updates()]
    residuals = [kind(np.zeros(DIM, dtype=np.float32)) for _ in updates]
    # A column of a matrix whose first row is the residual of client 0.
    column = residuals[0].reshape(2, 3)[:, 1]
    states = [State(each) for each in residuals]
    states[2] = State(residuals[2], None, {"velocity": column})
    for client in absent:
        updates[client] = None
    text = "client 0: out must be an array of its own, got memory of client 2's "
    with refuses(f"{text}extras['velocity']", UpdateError):
        run(updates, states=states, out=states)
    run(updates, states=states)
