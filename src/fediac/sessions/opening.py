"""A session from its coordinator's side: open it, keep its lease, close it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fediac.errors import RemoteProtocolError
from fediac.sessions.explanations import say_ending, say_refusal, say_version
from fediac.sessions.pacing import RoundTrip
from fediac.wire.control import (
    Abort,
    Close,
    Closed,
    Control,
    Cookie,
    Open,
    Opened,
    Refusal,
    read_control,
)
from fediac.wire.header import EXCHANGES, HEADER_BYTES, VERSION, Kind, Reason
from fediac.wire.packet import decode, encode
from fediac.wire.tag import is_tag_right, opening_key, session_key, tagged

_LEASES = 3
"""So often in a lease the switch is told to keep it."""

_N_CLOSES = 5
"""Times that an unanswered close is said; the next open ends the session anyway."""


_FINAL = frozenset(
    {
        Reason.VERSION,
        Reason.KEY,
        Reason.MEMORY,
        Reason.MEMBERS,
        Reason.PAYLOAD,
        Reason.EPOCH,
    }
)
"""Refusals that no other session of these settings would be spared."""

_HINTS = (Reason.KEY, Reason.VERSION)
"""Refusals that a switch cannot tag with a key that we know."""

_N_HINTS = 3
"""So many are believed: a request that is damaged on its way brings one, too."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What the switch said of the end of a session.

    Attributes:
        missing: Places of the members that were silent, if that was it.
        is_final: Whether another session would end the same way.
    """

    why: str
    missing: tuple[int, ...] = ()
    is_final: bool = False


class Opening:
    """One session, from open to close.

    Attributes:
        opened: What the switch answered, once it has.
        ended: Why the switch did not take the session, or gave it up.
        silence_ms: The switch misses a member that is silent for longer.
    """

    def __init__(
        self, asked: Open, job_key: bytes | None, *, patience_us: int, now_us: int
    ) -> None:
        self.opened: Opened | None = None
        self.ended: Ended | None = None
        self._asked: Open | Close = asked
        self._lease_us = 1000 * asked.lease_ms
        self.silence_ms = asked.silence_ms
        self._hint = ""
        self._own_key = opening_key(job_key, asked.session)
        self._key = session_key(job_key, asked.session)
        self._public_key = session_key(None, asked.session)
        self._patience_us = patience_us
        self._heard_us = self._due_us = now_us
        self._trip = RoundTrip()
        self._n_closes = 0
        self._hints: list[Refusal] = []
        self._has_right_key = False
        self._is_over = False

    @property
    def session(self) -> int:
        """The session's number."""
        return self._asked.session

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to say."""
        return self._is_over

    @property
    def deadline_us(self) -> int | None:
        """When `send` has something to do."""
        return None if self._is_over else self._due_us

    def close(self, now_us: int) -> None:
        """Tell the switch that the session is over."""
        asked = self._asked
        if isinstance(asked, Open):
            self._asked = Close(asked.session, asked.job, asked.epoch, asked.cookie)
            self._due_us = now_us

    def send(self, now_us: int) -> list[bytes]:
        """Return the packets to send now."""
        if self._is_over or now_us < self._due_us:
            return []
        if isinstance(self._asked, Close):
            self._n_closes += 1
            self._is_over = self._n_closes >= _N_CLOSES
        elif now_us >= self._heard_us + self._patience_us and self.opened is None:
            self._lose_patience()
            return []
        wait_us = self._trip.timeout_us
        if self.opened is not None and isinstance(self._asked, Open):
            wait_us = self._lease_us // _LEASES
        self._due_us = now_us + wait_us
        return [tagged(encode(self._asked.write()), self._own_key)]

    def receive(self, datagrams: Iterable[bytes], now_us: int) -> None:
        """Take what the switch says of sessions; all else is a member's."""
        for data in datagrams:
            if len(data) < HEADER_BYTES or data[3] in EXCHANGES:
                continue
            if data[2] != VERSION and data[3] == Kind.ERROR:
                self._hint = f"; {say_version(data[2])}"
                continue
            is_right = is_tag_right(data, self._key)
            if not is_right and not is_tag_right(data, self._public_key):
                continue
            try:
                packet = decode(data)
                said = read_control(packet)
            except RemoteProtocolError:
                continue
            if packet.session == self.session:
                self._hear(said, now_us, is_right=is_right)

    def _hear(self, said: Control, now_us: int, *, is_right: bool) -> None:
        if isinstance(said, Refusal) and said.reason in _HINTS:
            self._note_hint(said)
            return
        if not is_right:
            return
        self._has_right_key = True
        match said:
            case Cookie(client=0xFFFF) if said.cookie != self._asked.cookie:
                self._asked = replace(self._asked, cookie=said.cookie)
                self._due_us = now_us
            case Opened() if self.opened is None:
                self.opened = said
                if isinstance(self._asked, Open):
                    self._asked = replace(self._asked, is_renewal=True)
                self._due_us = now_us + self._lease_us // _LEASES
            case Refusal() | Abort():
                self._refused(said)
            case Closed():
                self._is_over = isinstance(self._asked, Close)
            case _:
                pass

    def _note_hint(self, said: Refusal) -> None:
        """Believe what anybody could have said, when it is said again and again."""
        if self._has_right_key:  # the request was damaged, not wrong
            return
        self._hints.append(said)
        if len(self._hints) >= _N_HINTS:
            self._refused(said)

    def _lose_patience(self) -> None:
        if self._hints:
            self._refused(self._hints[-1])
            return
        patience_s = self._patience_us / 1e6
        self._end(f"no answer from the switch for {patience_s:g} s{self._hint}")

    def _refused(self, said: Control) -> None:
        match said:
            case Refusal(client=0xFFFF):
                self._end(say_refusal(said), is_final=said.reason in _FINAL)
            case Abort() if isinstance(self._asked, Open):
                self._end(say_ending(said, self.silence_ms), said.missing)
            case _:
                pass

    def _end(
        self, why: str, missing: tuple[int, ...] = (), *, is_final: bool = False
    ) -> None:
        self.ended = self.ended or Ended(why, missing, is_final)
        self._is_over = True
