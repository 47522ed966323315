"""Tally, maximum and sum: packet j of every client meets in one slot.

At most half of the slots are in flight, counted from the first packet without an
answer, so that no slot is reused before everybody has what is in it: see
`fediac.switch.registers`.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fediac.core.exchange import Answer, Consensus, Max, Peak, Sum, Tally, Totals
from fediac.sessions.questions import Key, Place
from fediac.switch.registers import Widths
from fediac.transports.conversions import (
    Bytes,
    as_bytes,
    as_kind,
    bits_float,
    float_bits,
)
from fediac.transports.packets import Pieces, require_slots
from fediac.wire.header import Kind
from fediac.wire.packet import Packet


class Numbered:
    """Packets of which each has a slot of its own, and a wait is about one of them."""

    def counted(self, told: Packet) -> Iterable[Key]:
        """Return the packet with the same number."""
        return (told.packet,)

    def missing(self, told: Packet) -> Iterable[Key]:  # noqa: ARG002
        """Return nothing: the switch does not say."""
        return ()

    def awaited(self) -> Key | None:
        """Return nothing: all answers are to packets that are sent."""
        return None

    def overdue(self) -> Key | None:
        """Return nothing: slots are answered in any order."""
        return None


class Aligned(Numbered):
    """Packed items in packets; what comes back is gathered in their order.

    Args:
        template: What all of the packets have in common.
        data: Packed items; None: an observer has none.
        pieces: How they are cut.
        window: The most packets in flight.
    """

    def __init__(
        self, template: Packet, data: Bytes | None, pieces: Pieces, window: int
    ) -> None:
        self._template, self._data, self._pieces = template, data, pieces
        self._window = window
        self._n_items = pieces.n_items(np.arange(pieces.n_packets)).tolist()
        self._missing = [set(range(pieces.n_parts(n))) for n in self._n_items]
        self._first = self._next = 0
        self.packed = np.zeros(pieces.n_packets * pieces.n_answer_bytes, np.uint8)
        self.aux = self.bits = self.count = 0

    @property
    def is_done(self) -> bool:
        """Whether every packet has all parts of its answer."""
        return self._first == len(self._missing)

    def next_key(self) -> Key | None:
        """Return the next packet, if it is in the window of slots."""
        number = self._next
        if number >= min(self._first + self._window, len(self._missing)):
            return None
        self._next += 1
        return number

    def packet(self, key: Key) -> Packet:
        """Return packet number ``key``."""
        number = key
        if self._data is None:
            return replace(self._template, packet=number)
        n_bytes = self._pieces.n_bytes
        return replace(
            self._template,
            packet=number,
            n_items=self._n_items[number],
            body=self._data[number * n_bytes : (number + 1) * n_bytes].tobytes(),
        )

    def take(self, answer: Packet) -> Iterable[Key]:
        """Put a part of an answer where it belongs."""
        number, part, pieces = answer.packet, answer.part, self._pieces
        if number >= len(self._missing) or part not in self._missing[number]:
            return ()
        n_items = pieces.n_part_items(self._n_items[number], part)
        n_bytes = -(-n_items * pieces.bits_down // 8)
        if (answer.n_items, len(answer.body)) != (n_items, n_bytes):
            return ()
        at = number * pieces.n_answer_bytes + part * pieces.n_part_bytes
        self.packed[at : at + n_bytes] = np.frombuffer(answer.body, dtype=np.uint8)
        self.aux, self.bits = max(self.aux, answer.aux), max(self.bits, answer.bits)
        self.count = answer.count
        self._missing[number].discard(part)
        while not self.is_done and not self._missing[self._first]:
            self._first += 1
        return () if self._missing[number] else (number,)

    def say_missing(self) -> str:
        """Return how many packets are not answered, and the first of them."""
        left = [i for i, parts in enumerate(self._missing) if parts]
        return f"{len(left)} of {len(self._missing)} packets (first: {left[0]})"


class TallyQuestion(Aligned):
    """Votes, the peak and the width that a client asks for."""

    def __init__(self, place: Place, asked: Tally) -> None:
        layout, is_observer = place.layout, place.is_observer
        template = place.packet(
            Kind.TALLY,
            threshold=asked.threshold,
            aux=0 if is_observer else float_bits(asked.peak),
            bits=0 if is_observer else asked.bits,
        )
        n_slots = require_slots(layout, Kind.TALLY, asked.threshold, at_least=2)
        pieces = Pieces(asked.dim, 1, layout.payload_bytes)
        votes = None if is_observer else as_bytes(asked.votes)
        super().__init__(template, votes, pieces, half_of(n_slots))
        self._asked = asked

    def answer(self) -> Answer:
        """Return the gia, the largest peak and the widest width."""
        gia = self.packed[: -(-self._asked.dim // 8)]
        peak = bits_float(self.aux)
        return Consensus(as_kind(gia, self._asked.votes), peak, self.bits)


class SumQuestion(Aligned):
    """Lanes, whose sums may be wider."""

    def __init__(self, place: Place, asked: Sum) -> None:
        widths: Widths = asked.bits_up, asked.bits_down
        layout, (bits_up, bits) = place.layout, widths
        template = place.packet(Kind.SUM, bits_up=bits_up, bits=bits)
        n_slots = require_slots(layout, Kind.SUM, widths=widths, at_least=2)
        pieces = Pieces(asked.n_levels, bits_up, layout.payload_bytes, bits)
        lanes = None if place.is_observer else as_bytes(asked.lanes)
        super().__init__(template, lanes, pieces, half_of(n_slots))
        self._asked = asked

    def answer(self) -> Answer:
        """Return lanes of totals."""
        asked = self._asked
        lanes = self.packed[: -(-asked.n_levels * asked.bits_down // 8)]
        return Totals(
            as_kind(lanes, asked.lanes),
            asked.n_levels,
            asked.bits_down,
            asked.limit,
            self.count,
        )


class MaxQuestion(Numbered):
    """A peak in one packet."""

    def __init__(self, place: Place, peak: float) -> None:
        aux = 0 if place.is_observer else float_bits(peak)
        self._packet = place.packet(Kind.MAX, aux=aux)
        self._largest: int | None = None
        self._is_sent = False

    @classmethod
    def of(cls, place: Place, asked: Max) -> "MaxQuestion":
        """Return the question that an exchange asks."""
        return cls(place, asked.peak)

    @property
    def is_done(self) -> bool:
        """Whether the largest is known."""
        return self._largest is not None

    def next_key(self) -> Key | None:
        """Return the packet, once."""
        if self._is_sent:
            return None
        self._is_sent = True
        return 0

    def packet(self, key: Key) -> Packet:  # noqa: ARG002 - there is only one
        """Return the packet."""
        return self._packet

    def take(self, answer: Packet) -> Iterable[Key]:
        """Learn the largest peak."""
        self._largest = answer.aux
        return (0,)

    def answer(self) -> Answer:
        """Return the largest peak."""
        return Peak(bits_float(self._largest or 0))

    def say_missing(self) -> str:
        """Return that the only packet is missing."""
        return "1 of 1 packets (first: 0)"


def half_of(n_slots: int) -> int:
    """Return the window that so many slots allow, where packets get lost."""
    return max(1, n_slots // 2)
