"""A coordinator with clients elsewhere: it tells them, drives rounds and commits them.

Clients connect to it over TCP and say how they stand; the machine of
`fediac.sessions.coordinator` says what each of them lacks. It may be killed at any
time: started again on its journal, it goes on with the round after the last commit.
"""

import selectors
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from fediac.core.types import Update
from fediac.errors import ArgumentError, SessionError, say_reason
from fediac.network.addresses import Endpoint, is_loopback
from fediac.remote.channel import Channel
from fediac.remote.coordinator import draw_number, milliseconds
from fediac.remote.journal_file import FileJournal
from fediac.remote.link import Link, clock_us
from fediac.remote.switch_client import patience_of
from fediac.sessions.coordinator import (
    CommittedRound,
    CoordinatorSettings,
)
from fediac.sessions.coordinator import (
    Coordinator as Machine,
)
from fediac.sessions.messages import Alive, Hello, Model, Over, Refused, Status, Word
from fediac.sessions.replay import Recipe
from fediac.wire.header import payload_of
from fediac.wire.tag import member_key

_BACKLOG = 1024
_MAX_CONNECTIONS = 2048
_GREETING_US = 10_000_000
"""Who has not proved to have the key by then is sent away."""

_REPEAT_US = 2_000_000
"""A client that says the same again after so long is told the same again."""

_WAIT_S = 0.5
"""The longest time between two looks at what has become due."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a conductor waits for what.

    Attributes:
        switch_s: For the switch to say anything.
        member_s: For a member of a session to say anything; then it is aborted.
        lease_s: The switch ends a session when the conductor is silent for longer.
        attempt_s: For a session to end.
        gather_s: For clients to be ready, before a round is made without them.
        round_s: For a round, all attempts and waiting included.
        goodbye_s: For clients to have the last model, at the end.
    """

    switch_s: float = 5.0
    member_s: float = 10.0
    lease_s: float = 10.0
    attempt_s: float = 600.0
    gather_s: float = 60.0
    round_s: float = 3600.0
    goodbye_s: float = 10.0


@dataclass(slots=True)
class _Peer:
    """One connection: who it is of, and what it was told last."""

    channel: Channel
    since_us: int
    client: int | None = None
    told: tuple[object, ...] = ()
    told_us: int = 0
    was_writing: bool = field(default=False)


