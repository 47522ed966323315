"""A switch elsewhere, and every client in a process of its own.

The processes compress and exchange, each over its own socket; they hold nothing between
rounds. So one that is killed costs another session: the round is run again by a new
process, from the same update and the same state.
"""

import multiprocessing
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, to_device

from fediac import native
from fediac.compressors.protocol import Compressor, Facts, Outcome, State
from fediac.core.ledger import Ledger, Row
from fediac.core.mean import FloatMean, Mean
from fediac.core.rng import Stream
from fediac.core.types import Array, Update
from fediac.errors import SessionError
from fediac.remote.link import drive
from fediac.remote.switch import WAIT_S, Opened, RemoteSwitch
from fediac.remote.switch_client import SwitchClient
from fediac.switch.counters import Counters
from fediac.transports.capacity import require_capacity
from fediac.transports.protocol import ClientRound, RoundRun

_LATE_S = 10.0
"""After a session was given up, who has not said so by then is killed."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A client's round: what its process is sent, all in NumPy's arrays."""

    session: int
    key: bytes = field(repr=False)
    place: int
    compressor: Compressor
    update: Any
    state: State
    stream: Stream
    round_number: int


@dataclass(frozen=True, slots=True)
class _Done:
    """What the process sends back; the mean only from the first place."""

    mean: Any
    state: State
    facts: Facts
    rows: tuple[Row, ...]
    counters: Counters


@dataclass(frozen=True, slots=True)
class _Address:
    """Where the switch is, and how to talk to it."""

    switch: str
    mtu: int
    patience_s: float


class ClientProcesses(RemoteSwitch):
    """Where training can have its sums made, by clients in processes of their own.

    Args:
        address: ``HOST:PORT`` of the switch.
        key: Of the job; None: the switch has none.
        wait_s: How long to try again when there is no switch, or none any more.
        mtu: The longest IP packet that the path takes.
        patience_s: How long the switch may be silent.
    """

    def __init__(
        self,
        address: str,
        *,
        key: bytes | None = None,
        wait_s: float = WAIT_S,
        mtu: int = 1500,
        patience_s: float = 3.0,
    ) -> None:
        super().__init__(
            address, key=key, wait_s=wait_s, mtu=mtu, patience_s=patience_s
        )
        self._address = _Address(address, mtu, patience_s)
        self._workers: dict[int, _Worker] = {}

    def pids(self) -> dict[int, int]:
        """Return each client's process, by its number."""
        return {i: each.process.pid or 0 for i, each in self._workers.items()}

    def run_clients(
        self, clients: Mapping[int, ClientRound], *, round_number: int
    ) -> RoundRun:
        """Return what a round of these clients gives.

        Raises:
            SessionError: No session could be brought to its end in time.
        """

        def attempt() -> RoundRun:
            with self.open(len(clients)) as opened:
                first = next(iter(clients.values()))
                require_capacity(first.compressor, opened.layout)
                tasks = {
                    i: _task(opened, place, each, round_number)
                    for place, (i, each) in enumerate(clients.items())
                }
                done = self._run(opened, tasks)
            return _join(done, clients)

        return self.try_again(attempt)

    def close(self) -> None:
        """End the processes."""
        for client in list(self._workers):
            self._workers.pop(client).end()

    def _run(self, opened: Opened, tasks: Mapping[int, _Task]) -> dict[int, _Done]:
        """Let processes run their clients' rounds; all or none of them count."""
        workers = {i: self._worker_of(i) for i in tasks}
        said: dict[int, _Done | Exception] = {}

        def is_done() -> bool:
            for i, worker in workers.items():
                if i not in said and worker.has_said:
                    said[i] = worker.receive()
            is_bad = any(isinstance(each, Exception) for each in said.values())
            return len(said) == len(tasks) or is_bad or opened.problem is not None

        waiting = [each.pipe for each in workers.values()]
        try:
            for i, task in tasks.items():
                workers[i].send(task)
            drive([(opened.home, opened.opening)], is_done, also=waiting)
        except BaseException:
            self.close()
            raise
        done = {i: each for i, each in said.items() if isinstance(each, _Done)}
        if len(done) == len(tasks):
            return {i: done[i] for i in tasks}
        errors = [each for each in said.values() if isinstance(each, Exception)]
        self._stop({i: each for i, each in workers.items() if i not in said}, opened)
        raise errors[0] if errors else _problem_of(opened)

    def _stop(self, workers: "Mapping[int, _Worker]", opened: Opened) -> None:
        """Wait until the others have given the session up as well."""
        opened.opening.close(0)
        with suppress(SessionError):
            opened.home.send(opened.opening.send(0))
        until_s = time.monotonic() + _LATE_S
        for i, worker in workers.items():
            if worker.pipe.poll(max(0.0, until_s - time.monotonic())):
                worker.receive()
            else:
                self._workers.pop(i).end()

    def _worker_of(self, client: int) -> "_Worker":
        worker = self._workers.get(client)
        if worker is None or not worker.process.is_alive():
            worker = self._workers[client] = _Worker(client, self._address)
        return worker


