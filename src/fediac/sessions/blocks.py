"""Block sums: follow the chain of answers, by the rules for networks that lose packets.

The rules, and why they are enough, stand in `fediac.switch.blocks`: a member that lacks
the answer of block e sends only blocks below e + third, and names as its next one at
most a third ahead, where it sends a block without items if it has none.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from fediac.core.exchange import Answer, BlockSum, BlockTotals
from fediac.sessions.questions import Key, Place
from fediac.transports.conversions import as_int32, as_int64, as_kind
from fediac.transports.packets import require_block, require_slots
from fediac.wire.header import END, Flag, Kind
from fediac.wire.packet import Packet

_ANNOUNCEMENT = -1
"""The key of the packet that names the first block; all others are block numbers."""

_AHEAD = 3
"""So many answers of later blocks, and that of the next one is taken for lost."""


class BlocksQuestion:
    """Numbered blocks of 32-bit levels."""

    def __init__(self, place: Place, asked: BlockSum) -> None:
        require_block(place.layout.payload_bytes, asked.levels.shape[1])
        n_slots = require_slots(place.layout, Kind.BLOCK_SUM, at_least=2)
        self._place, self._asked = place, asked
        self._third = (n_slots + 1) // 3
        numbers = [] if place.is_observer else as_int64(asked.blocks).tolist()
        self._numbers: list[int] = numbers
        self._rows = np.ascontiguousarray(as_int32(asked.levels), dtype="<i4")
        self._sent: dict[int, int] = {}  # block -> the next one named with it
        self._next = self._after(-1)
        self._first = self._next
        self._expected: int | None = None
        self._is_announced = False
        self._answers: dict[int, Packet] = {}
        self._n_ahead = 0  # answers behind the chain's end
        self._count = 0

    def _after(self, number: int) -> int:
        """Return the block to name as the next one behind ``number``."""
        place = bisect_right(self._numbers, number)
        own = self._numbers[place] if place < len(self._numbers) else END
        following = min(own, max(number, 0) + self._third)
        return following if following < self._asked.n_blocks else END

    @property
    def is_done(self) -> bool:
        """Whether the chain of answers has come to its end."""
        return self._expected == END

    def next_key(self) -> Key | None:
        """Return the announcement, then the next block that may be on its way."""
        if not self._is_announced:
            self._is_announced = True
            return _ANNOUNCEMENT
        number = self._next
        if number == END or number >= (self._expected or 0) + self._third:
            return None
        self._next = self._after(number)
        self._sent[number] = self._next
        return number

    def packet(self, key: Key) -> Packet:
        """Return a block, or the announcement of the first one."""
        if key == _ANNOUNCEMENT:
            flags = int(Flag.ANNOUNCE)
            return self._place.packet(Kind.BLOCK_SUM, aux=self._first, flags=flags)
        body = self._body(key)
        packet = self._place.packet(
            Kind.BLOCK_SUM,
            packet=key,
            aux=self._sent.get(key, self._next),
            bits=32,
            n_items=len(body) // 4,
        )
        return replace(packet, body=body)

    def _body(self, number: int) -> bytes:
        """Return the levels of a block; none if another member has it."""
        place = bisect_right(self._numbers, number) - 1
        if place < 0 or self._numbers[place] != number:
            return b""
        row: npt.NDArray[np.int32] = self._rows[place]
        return row.tobytes()

    def counted(self, told: Packet) -> Iterable[Key]:
        """Return the announcement, and what the switch has of the blocks.

        Those are all below the one that it expects next, and perhaps one behind it.
        """
        yield _ANNOUNCEMENT
        expected = told.aux
        yield from list(takewhile(lambda i: i < expected, self._sent))
        if told.packet > expected:
            yield told.packet

    def missing(self, told: Packet) -> Iterable[Key]:
        """Return what the switch expects, and what stands before a block it has."""
        expected = told.aux
        if told.packet > expected:
            yield expected
            before = max((i for i in self._sent if i < told.packet), default=expected)
            if before > expected:
                yield before

    def take(self, answer: Packet) -> Iterable[Key]:
        """Go along the chain as far as it is known."""
        self._count = answer.count
        answered: list[Key] = []
        if Flag.ANNOUNCE in answer.flags:
            self._expected = answer.aux if self._expected is None else self._expected
        elif answer.n_items in (0, self._asked.levels.shape[1]):
            if answer.packet not in self._answers:
                self._answers[answer.packet] = answer
                self._n_ahead += 1
            answered.append(answer.packet)
            if self._expected is None and answer.packet == 0:
                self._expected = 0
        if self._expected is not None:
            answered.append(_ANNOUNCEMENT)
        while self._expected in self._answers:
            self._sent.pop(self._expected, None)
            self._expected = self._answers[self._expected].aux
            self._n_ahead -= 1
        return answered

    def awaited(self) -> Key | None:
        """Return the next block of the chain if only others have it."""
        expected = self._expected
        if expected is None or not expected < self._next or expected in self._sent:
            return None
        return expected

    def overdue(self) -> Key | None:
        """Return the next block of the chain if blocks behind it are answered."""
        return self._expected if self._n_ahead >= _AHEAD else None

    def answer(self) -> Answer:
        """Return every block that any client had."""
        length = self._asked.levels.shape[1]
        full = sorted(i for i, each in self._answers.items() if each.n_items)
        totals = np.zeros((len(full), length), dtype=np.int32)
        for row, number in zip(totals, full, strict=True):
            row[:] = np.frombuffer(self._answers[number].body, dtype="<i4")
        blocks = np.array(full, dtype=np.int64)
        return BlockTotals(
            as_kind(blocks, self._asked.blocks),
            as_kind(totals, self._asked.levels),
            self._count,
        )

    def say_missing(self) -> str:
        """Return where the chain of answers ends so far."""
        if self._expected is None:
            return "the number of the first block"
        return f"blocks from {self._expected} on, of {self._asked.n_blocks}"
