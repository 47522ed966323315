"""Who sent what to whom, in which phase of a round.

A row says how many items of how many bits one client sent or got. Packets and bytes
depend on who counts, so a `View` makes them: `PAYLOAD` counts as the paper does, the
wire view (in ``fediac.transports``) counts every byte of real packets.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from fediac.core.types import Indices

Direction = Literal["up", "down"]
Destination = Literal["switch", "server"]

MIB = 2.0**20
"""Bytes in what the paper calls a MB."""


def fill_payload(bits: int, payload_bytes: int) -> int:
    """Return how many items of ``bits`` bits fit a payload, none straddling packets."""
    return 8 * payload_bytes // bits


@dataclass(frozen=True, slots=True)
class View:
    """A way to turn items into packets and bytes.

    Attributes:
        payload_bytes: Room for items in a packet.
        header_bytes: Everything else in a packet.
        items_per_packet: (bits, payload_bytes) -> items that fill a packet.
        lanes_unit: Packets hold a multiple of so many lanes where those of sums are
            wider.
        is_as_sent: Packets have the room they were sent with; ``payload_bytes`` is for
            rows that do not know it.
    """

    name: str
    payload_bytes: int
    header_bytes: int
    items_per_packet: Callable[[int, int], int] = fill_payload
    lanes_unit: int = 1
    is_as_sent: bool = False

    def room_of(self, row: "Row") -> int:
        """Return the payload bytes of a packet of ``row``."""
        if self.is_as_sent and row.payload_bytes is not None:
            return row.payload_bytes
        return self.payload_bytes

    def lanes_per_packet(self, bits: int, payload_bytes: int) -> int:
        """Return how many lanes fill a packet where those of sums are wider."""
        unit = self.lanes_unit
        return self.items_per_packet(bits, payload_bytes) // unit * unit


PAYLOAD = View("payload", payload_bytes=1500, header_bytes=0)
"""The paper's view: 1,500 payload bytes a packet and no headers."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one client sent (``up``) or got (``down``) in one exchange.

    Attributes:
        kind: The exchange's type in lower case: tally, max, sum, blocksum,
            indexedsum, serversum. With the packet number it tells the simulator
            which packets a result waits for.
        n_items: Votes, levels, pairs or floats. Peak and width are header, so an
            exchange of peaks has no items, but still a packet.
        widths: Bits of a lane up and down, in a sum whose answers have wider lanes: the
            answer to a packet then has the packet's lanes, in as many as they fill.
        blocks: A block sum's block numbers: one packet each.
        n_bare: Packets beside these that hold nothing but a header.
        n_retransmitted: Packets sent again.
        step: The exchanges of a round in order; those with one number travel
            together, and the next ones start when all of their answers are there.
        payload_bytes: Room for items in the packets that carried it, if any did.
    """

    round_number: int
    client: int
    phase: str
    kind: str
    direction: Direction
    destination: Destination
    n_items: int
    bits_per_item: int
    widths: tuple[int, int] | None = None
    blocks: Indices | None = None
    n_bare: int = 0
    n_retransmitted: int = 0
    step: int = 0
    payload_bytes: int | None = None

    def n_packets(self, view: View) -> int:
        """Return the packets of this row, retransmissions included."""
        if self.blocks is not None:
            n_packets = len(self.blocks)
        elif self.widths is not None:
            n_packets = self._n_lane_packets(view, *self.widths)
        else:
            room = view.room_of(self)
            per_packet = view.items_per_packet(self.bits_per_item, room)
            n_packets = max(1, -(-self.n_items // per_packet))
        return n_packets + self.n_bare + self.n_retransmitted

    def n_parts(self, view: View) -> int:
        """Return how many packets answer a full packet up."""
        if self.widths is None:
            return 1
        room = view.room_of(self)
        up, down = (view.lanes_per_packet(bits, room) for bits in self.widths)
        return -(-up // down)

    def _n_lane_packets(self, view: View, bits_up: int, bits_down: int) -> int:
        room = view.room_of(self)
        per_packet = view.lanes_per_packet(bits_up, room)
        if self.direction == "up":
            return max(1, -(-self.n_items // per_packet))
        n_full, n_rest = divmod(self.n_items, per_packet)
        n_last = -(-n_rest // view.lanes_per_packet(bits_down, room))
        return max(1, n_full * self.n_parts(view) + n_last)


@dataclass(frozen=True, slots=True)
class Traffic:
    """A sum over rows of the ledger.

    Attributes:
        payload_bits: Items times their bits: no padding, no headers.
        body_bytes: The same in whole bytes, each row's last one filled up.
    """

    payload_bits: int = 0
    body_bytes: int = 0
    header_bytes: int = 0
    n_packets: int = 0

    @property
    def payload_mib(self) -> float:
        """Payload in MiB, the paper's unit."""
        return self.payload_bits / 8 / MIB

    @property
    def n_bytes(self) -> int:
        """Everything that is sent, in bytes."""
        return self.body_bytes + self.header_bytes

    @property
    def mib(self) -> float:
        """Everything that is sent, in MiB."""
        return self.n_bytes / MIB


@dataclass(frozen=True, slots=True)
class Ledger:
    """Rows of one round or of many, in the order they happened."""

    rows: tuple[Row, ...] = field(default=())

    def __add__(self, other: "Ledger") -> "Ledger":
        return Ledger(self.rows + other.rows)

    def then(self, later: "Ledger") -> "Ledger":
        """Return this ledger and one whose steps come after all of this one's."""
        n_steps = 1 + max((row.step for row in self.rows), default=-1)
        shifted = (replace(row, step=row.step + n_steps) for row in later.rows)
        return Ledger((*self.rows, *shifted))

    def with_phase(self, phase: str) -> "Ledger":
        """Return the same rows, all of one phase."""
        return Ledger(tuple(replace(row, phase=phase) for row in self.rows))

    def select(
        self,
        *,
        direction: Direction | None = None,
        phase: str | None = None,
        destination: Destination | None = None,
        client: int | None = None,
    ) -> "Ledger":
        """Return the rows with the given direction, phase, destination and client."""
        wanted = {
            "direction": direction,
            "phase": phase,
            "destination": destination,
            "client": client,
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        return Ledger(
            tuple(
                row
                for row in self.rows
                if all(getattr(row, name) == value for name, value in given.items())
            )
        )

    def traffic(self, view: View = PAYLOAD, *, is_multicast: bool = False) -> Traffic:
        """Return the packets and bytes of all rows.

        Args:
            view: How items become packets.
            is_multicast: Count a download that all clients get once, not once each.
        """
        rows = _once_per_download(self.rows) if is_multicast else self.rows
        payload_bits = body_bytes = header_bytes = n_packets = 0
        for row in rows:
            packets = row.n_packets(view)
            n_packets += packets
            header_bytes += packets * view.header_bytes
            bits = row.n_items * row.bits_per_item
            bits += 8 * view.room_of(row) * row.n_retransmitted
            payload_bits += bits
            body_bytes += -(-bits // 8)
        return Traffic(payload_bits, body_bytes, header_bytes, n_packets)

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that occur, in their first order."""
        return tuple(dict.fromkeys(row.phase for row in self.rows))


def _once_per_download(rows: Iterable[Row]) -> list[Row]:
    seen: set[tuple[int, str, int, str]] = set()
    kept = []
    for row in rows:
        # Exchanges that travel together have one step, but are of different kinds.
        key = (row.round_number, row.phase, row.step, row.kind)
        if row.direction == "down":
            if key in seen:
                continue
            seen.add(key)
        kept.append(row)
    return kept
