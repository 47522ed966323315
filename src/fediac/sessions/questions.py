"""An exchange as packets and answers, from the side of one member.

A question says which of its packets should be on their way, takes answers, and is done
when it has them all. It knows no time: when to send again is `member`'s business.
"""

from collections.abc import Iterator
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

    def wanted(self) -> Iterator[Key]:
        """Yield the packets that should be on their way, in the order to send them."""
        ...

    def packet(self, key: Key) -> Packet:
        """Return one of them."""
        ...

    def take(self, answer: Packet) -> None:
        """Take an answer; what does not fit the question changes nothing."""
        ...

    def keys_of(self, told: Packet) -> Iterator[Key]:
        """Yield the packets that a wait may be about."""
        ...

    def answer(self) -> Answer:
        """Return what all members are told."""
        ...

    def say_missing(self) -> str:
        """Return in words what is not answered yet."""
        ...
