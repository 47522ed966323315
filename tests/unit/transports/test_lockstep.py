from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from fediac.compressors import Facts, Outcome, Round, State, ask
from fediac.core.exchange import Answer, Exchange, Max, Peak, Sum, Tally
from fediac.core.mean import Mean
from fediac.errors import LocalProtocolError
from fediac.transports.lockstep import run_lockstep
from tests.support import refuses


class Recorder:
    """Answers every exchange with a peak and remembers who asked."""

    payload_bytes = 99

    def __init__(self) -> None:
        self.asked: list[dict[int, Exchange]] = []

    def carry(self, requests: Mapping[int, Exchange]) -> Answer:
        self.asked.append(dict(requests))
        return Peak(float(len(self.asked)))


def client(*batches: tuple[Exchange, ...]) -> Round:
    """A client that asks these exchanges; its state's bits add up the answers."""
    total = 0
    for exchanges in batches:
        answers: Any = yield from ask(*exchanges)
        several = answers if isinstance(answers, tuple) else (answers,)
        total = 10 * total + sum(int(answer.peak) for answer in several)
    facts = Facts(0, 0, 0, 0.0, 0.0, 0.0, 0.0)
    return Outcome(Mean(), State(bits=total or None), facts)


def spoiled() -> Round:
    yield (Max(1.0),)
    raise RuntimeError("client fell over")


@pytest.mark.parametrize("n_threads", [1, 3])
def test_exchange_waits_until_every_client_has_asked_it(n_threads: int) -> None:
    together = (Max(2.0), Sum(np.zeros(1, dtype=np.uint8), 1, 8, 8, 7))
    clients = {i: client((Max(1.0),), together) for i in (4, 0, 9)}
    recorder = Recorder()
    outcomes, ledger = run_lockstep(
        clients, recorder, round_number=6, n_threads=n_threads
    )
    assert [sorted(asked) for asked in recorder.asked] == [[0, 4, 9]] * 3
    assert list(outcomes) == [4, 0, 9]
    # The first answer is 1; the second batch's are 2 and 3 together.
    assert {outcome.state.bits for outcome in outcomes.values()} == {15}
    assert [row.step for row in ledger.rows] == [0] * 6 + [1] * 12
    assert {row.round_number for row in ledger.rows} == {6}
    assert {row.payload_bytes for row in ledger.rows} == {99}


def test_clients_that_ask_nothing_are_done_at_once() -> None:
    recorder = Recorder()
    outcomes, ledger = run_lockstep({0: client()}, recorder, round_number=1)
    assert list(outcomes) == [0]
    assert ledger.rows == ()


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (
            Sum(np.zeros(10, dtype=np.uint8), 10, 8, 8, 7),
            Sum(np.zeros(6, dtype=np.uint8), 6, 8, 8, 7),
            "Sum with n_levels 6 but client 0 with 10",
        ),
        (
            Tally(np.zeros(1, dtype=np.uint8), 8, 2, 1.0, 9),
            Tally(np.zeros(1, dtype=np.uint8), 8, 3, 1.0, 9),
            "Tally with threshold 3 but client 0 with 2",
        ),
    ],
)
def test_clients_that_ask_other_sizes_are_refused(
    first: Exchange, second: Exchange, text: str
) -> None:
    clients = {0: client((first,)), 1: client((second,))}
    with refuses(
        f"client 1 asks {text}: all clients must ask the same", LocalProtocolError
    ):
        run_lockstep(clients, Recorder(), round_number=1)


def test_exchanges_that_travel_together_are_of_different_kinds() -> None:
    clients = {0: client((Max(1.0), Max(2.0)))}
    text = (
        "exchanges that travel together must be of different kinds, got Max, Max: "
        "ask one after the other"
    )
    with refuses(text, LocalProtocolError):
        run_lockstep(clients, Recorder(), round_number=1)


def test_client_that_asks_more_than_others_is_refused() -> None:
    clients = {0: client((Max(1.0),)), 1: client((Max(1.0),), (Max(1.0),))}
    text = "client 1 asks more exchanges than client 0: all clients must ask the same"
    with refuses(text, LocalProtocolError):
        run_lockstep(clients, Recorder(), round_number=1)


def test_client_that_asks_something_else_is_refused() -> None:
    votes = Tally(np.zeros(1, dtype=np.uint8), 1, 1, 1.0, 8)
    clients = {0: client((Max(1.0),)), 5: client((votes, Max(1.0)))}
    text = "client 5 asks Tally, Max but client 0 asks Max: all clients must ask the"
    with refuses(f"{text} same", LocalProtocolError):
        run_lockstep(clients, Recorder(), round_number=1)


def test_error_of_a_client_comes_through() -> None:
    clients = {0: client((Max(1.0),)), 1: spoiled()}
    with refuses("client fell over", RuntimeError):
        run_lockstep(clients, Recorder(), round_number=1, n_threads=2)


def test_a_round_that_is_no_generator_is_refused() -> None:
    text = "run_round must be a generator, with yield, got int"
    with refuses(text, LocalProtocolError):
        run_lockstep({0: 3}, Recorder(), round_number=1)  # type: ignore[dict-item]
