"""An exchange as packets and answers, from the side of one member.

A question says which of its packets should be on their way, takes answers, and is done
when it has them all. It knows no time: when to send again is `member`'s business.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from fediac.core.exchange import Answer
from fediac.switch.registers import Layout
from fediac.wire.header import Flag, Kind
from fediac.wire.packet import NO_FLAGS, Packet

Key = int
"""Names a packet within its exchange."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a question is asked: the session, who asks, which exchange it is.

    Attributes:
        layout: The session's registers, which tell all members their windows.
        is_observer: Whether nothing is added, and all is answered.
    """

    session: int
    client: int
    exchange: int
    layout: Layout
    is_observer: bool

    def packet(self, kind: Kind, **fields: Any) -> Packet:  # noqa: ANN401 - a packet's
        """Return a packet without items."""
        flags = Flag.OBSERVE if self.is_observer else NO_FLAGS
        flags |= Flag(fields.pop("flags", 0))
        return Packet(
            kind, self.session, self.exchange, self.client, flags=flags, **fields
        )


class Question(Protocol):
    """One exchange of one member."""

    @property
    def is_done(self) -> bool:
        """Whether everything is answered."""
        ...

    def next_key(self) -> Key | None:
        """Return the next packet to send for the first time, if there is one now."""
        ...

    def packet(self, key: Key) -> Packet:
        """Return one of the packets."""
        ...

    def take(self, answer: Packet) -> Iterable[Key]:
        """Return which packets are answered by this, with what was there before.

        What does not fit the question changes nothing.
        """
        ...

    def counted(self, told: Packet) -> Iterable[Key]:
        """Return which packets the switch has, by a wait."""
        ...

    def missing(self, told: Packet) -> Iterable[Key]:
        """Return which packets it lacks, by a wait; not what was sent since."""
        ...

    def awaited(self) -> Key | None:
        """Return a packet whose answer comes, though this member need not send it."""
        ...

    def overdue(self) -> Key | None:
        """Return a packet whose answer was given, and must have got lost."""
        ...

    def answer(self) -> Answer:
        """Return what all members are told."""
        ...

    def say_missing(self) -> str:
        """Return in words what is not answered yet."""
        ...