class _Worker:
    """One client's process, and the way to it."""

    def __init__(self, client: int, address: _Address) -> None:
        self._client = client
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(
            target=_serve,
            args=(theirs, address),
            name=f"fediac client {client}",
            daemon=True,
        )
        self.process.start()
        theirs.close()

    @property
    def has_said(self) -> bool:
        """Whether there is something to receive, or nobody any more."""
        return self.pipe.poll()

    def send(self, task: _Task) -> None:
        """Give it a round to run."""
        with suppress(BrokenPipeError, ConnectionResetError):  # received as its end
            self.pipe.send(task)

    def receive(self) -> _Done | Exception:
        """Return what it says; that it is no more is an error of the session."""
        try:
            said: _Done | Exception = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join(_LATE_S)
            return SessionError(
                f"client {self._client}'s process ended with "
                f"{_say_exit(self.process.exitcode)}"
            )
        return said

    def end(self) -> None:
        """End it."""
        self.pipe.close()
        self.process.kill()
        self.process.join(_LATE_S)


def _say_exit(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def _problem_of(opened: Opened) -> SessionError:
    return opened.problem or SessionError("a session without a reason has ended")


def _task(opened: Opened, place: int, client: ClientRound, round_number: int) -> _Task:
    state = client.state
    extras = {name: _to_numpy(each) for name, each in state.extras.items()}
    residual = None if state.residual is None else _to_numpy(state.residual)
    return _Task(
        opened.opening.session,
        opened.key,
        place,
        client.compressor,
        _to_numpy(client.update),
        replace(state, residual=residual, extras=extras),
        client.stream,
        round_number,
    )


def _to_numpy(array: Array) -> Any:  # noqa: ANN401 - an array of any type
    return np.asarray(to_device(array, "cpu"))


def _as_kind(array: Any, like: Update) -> Update:  # noqa: ANN401 - as above
    return array_namespace(like).asarray(array, device=device(like))


def _join(done: Mapping[int, _Done], clients: Mapping[int, ClientRound]) -> RoundRun:
    """Return what clients gave as one round's result, in the kind of their updates."""
    first = next(iter(done))
    mean = Mean((FloatMean(_as_kind(done[first].mean, clients[first].update), None),))
    outcomes = {}
    for i, each in done.items():
        like, state = clients[i].update, each.state
        residual = None if state.residual is None else _as_kind(state.residual, like)
        extras = {name: _as_kind(array, like) for name, array in state.extras.items()}
        kept = replace(state, residual=residual, extras=extras)
        outcomes[i] = Outcome(mean, kept, each.facts)
    # In memory an exchange is billed at once: what all sent, then what all got.
    rows = zip(*(each.rows for each in done.values()), strict=True)
    ledger = Ledger(tuple(row for together in rows for row in together))
    counters = replace(
        done[first].counters,
        packets_in=sum(each.counters.packets_in for each in done.values()),
    )
    return RoundRun(outcomes, ledger, counters)


def _serve(pipe: Connection, address: _Address) -> None:
    """Run rounds as long as somebody gives them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    with native.single_thread():
        while True:
            try:
                task: _Task = pipe.recv()
            except EOFError:
                return
            try:
                said: _Done | Exception = _run(task, address)
            except Exception as error:  # noqa: BLE001 - the parent raises it
                said = error
            with suppress(BrokenPipeError):
                pipe.send(said)


def _run(task: _Task, address: _Address) -> _Done:
    with SwitchClient(
        address.switch,
        session=task.session,
        client=task.place,
        key=task.key,
        mtu=address.mtu,
        patience_s=address.patience_s,
    ) as door:
        run = task.compressor.run_round(task.update, task.state, task.stream)
        outcome, ledger = door.run(run, round_number=task.round_number)
        mean = outcome.mean.dense(task.update) if task.place == 0 else None
        client = task.stream.client
        rows = tuple(replace(row, client=client) for row in ledger.rows)
        return _Done(mean, outcome.state, outcome.facts, rows, door.counters)
