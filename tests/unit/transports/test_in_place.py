"""A round that fails after residuals have been overwritten, at any of its steps."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fediac import (
    FedAvg,
    FediAC,
    Libra,
    OmniReduce,
    State,
    Switch,
    SwitchML,
    TopK,
    aggregate,
)
from fediac.compressors import Compressor, Outcome
from fediac.core.exchange import Answer, Exchange
from fediac.errors import FediacError, NotFiniteError
from fediac.extend import Wrapper
from fediac.transports.memory import MemoryTransport
from tests.support import bytes_of

DIM, N = 300, 3
KEEPING: list[Compressor] = [
    FediAC(N, 60, 2),
    FediAC(N, 60, 2, bits=10, fade=0.5),
    SwitchML(N),
    OmniReduce(N, 60, block=16),
    Libra(N, 60, hot=np.arange(0, DIM, 2)),
    TopK(N, 60),
]
FORGETTING: list[Compressor] = [FedAvg(N), SwitchML(N, residual=False)]


def name_of(compressor: Compressor) -> str:
    return type(compressor).__name__


def some_updates() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(DIM).astype(np.float32) for _ in range(N)]


def some_states() -> list[State]:
    rng = np.random.default_rng(1)
    return [State(rng.standard_normal(DIM).astype(np.float32)) for _ in range(N)]


def copies(states: Sequence[State]) -> list[State]:
    return [replace(each, residual=np.array(each.residual)) for each in states]


def residuals(states: Sequence[State]) -> list[bytes]:
    return [bytes_of(each.residual) for each in states]


def run(compressor: Compressor, states: Sequence[State], **settings: Any) -> Any:
    return aggregate(
        some_updates(),
        compressor,
        seed=1,
        round_number=1,
        states=states,
        **settings,
    )


Fail = Callable[[int | None], list[int]]


@pytest.fixture
def fail_at(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Let an exchange fail, if any; return how many there were, in a list."""
    carry = MemoryTransport.carry

    def patch(step: int | None) -> list[int]:
        seen = [0]

        def counted(self: MemoryTransport, requests: Mapping[int, Exchange]) -> Answer:
            seen[0] += 1
            if seen[0] - 1 == step:
                raise FediacError("the cable is out")
            return carry(self, requests)

        monkeypatch.setattr(MemoryTransport, "carry", counted)
        return seen

    return patch


def steps_of(compressor: Compressor, fail_at: Fail) -> range:
    seen = fail_at(None)
    run(compressor, some_states())
    return range(seen[0])


def fail(compressor: Compressor, states: Sequence[State], **settings: Any) -> None:
    with pytest.raises(FediacError, match=r"^the cable is out$"):
        run(compressor, states, **settings)


@pytest.mark.parametrize("inner", [*KEEPING, *FORGETTING], ids=name_of)
def test_an_own_algorithm_s_residuals_are_put_back(
    inner: Compressor, fail_at: Fail
) -> None:
    own = Wrapper(inner)
    for step in steps_of(own, fail_at):
        states = some_states()
        fail_at(step)
        fail(own, states, out=states)
        assert residuals(states) == residuals(some_states())
        fail_at(None)
        second, expected = run(own, states, out=states), run(own, some_states())
        assert bytes_of(second.mean) == bytes_of(expected.mean)
        assert second.states[0].residual is None or (
            residuals(second.states) == residuals(expected.states)
        )


@pytest.mark.parametrize("compressor", KEEPING, ids=name_of)
def test_the_package_s_own_residuals_are_refused_then(
    compressor: Compressor, fail_at: Fail
) -> None:
    for step in steps_of(compressor, fail_at):
        states = some_states()
        fail_at(step)
        fail(compressor, states, out=states)
        fail_at(None)
        with pytest.raises(NotFiniteError, match=r"State\(\) starts without a resid"):
            run(compressor, states, out=states)


@pytest.mark.parametrize("compressor", FORGETTING, ids=name_of)
def test_residuals_that_are_not_written_are_left_alone(
    compressor: Compressor, fail_at: Fail
) -> None:
    states = some_states()
    fail_at(0)
    fail(compressor, states, out=states)
    assert residuals(states) == residuals(some_states())


@pytest.mark.parametrize("compressor", [*KEEPING, *FORGETTING], ids=name_of)
@pytest.mark.parametrize("has_out", [False, True])
def test_other_arrays_leave_states_as_they_are(
    compressor: Compressor, fail_at: Fail, *, has_out: bool
) -> None:
    for step in steps_of(compressor, fail_at):
        states = some_states()
        fail_at(step)
        fail(compressor, states, out=copies(states) if has_out else None)
        assert residuals(states) == residuals(some_states())


@dataclass(frozen=True)
class FailsLast(Wrapper):
    """Fails for the last client, when the inner algorithm has ended."""

    def run_round(
        self, update: Any, state: Any, stream: Any, *, out: Any = None
    ) -> Any:
        def last() -> Generator[Any, Any, Outcome]:
            outcome = yield from self.inner.run_round(update, state, stream, out=out)
            if stream.client == N - 1:
                raise RuntimeError("mine")
            return outcome

        return last()


@dataclass(frozen=True)
class SaysNothing(Wrapper):
    """Does not say what it asks, so that it is known only when it asks."""

    def asks(self) -> Any:
        return iter(())


def test_an_own_algorithm_may_fail_after_its_last_exchange() -> None:
    states = some_states()
    with pytest.raises(RuntimeError, match=r"^mine$"):
        run(FailsLast(FediAC(N, 60, 2)), states, out=states)
    assert residuals(states) == residuals(some_states())


def test_an_own_algorithm_may_find_the_switch_too_small() -> None:
    states = some_states()
    libra = SaysNothing(Libra(N, 60, hot=np.arange(DIM)))
    with pytest.raises(ValueError, match=r"^an indexed sum must have at most"):
        run(libra, states, out=states, switch=Switch(1000, payload_bytes=64))
    assert residuals(states) == residuals(some_states())
