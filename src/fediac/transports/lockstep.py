"""All clients side by side: each exchange waits until every client has asked it."""

from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from fediac import native
from fediac.compressors.protocol import Outcome, Round
from fediac.core.exchange import Answer, Exchange
from fediac.core.ledger import Ledger, Row
from fediac.errors import LocalProtocolError
from fediac.transports.billing import bill_exchange
from fediac.transports.exchange_checks import (
    check_same,
    require_exchanges,
    require_outcome,
)
from fediac.transports.protocol import Transport


def run_lockstep(
    clients: Mapping[int, Round],
    transport: Transport,
    *,
    round_number: int,
    n_threads: int = 1,
) -> tuple[dict[int, Outcome], Ledger]:
    """Return every client's outcome: each exchange waits until all have asked it.

    Args:
        clients: Client number -> its round, not yet started.
        transport: Carries each exchange.
        round_number: For the ledger.
        n_threads: How many clients run side by side between exchanges.
    """
    n_threads = min(n_threads, len(clients))
    with ThreadPoolExecutor(n_threads) as pool:
        run = pool.map if n_threads > 1 else map
        rows: list[Row] = []
        answers: tuple[Answer, ...] | None = None
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
    """Return which clients ask what, and the outcomes of those that have finished."""
    asked: dict[int, tuple[Exchange, ...]] = {}
    outcomes: dict[int, Outcome] = {}
    for client, result in zip(clients, results, strict=True):
        if isinstance(result, Outcome):
            outcomes[client] = result
        else:
            asked[client] = result
    if asked:
        check_same(asked, outcomes)
    return asked, outcomes


def _advance(
    answers: tuple[Answer, ...] | None, client: Round
) -> tuple[Exchange, ...] | Outcome:
    """Return what a client asks next, or its outcome.

    Clients already run side by side, so a client's own kernels take one thread.
    """
    if not isinstance(client, Generator):
        raise LocalProtocolError(
            f"run_round must be a generator, with yield, got {type(client).__name__}"
        )
    with native.single_thread():
        try:
            asked = next(client) if answers is None else client.send(answers)
        except StopIteration as stop:
            return require_outcome(stop.value)
    return require_exchanges(asked)