class Conductor:
    """Makes rounds of clients in other processes, through a switch.

    Args:
        switch: ``HOST:PORT`` of the switch; clients are told it, too.
        recipe: How a round is run; all clients have the same, see `fediac.Compressing`.
        model: The model before the first round, a vector; with a journal that has
            rounds, theirs are applied to it.
        job: The job's number, 0..2**63-1.
        journal: A file: what was committed outlives this process.
        listen: ``HOST:PORT`` for clients; port 0 takes any that is free.
        key: Of the job, which stays here: clients have what `fediac.member_key` makes
            of it; None: the switch has none.
        mtu: The longest IP packet that all paths to the switch take.
        bounds: How long to wait for what.
        insecure: Listen for other machines without a key, too.

    Raises:
        FediacError: It cannot listen, or another process has the journal.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each setting
        self,
        switch: str,
        recipe: Recipe,
        model: Update,
        *,
        job: int,
        journal: Path | str,
        listen: str = "127.0.0.1:0",
        key: bytes | None = None,
        mtu: int = 1500,
        bounds: Bounds = Bounds(),
        insecure: bool = False,
    ) -> None:
        if not 0 <= job < 1 << 63:
            raise ArgumentError("job", f"must be in 0..2**63-1, got {job}")
        self._switch, self._bounds = switch, bounds
        self._key = None if key is None else member_key(key)
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, _Peer] = {}
        self._missed: set[int] = set()
        endpoint = Endpoint.parse(switch, name="switch")
        self._server = _listen(Endpoint.parse(listen, name="listen"))
        try:
            if key is None and not insecure:
                _require_local(self._server, listen)
            self._journal = FileJournal(Path(journal))
        except BaseException:
            self._server.close()
            raise
        self._link = Link(endpoint)
        settings = CoordinatorSettings(
            job,
            recipe,
            draw_number,
            key,
            payload_bytes=payload_of(mtu),
            lease_ms=milliseconds("lease_s", bounds.lease_s),
            silence_ms=milliseconds("member_s", bounds.member_s),
            patience_us=patience_of(bounds.switch_s),
            attempt_us=patience_of(bounds.attempt_s),
        )
        self._machine = Machine(settings, self._journal, Model(0, model))
        self._selector.register(self._server, selectors.EVENT_READ)
        self._selector.register(self._link.socket, selectors.EVENT_READ)

    # For its owner

    @property
    def address(self) -> str:
        """Where clients connect to."""
        return str(Endpoint.of(self._server.getsockname()))

    @property
    def model(self) -> Model:
        """The model with all committed rounds."""
        return self._machine.model

    @property
    def failures(self) -> list[str]:
        """Why sessions were aborted, in order."""
        return list(self._machine.failures)

    @property
    def n_resent(self) -> int:
        """Packets to the switch that were sent again, in the sessions that are over."""
        return self._machine.n_resent

    @property
    def connected(self) -> tuple[int, ...]:
        """The clients that are connected now."""
        peers = self._peers.values()
        return tuple(sorted(each.client for each in peers if each.client is not None))

    def run_round(
        self, clients: Iterable[int], *, enough: int | None = None
    ) -> CommittedRound:
        """Return the next round, once it is committed.

        Args:
            clients: Who is expected to take part.
            enough: With so many it goes on without the others, once ``gather_s`` is
                over; None: with all of them only. Who was missed in the round before
                is not waited for until it is connected again.

        Raises:
            SessionError: It could not be made within ``round_s``, or never can be.
        """
        everyone = tuple(clients)
        least = len(everyone) if enough is None else enough
        if not 1 <= least <= len(everyone):
            raise ArgumentError(
                "enough", f"must be in 1..{len(everyone)} (clients), got {enough}"
            )
        if self._machine.wanted_round is None:
            # The dead are waited for once: from then on, until they are back.
            away = self._missed.difference(self.connected)
            expected = tuple(i for i in everyone if i not in away)
            self._machine.want_round(
                expected if len(expected) >= least else everyone,
                enough=least,
                gather_us=patience_of(self._bounds.gather_s),
                now_us=clock_us(),
            )
        made: list[CommittedRound] = []

        def is_done() -> bool:
            made.extend(self._machine.take_made())
            return bool(made) or self._machine.is_hopeless

        if not self._drive(is_done, self._bounds.round_s) or not made:
            raise SessionError(
                self._say_why(),
                missing=self._machine.late,
                is_final=self._machine.is_hopeless,
            )
        self._missed = set(everyone).difference(made[0].record.members)
        return made[0]

    def _say_why(self) -> str:
        number, late = self._machine.wanted_round, self._machine.late
        text = f"round {number} was not made"
        if not self._machine.is_hopeless:
            text = f"{text} within {self._bounds.round_s:g} s"
        if late:
            names = ", ".join(map(str, late))
            text = f"{text}, waiting for {'client' if len(late) == 1 else 'clients'} "
            text = f"{text}{names}"
        if self._machine.failures:
            text = f"{text}; {self._machine.failures[-1]}{self._link.hint}"
        return text

    def finish(self) -> None:
        """Wait until clients have the last model, and tell them that it is over."""

        def is_done() -> bool:
            return all(map(self._machine.is_up_to_date, self.connected))

        self._drive(is_done, self._bounds.goodbye_s)
        for peer in self._peers.values():
            peer.channel.send(Over())
        self._drive(
            lambda: not any(each.channel.has_waiting for each in self._peers.values()),
            self._bounds.goodbye_s,
        )

    def close(self) -> None:
        """Leave: clients wait for the next conductor of this journal."""
        for peer in list(self._peers.values()):
            peer.channel.close()
        self._peers.clear()
        self._selector.close()
        self._server.close()
        self._link.close()
        self._journal.close()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Finish, unless something went wrong, and leave."""
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()

    # The loop

    def _drive(self, is_done: Callable[[], bool], within_s: float) -> bool:
        """Go on until something is done; return whether that was in time."""
        until_s = time.monotonic() + within_s
        self._act()
        while not is_done():
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return False
            self._wait(left_s)
            self._act()
        return True

    def _wait(self, most_s: float) -> None:
        """Wait for what happens next and take it."""
        due_us = self._machine.deadline_us
        wait_s = _WAIT_S if due_us is None else max(0.0, (due_us - clock_us()) / 1e6)
        for key, _ in self._selector.select(min(wait_s, most_s, _WAIT_S)):
            if key.fileobj is self._server:
                self._accept()
            elif key.fileobj is self._link.socket:
                self._machine.receive(self._link.receive(), clock_us())
            else:
                self._hear(key.data)

    def _act(self) -> None:
        """Send what is due, to the switch and to clients."""
        self._link.send(self._machine.send(clock_us()))
        words = dict(self._machine.words_due())
        for peer in list(self._peers.values()):
            word = words.get(peer.client) if peer.client is not None else None
            if word is not None:
                self._tell(peer, word)
            is_silent = clock_us() > peer.since_us + _GREETING_US
            if peer.channel.is_closed or (is_silent and not peer.channel.is_proved):
                self._drop(peer)
            else:
                self._watch(peer)

    def _watch(self, peer: _Peer) -> None:
        """Look for room in a socket as long as something waits for it."""
        if peer.was_writing != peer.channel.has_waiting:
            peer.was_writing = peer.channel.has_waiting
            events = selectors.EVENT_READ
            events |= selectors.EVENT_WRITE if peer.was_writing else 0
            self._selector.modify(peer.channel.socket, events, peer)

    # Clients

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._server.accept()
            if len(self._peers) >= _MAX_CONNECTIONS:
                connection.close()
                return
            channel = Channel(connection, self._key, is_server=True)
            peer = _Peer(channel, clock_us())
            self._peers[connection] = peer
            self._selector.register(connection, selectors.EVENT_READ, peer)
            channel.send(Hello(self._switch))
            channel.flush()

    def _hear(self, peer: _Peer) -> None:
        """Take what a client says; who says what nobody can is sent away."""
        peer.channel.flush()
        try:
            for said in peer.channel.receive():
                self._answer(peer, said)
        except SessionError as error:
            peer.channel.send(Refused(str(error)))
            peer.channel.flush()
            peer.channel.is_closed = True

    def _answer(self, peer: _Peer, said: Any) -> None:  # noqa: ANN401 - anything
        if not isinstance(said, Status):
            raise SessionError(f"a client says how it stands, got {said!r:.40}")
        if peer.client is None:
            self._replace(said.client)
            peer.client = said.client
        if peer.client != said.client:
            raise SessionError(f"client {peer.client} says it is {said.client}")
        word = self._machine.hear(said, clock_us())
        if not self._tell(peer, word):
            peer.channel.send(Alive())

    def _replace(self, client: int) -> None:
        """Send an older connection of the same client away."""
        for other in list(self._peers.values()):
            if other.client == client:
                other.channel.send(
                    Refused(f"another process has connected as client {client}")
                )
                other.client = None
                self._drop(other)

    def _tell(self, peer: _Peer, word: Word) -> bool:
        """Tell a client a word; not the same again while that is on its way."""
        now_us = clock_us()
        is_same = word.gist == peer.told
        if is_same and (peer.channel.has_waiting or now_us < peer.told_us + _REPEAT_US):
            return False
        peer.told, peer.told_us = word.gist, now_us
        peer.channel.send(_veiled(word, peer.channel))
        return True

    def _drop(self, peer: _Peer) -> None:
        connection = peer.channel.socket
        if self._peers.pop(connection, None) is None:
            return
        self._selector.unregister(connection)
        peer.channel.close()
        if peer.client is not None:
            self._machine.forget(peer.client)


def _veiled(word: Word, channel: Channel) -> Word:
    """Return a word with its session's key as it travels."""
    start = word.start
    if start is None:
        return word
    key = channel.veil(start.key, start.session)
    return replace(word, start=replace(start, key=key))


def _listen(endpoint: Endpoint) -> socket.socket:
    try:
        family, address = endpoint.resolve(socket.SOCK_STREAM)
        server = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise SessionError(
            f"cannot listen on {endpoint}: {say_reason(error)}", is_final=True
        ) from error
    server.settimeout(0.0)
    return server


def _require_local(server: socket.socket, listen: str) -> None:
    if not is_loopback(server.getsockname()):
        raise ArgumentError(
            "listen",
            "must be a loopback address without a key, such as 127.0.0.1:0, got "
            f"{listen}; give a key, or insecure=True",
        )
