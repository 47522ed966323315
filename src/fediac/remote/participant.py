"""A client that takes part in all rounds of a conductor, wherever it runs.

It may be killed at any time: what it must not forget is in its folder. Started again,
it learns from the conductor how its last session ended, and goes on.
"""

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fediac.core.types import Update
from fediac.errors import SessionError, say_reason
from fediac.files import lock_folder
from fediac.network.addresses import Endpoint
from fediac.remote.channel import Channel
from fediac.remote.client_disk import ClientDisk
from fediac.remote.link import Link, clock_us
from fediac.remote.switch_client import patience_of
from fediac.sessions.client import Client, ClientSettings
from fediac.sessions.messages import Hello, Model, Over, Refused, Status, Word
from fediac.sessions.replay import Recipe

Train = Callable[[Any, int], Update]
"""The model's values and the round's number -> the update, w - w_local."""

_STATUS_US = 1_000_000
"""A client says how it stands whenever that changes, and so often."""

_NO_MODEL = Model(-2, np.zeros(0, dtype=np.float32))
"""Until the conductor has sent one. Not -1: round 0 would seem to be the next."""

_WAIT_S = 0.5
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.05, 1.0
"""Between two tries to connect; doubled each time."""


class Participant:
    """One client of a `fediac.Conductor`.

    Args:
        conductor: ``HOST:PORT`` of the conductor.
        recipe: How a round is run, the same as the conductor's.
        client: Its number, the same in all rounds.
        folder: What it must not forget; created if there is none.
        key: What `fediac.member_key` makes of the job's; None: it has none.
        switch: ``HOST:PORT`` of the switch, where that is not what the conductor says.
        wait_s: How long to try again where there is no conductor, or none any more.
        patience_s: How long the switch may be silent.

    Attributes:
        n_sessions: Sessions that it took part in, in this process.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each setting
        self,
        conductor: str,
        recipe: Recipe,
        *,
        client: int,
        folder: Path | str,
        key: bytes | None = None,
        switch: str | None = None,
        wait_s: float = 60.0,
        patience_s: float = 5.0,
    ) -> None:
        self.client, self.folder = client, Path(folder)
        self._endpoint = Endpoint.parse(conductor, name="conductor")
        self._switch = switch and Endpoint.parse(switch, name="switch")
        self._key, self._wait_s = key, wait_s
        self._settings = ClientSettings(client, recipe, patience_of(patience_s))
        self._channel: Channel | None = None
        self._link: Link | None = None
        self._buffer_bytes: int | None = None
        self._said: Status | None = None
        self._said_us = 0
        self._heard_s = 0.0
        self._why = ""
        self._is_over = False
        self._machine: Client | None = None

    @property
    def buffer_bytes(self) -> int | None:
        """The receive buffer of its socket; None: it has none yet."""
        return self._buffer_bytes

    @property
    def n_resent(self) -> int:
        """Packets to the switch that were sent again, in this process."""
        return self._machine.n_resent if self._machine else 0

    def run(
        self,
        train: Train,
        *,
        on_round: Callable[[Model], None] = lambda _: None,
        on_kept: Callable[[int], None] = lambda _: None,
    ) -> Model:
        """Take part until the conductor says that it is over; return the model.

        Args:
            train: Called with the model's values, which it must leave alone, and the
                number of the round; it returns the update, w − w_local.
            on_round: Called with each newer model.
            on_kept: Called with the round's number once its update is in the folder,
                before anything of it is sent.

        Raises:
            SessionError: There is no conductor for ``wait_s``, or it refuses.
            NotFiniteError: An update has entries that cannot be sent.
        """
        with lock_folder(self.folder):
            machine = Client(self._settings, ClientDisk(self.folder), _NO_MODEL)
            self._machine = machine
            self._heard_s = time.monotonic()
            try:
                while not self._is_over:
                    before = machine.model.round_number
                    self._step(machine, train, on_kept)
                    if machine.model.round_number > before:
                        on_round(machine.model)
            finally:
                self._leave()
        return machine.model

    def _step(
        self, machine: Client, train: Train, on_kept: Callable[[int], None]
    ) -> None:
        if self._channel is None:
            self._connect()
        wanted = machine.training_round
        if wanted is not None:
            machine.take_update(train(machine.model.values, wanted))
            on_kept(wanted)
            self._heard_s = time.monotonic()
        self._report(machine)
        self._exchange(machine)

    def _leave(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._link is not None:
            self._link.close()
        self._channel = self._link = None

    # The conductor

    def _connect(self) -> None:
        """Connect, or try again until there has been nobody for too long."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                family, address = self._endpoint.resolve(socket.SOCK_STREAM)
                connection = socket.socket(family, socket.SOCK_STREAM)
                try:
                    connection.settimeout(_MAX_PAUSE_S)
                    connection.connect(address)
                except BaseException:
                    connection.close()
                    raise
            except OSError as error:
                self._why = say_reason(error)
            else:
                self._channel = Channel(connection, self._key, is_server=False)
                self._channel.flush()
                self._said = None
                return
            self._require_patience()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    def _require_patience(self) -> None:
        if time.monotonic() > self._heard_s + self._wait_s:
            why = f": {self._why}" if self._why else ""
            raise SessionError(
                f"client {self.client}: no word from the conductor at "
                f"{self._endpoint} for {self._wait_s:g} s{why}"
            )

    def _report(self, machine: Client) -> None:
        """Say how it stands, if that is news, and now and then."""
        channel, status, now_us = self._channel, machine.status, clock_us()
        if channel is None:
            return
        is_due = now_us >= self._said_us + _STATUS_US and not channel.has_waiting
        if status != self._said or is_due:
            self._said, self._said_us = status, now_us
            channel.send(status)

    def _exchange(self, machine: Client) -> None:
        """Wait for what happens next, take it, and send what is due."""
        channel, link = self._channel, self._link
        if channel is None:
            return
        due_us = machine.deadline_us
        wait_s = _WAIT_S if due_us is None else max(0.0, (due_us - clock_us()) / 1e6)
        with selectors.DefaultSelector() as selector:
            events = selectors.EVENT_READ
            events |= selectors.EVENT_WRITE if channel.has_waiting else 0
            selector.register(channel.socket, events)
            if link is not None:
                selector.register(link.socket, selectors.EVENT_READ)
            selector.select(min(wait_s, _WAIT_S))
        if link is not None:
            machine.receive(link.receive(), clock_us())
        self._hear(machine, channel)
        if self._link is not None:
            self._link.send(machine.send(clock_us()))

    def _hear(self, machine: Client, channel: Channel) -> None:
        channel.flush()
        try:
            said = channel.receive()
        except SessionError as error:
            raise SessionError(f"{self._endpoint}: {error}", is_final=True) from error
        for each in said:
            self._obey(machine, each)
        if said:
            self._heard_s = time.monotonic()
        else:
            self._require_patience()
        if channel.is_closed and not self._is_over:
            self._why = "it has closed the connection"
            channel.close()
            self._channel = None

    def _obey(self, machine: Client, said: Any) -> None:  # noqa: ANN401 - anything
        match said:
            case Word():
                machine.hear(self._unveiled(said), clock_us())
            case Hello():
                self._find_switch(said)
            case Refused():
                raise SessionError(
                    f"client {self.client}: {self._endpoint} says: {said.why}",
                    is_final=True,
                )
            case Over():
                self._is_over = True
            case _:
                pass

    def _unveiled(self, word: Word) -> Word:
        """Return a word with its session's key as it is."""
        start, channel = word.start, self._channel
        if start is None or channel is None:
            return word
        key = channel.veil(start.key, start.session)
        return replace(word, start=replace(start, key=key))

    def _find_switch(self, hello: Hello) -> None:
        """Open a way to the switch, unless there is one."""
        endpoint = self._switch or Endpoint.parse(hello.switch, name="switch")
        if self._link is not None and self._link.endpoint == endpoint:
            return
        if self._link is not None:
            with suppress(OSError):
                self._link.close()
        self._link = Link(endpoint)
        self._buffer_bytes = self._link.buffer_bytes
