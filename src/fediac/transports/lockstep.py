"""All clients side by side: each exchange waits until every client has asked it."""

from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from fediac import native
from fediac.compressors.protocol import Outcome, Round, State
from fediac.core.exchange import Answer, Exchange, IndexedSum, Sum, Tally
from fediac.core.ledger import Ledger, Row
from fediac.errors import LocalProtocolError
from fediac.transports.billing import bill_exchange

_SAME: dict[type[Exchange], tuple[str, ...]] = {
    Tally: ("dim", "threshold"),
    Sum: ("n_levels", "bits", "limit"),
    IndexedSum: ("size",),
}
"""What one answer for all clients takes to be equal."""


class Transport(Protocol):
    """Something that carries one exchange of all clients and brings the answer."""

    @property
    def payload_bytes(self) -> int:
        """Room for items in a packet."""
        ...

    def carry(self, requests: Mapping[int, Exchange]) -> Answer:
        """Return the answer to what all clients ask."""
        ...


def run_lockstep(
    clients: Mapping[int, Round],
    transport: Transport,
    *,
    round_number: int,
    pool: ThreadPoolExecutor | None = None,
) -> tuple[dict[int, Outcome], Ledger]:
    """Return every client's outcome: each exchange waits until all have asked it.

    Args:
        clients: Client number -> its round, not yet started.
        transport: Carries each exchange.
        round_number: For the ledger.
        pool: Runs clients side by side between exchanges; without it, one by one.
    """
    rows: list[Row] = []
    answers: tuple[Answer, ...] | None = None
    run = map if pool is None else pool.map
    step = 0
    while True:
        results = list(run(partial(_advance, answers), clients.values()))
        asked, outcomes = _sort_out(clients, results)
        if not asked:
            return outcomes, Ledger(tuple(rows))
        received = []
        for place in range(len(next(iter(asked.values())))):
            requests = {client: each[place] for client, each in asked.items()}
            answer = transport.carry(requests)
            rows += bill_exchange(
                requests,
                answer,
                round_number=round_number,
                step=step,
                payload_bytes=transport.payload_bytes,
            )
            received.append(answer)
        answers = tuple(received)
        step += 1


def _sort_out(
    clients: Iterable[int], results: Iterable[tuple[Exchange, ...] | Outcome]
) -> tuple[dict[int, tuple[Exchange, ...]], dict[int, Outcome]]:
    """Return who asks what, and who has finished with what."""
    asked: dict[int, tuple[Exchange, ...]] = {}
    outcomes: dict[int, Outcome] = {}
    for client, result in zip(clients, results, strict=True):
        if isinstance(result, Outcome):
            outcomes[client] = result
        else:
            asked[client] = result
    if asked:
        _check_lockstep(asked, outcomes)
    return asked, outcomes


def _advance(
    answers: tuple[Answer, ...] | None, client: Round
) -> tuple[Exchange, ...] | Outcome:
    """Return what a client asks next, or its outcome.

    Clients already run side by side, so a client's own kernels take one thread.
    """
    if not isinstance(client, Generator):
        raise LocalProtocolError(
            f"run_round must be a generator, with yield, got {_name_kind(client)}"
        )
    with native.single_thread():
        try:
            asked = next(client) if answers is None else client.send(answers)
        except StopIteration as stop:
            return _require_outcome(stop.value)
    return _require_exchanges(asked)


def _require_outcome(returned: object) -> Outcome:
    if not isinstance(returned, Outcome):
        raise LocalProtocolError(
            f"run_round must return an Outcome, got {_name_kind(returned)}"
        )
    if type(returned.state) is not State:  # what more one has would be forgotten
        raise LocalProtocolError(
            "run_round must return an Outcome with a State, whose extras have room for "
            f"more than a residual, got {_name_kind(returned.state)}"
        )
    return returned


def _require_exchanges(yielded: Any) -> tuple[Exchange, ...]:  # noqa: ANN401 - anything
    """Return what a round yielded, if a transport can carry it."""
    is_tuple = isinstance(yielded, tuple) and len(yielded) > 0
    if not is_tuple or not all(isinstance(each, Exchange) for each in yielded):
        raise LocalProtocolError(
            "run_round must yield exchanges, as in yield from ask(Max(1.0)), "
            f"got {_name_kind(yielded)}"
        )
    exchanges: tuple[Exchange, ...] = yielded
    return exchanges


def _name_kind(given: object) -> str:
    """Return the type of something, and of what a tuple holds."""
    name = type(given).__name__
    if not isinstance(given, tuple):
        return name
    return f"{name} of {', '.join(type(each).__name__ for each in given) or 'nothing'}"


def _check_lockstep(
    asked: Mapping[int, tuple[Exchange, ...]], outcomes: Mapping[int, Outcome]
) -> None:
    if outcomes:
        raise LocalProtocolError(
            f"client {next(iter(asked))} asks more exchanges than "
            f"client {next(iter(outcomes))}: all clients must ask the same"
        )
    first, *others = asked
    kinds = [type(each).__name__ for each in asked[first]]
    if len(set(kinds)) < len(kinds):
        # Bills and simulated packets tell them apart by their kind.
        raise LocalProtocolError(
            "exchanges that travel together must be of different kinds, got "
            f"{', '.join(kinds)}: ask one after the other"
        )
    for client in others:
        found = [type(each).__name__ for each in asked[client]]
        if found != kinds:
            raise LocalProtocolError(
                f"client {client} asks {', '.join(found)} but client {first} asks "
                f"{', '.join(kinds)}: all clients must ask the same"
            )
        for own, other in zip(asked[client], asked[first], strict=True):
            for name in _SAME.get(type(own), ()):
                if getattr(own, name) != getattr(other, name):
                    raise LocalProtocolError(
                        f"client {client} asks {type(own).__name__} with {name} "
                        f"{getattr(own, name)} but client {first} with "
                        f"{getattr(other, name)}: all clients must ask the same"
                    )
