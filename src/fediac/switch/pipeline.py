"""Packet in -> packets out: what happens to a packet from parser to deparser.

1. `parse` drops what is not a well-formed packet.
2. The job table says which registers the packet may touch.
3. The packet's kind picks the control: `aligned` for tallies, sums and peaks, `blocks`,
   or `indexed`. The control drops the packet, absorbs it, or answers.

The switch keeps nothing but its registers, whose size is fixed when it is made, and its
counters. It computes with integers only.
"""

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fediac import native
from fediac.core.integers import as_whole
from fediac.defaults import REGISTER_BYTES
from fediac.errors import (
    ArgumentError,
    LocalProtocolError,
    RemoteProtocolError,
    say_count,
)
from fediac.native.packets import Room
from fediac.switch.aligned import process_aligned, process_max
from fediac.switch.blocks import process_block
from fediac.switch.counters import N_COUNTS, Count, Counters, Drop
from fediac.switch.indexed import pair_widths, process_indexed, read_pairs
from fediac.switch.job import JOB_RECORD, DropPacket, Job, Region
from fediac.switch.registers import Layout, check_n_clients
from fediac.wire.header import (
    EXCHANGES,
    HEADER_BYTES,
    MAX_CLIENTS,
    MAX_PAYLOAD_BYTES,
    PAYLOAD_BYTES,
    Flag,
    Kind,
)
from fediac.wire.packet import Packet, decode, encode
from fediac.wire.pairs import WORD_BITS, n_ranges

_INFINITY = 0x7F800000
"""Bits of the float32 that no peak may reach; those of NaN and negatives are above."""

_CONTROLS = {
    Kind.TALLY: process_aligned,
    Kind.MAX: process_max,
    Kind.SUM: process_aligned,
    Kind.BLOCK_SUM: process_block,
    Kind.INDEXED_SUM: process_indexed,
}


@dataclass(frozen=True, slots=True)
class Answers:
    """Packets a switch sends in response to a batch, in order.

    Attributes:
        packets: One row of bytes a packet.
        lengths: How many bytes of each row are the packet.
        destinations: The client each packet goes to, or ``EVERYONE``.
    """

    packets: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int32]
    destinations: npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Tables:
    """A switch's own arrays, for a compiled loop that processes packets in them.

    Attributes:
        registers: All of its memory.
        jobs: A `JOB_RECORD` for each job; another array after one begins or ends.
        counts: Its counters.
    """

    registers: npt.NDArray[np.uint8]
    jobs: npt.NDArray[np.void]
    counts: npt.NDArray[np.int64]


class Switch:
    """A programmable switch: registers, a job table, counters, and `process`.

    Threads may share it: one batch is processed at a time, as hardware would.

    Args:
        register_bytes: All the memory its data plane ever has.
        payload_bytes: Room for items in a packet.
    """

    def __init__(
        self,
        register_bytes: int = REGISTER_BYTES,
        *,
        payload_bytes: int = PAYLOAD_BYTES,
    ) -> None:
        register_bytes = as_whole("register_bytes", register_bytes)
        payload_bytes = as_whole("payload_bytes", payload_bytes)
        if not 1 <= payload_bytes <= MAX_PAYLOAD_BYTES:
            raise ArgumentError(
                "payload_bytes",
                f"must be in 1..{MAX_PAYLOAD_BYTES} (votes that a packet "
                f"can count), got {payload_bytes}",
            )
        # The smallest job there is; raises if even that does not fit.
        Layout(1, payload_bytes, register_bytes)
        self.register_bytes = register_bytes
        self.payload_bytes = payload_bytes
        self._registers = np.zeros(register_bytes, dtype=np.uint8)
        self._counts = np.zeros(N_COUNTS, dtype=np.int64)
        self._jobs: dict[int, Job] = {}
        self._table = np.zeros(0, dtype=JOB_RECORD)
        self._n_opened = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the lock, so that switches can be copied and pickled."""
        return {name: kept for name, kept in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def counters(self) -> Counters:
        """What the switch has counted since it was made."""
        return Counters.read(self._counts)

    @property
    def tables(self) -> Tables:
        """Its arrays, which whoever has them may change in place of `process`."""
        return Tables(self._registers, self._table, self._counts)

    @property
    def used_bytes(self) -> int:
        """Register bytes that hold something."""
        return int(self._counts[Count.USED_BYTES])

    def snapshot(self) -> bytes:
        """Return a copy of all registers, as they are now."""
        with self._lock:
            return self._registers.tobytes()

    def indexed_capacity(self, n_clients: int) -> int:
        """Return how many addresses an indexed sum of ``n_clients`` may have."""
        n_clients = as_whole("n_clients", n_clients)
        layout = Layout(n_clients, self.payload_bytes, self.register_bytes)
        return layout.indexed_capacity

    def forget_peak(self) -> None:
        """Reset the peak of register use to what is in use now."""
        with self._lock:
            self._counts[Count.PEAK_BYTES] = self._counts[Count.USED_BYTES]

    def open(
        self,
        n_clients: int,
        *,
        present: int | None = None,
        n_observers: int = 0,
        register_bytes: int | None = None,
        session: int | None = None,
        keeps_early: bool = False,
    ) -> Job:
        """Return a new job, which gets a part of the registers.

        Args:
            n_clients: Clients are numbered ``0..n_clients-1``.
            present: Bitmap of the clients that take part; all by default.
            n_observers: Clients beside these that add nothing and get every answer;
                they have the numbers from ``n_clients`` on.
            register_bytes: How much to take; by default the largest free piece.
            session: Its number; by default how many there have been.
            keeps_early: Whether early blocks are kept, where packets get lost.
        """
        n_clients = as_whole("n_clients", n_clients)
        check_n_clients(n_clients)
        everyone = (1 << n_clients) - 1
        present = everyone if present is None else as_whole("present", present)
        n_observers = as_whole("n_observers", n_observers)
        _check_members(n_clients, present, n_observers)
        present |= ((1 << n_observers) - 1) << n_clients
        with self._lock:
            base, layout = self._find_room(n_clients + n_observers, register_bytes)
            layout = replace(layout, keeps_early=keeps_early)
            self._n_opened += 1
            number = self._n_opened if session is None else session
            job = Job(number, base, layout, present, n_observers)
            self._jobs[job.session] = job
            self._list_jobs()
            self._registers[base : base + layout.register_bytes] = 0
            self._counts[Count.USED_BYTES] += layout.halves_at
            self._counts[Count.PEAK_BYTES] = max(
                self._counts[Count.PEAK_BYTES], self._counts[Count.USED_BYTES]
            )
        return job

    def _find_room(
        self, n_clients: int, register_bytes: int | None
    ) -> tuple[int, Layout]:
        """Return where a new job begins, and its layout."""
        base, free = max(self._gaps(), key=lambda gap: gap[1])
        taken = free
        if register_bytes is not None:
            taken = as_whole("register_bytes", register_bytes)
        if taken > free:
            raise ArgumentError(
                "register_bytes",
                f"must be at most {free} (free in one piece), got {taken}",
            )
        try:
            return base, Layout(n_clients, self.payload_bytes, taken)
        except ArgumentError as error:
            if register_bytes is not None or not self._jobs:
                raise
            argument, rule = error.argument, error.rule
            raise ArgumentError(
                argument,
                f"{rule}; open jobs hold the rest: close them, or give each round "
                "that runs at the same time a Switch of its own",
            ) from None

    def close(self, job: Job) -> None:
        """Give the registers of ``job`` back."""
        with self._lock:
            if self._jobs.pop(job.session, None) is None:
                raise LocalProtocolError(f"session {job.session} is not open")
            self._list_jobs()
            region = self._region(job, [])
            used = sum(region.half(number).used for number in (0, 1))
            self._counts[Count.USED_BYTES] -= used + job.layout.halves_at

    def _list_jobs(self) -> None:
        records = [job.record() for job in self._jobs.values()]
        self._table = np.array(records, dtype=JOB_RECORD)

    def _gaps(self) -> list[tuple[int, int]]:
        """Return ``(first byte, length)`` of each free piece of the registers."""
        gaps, place = [], 0
        for job in sorted(self._jobs.values(), key=lambda job: job.base):
            gaps.append((place, job.base - place))
            place = job.base + job.layout.register_bytes
        return [*gaps, (place, self.register_bytes - place)]

    def _region(self, job: Job, answers: list[tuple[int, bytes]]) -> Region:
        return Region(
            job=job,
            registers=self._registers.data,
            counts=self._counts,
            emit=lambda to, packet: answers.append((to, encode(packet))),
        )

    def process(
        self,
        packets: npt.NDArray[np.uint8],
        lengths: npt.NDArray[np.int32],
        *,
        out: Room | None = None,
    ) -> Answers:
        """Return the answers to a batch of packets, taken in order.

        Args:
            packets: One row of bytes a packet.
            lengths: How many bytes of each row are the packet.
            out: Where answers may be written to: those to the batch before, if they
                had the same room, are gone then. New memory by default.
        """
        if out is not None and not isinstance(out, Room):
            raise TypeError(f"out must be a Room, got {type(out).__name__}")
        _check_dtype("packets", packets, np.uint8)
        _check_dtype("lengths", lengths, np.int32)
        if packets.ndim != 2 or lengths.shape != packets.shape[:1]:
            raise ArgumentError(
                "packets",
                "must be rows of bytes with a length each, got shapes "
                f"{packets.shape} and {lengths.shape}",
            )
        with self._lock:
            return self._process_batch(packets, lengths, out)

    def _process_batch(
        self,
        packets: npt.NDArray[np.uint8],
        lengths: npt.NDArray[np.int32],
        out: Room | None,
    ) -> Answers:
        kernels = native.host_kernels_for(self._registers)
        if kernels is not None:
            return Answers(
                *kernels.process_packets(
                    self._registers,
                    self._table,
                    self._counts,
                    packets,
                    lengths,
                    payload_bytes=self.payload_bytes,
                    out=out,
                )
            )
        answers: list[tuple[int, bytes]] = []
        for row, length in zip(packets, lengths, strict=True):
            self._process_one(row[: max(0, length)].tobytes(), answers)
        return _collect(answers, HEADER_BYTES + self.payload_bytes)

    def _process_one(self, data: bytes, answers: list[tuple[int, bytes]]) -> None:
        self._counts[Count.PACKETS_IN] += 1
        try:
            packet = parse(data, self.payload_bytes)
            job = self._jobs.get(packet.session)
            if job is None:
                raise DropPacket(Drop.UNKNOWN_SESSION)  # noqa: TRY301 - one place counts
            if not job.present >> packet.client & 1:
                raise DropPacket(Drop.STRANGER)  # noqa: TRY301
            is_observer = packet.client >= job.n_voters
            if is_observer != (Flag.OBSERVE in packet.flags):
                raise DropPacket(Drop.STRANGER)  # noqa: TRY301
            if packet.threshold > job.n_voters:
                raise DropPacket(Drop.MALFORMED)  # noqa: TRY301
            _CONTROLS[packet.kind](self._region(job, answers), packet)
        except DropPacket as drop:
            self._counts[len(Count) + drop.reason] += 1


def _check_dtype(name: str, given: object, dtype: npt.DTypeLike) -> None:
    """Refuse batches that the two data planes would read differently or not at all."""
    wanted = np.dtype(dtype)
    if not isinstance(given, np.ndarray):
        raise TypeError(
            f"{name} must be a NumPy array of {wanted}, got {type(given).__name__}"
        )
    if given.dtype != wanted:
        raise TypeError(f"{name} must be {wanted}, got {given.dtype}")


def _check_members(n_clients: int, present: int, n_observers: int) -> None:
    if not 0 <= n_observers <= MAX_CLIENTS - n_clients:
        raise ArgumentError(
            "n_observers",
            f"must be in 0..{MAX_CLIENTS - n_clients} beside "
            f"{say_count(n_clients, 'client')}, got {n_observers}",
        )
    if present < 1 or present >> n_clients:
        raise ArgumentError(
            "present",
            f"must name some of {say_count(n_clients, 'client')}, got {present:#b}",
        )


def parse(data: bytes, payload_bytes: int) -> Packet:
    """Return the packet in ``data`` if its fields fit its length and each other.

    Raises:
        DropPacket: They do not, or this is not a client's packet at all.
    """
    try:
        packet = decode(data)
    except RemoteProtocolError as error:
        raise DropPacket(Drop.FOREIGN) from error
    if packet.kind not in EXCHANGES:
        raise DropPacket(Drop.FOREIGN)
    length = _body_bytes(packet, payload_bytes)
    if length is None or length != len(packet.body) or length > payload_bytes:
        raise DropPacket(Drop.MALFORMED)
    return packet


def _is_clients(packet: Packet) -> bool:
    """Return whether the fields of any kind are those that a client may send."""
    # Only sums have lanes, only indexed sums are read, and only answers have parts.
    if Flag.ANSWER in packet.flags or packet.part:
        return False
    if packet.bits_up and packet.kind != Kind.SUM:
        return False
    if Flag.READ in packet.flags and packet.kind != Kind.INDEXED_SUM:
        return False
    return Flag.OBSERVE not in packet.flags or _adds_nothing(packet)


def _body_bytes(packet: Packet, payload_bytes: int) -> int | None:
    """Return the length of body that a client's packet must have, None if invalid."""
    if not _is_clients(packet):
        return None
    match packet.kind:
        case Kind.MAX:
            is_plain = not (packet.n_items or packet.threshold or packet.packet)
            return 0 if is_plain and packet.aux < _INFINITY else None
        case Kind.TALLY:
            return _votes_bytes(packet)
        case Kind.SUM:
            return _lanes_bytes(packet, payload_bytes)
        case Kind.BLOCK_SUM:
            return _block_bytes(packet)
        case _:
            return _pairs_bytes(packet, payload_bytes)


def _votes_bytes(packet: Packet) -> int | None:
    is_valid = _has_items(packet) and packet.threshold and packet.bits <= WORD_BITS
    return -(-packet.n_items // 8) if is_valid and packet.aux < _INFINITY else None


def _has_items(packet: Packet) -> bool:
    """Return whether there are items, as in all packets but an observer's."""
    return packet.n_items > 0 or Flag.OBSERVE in packet.flags


def _adds_nothing(packet: Packet) -> bool:
    """Return whether an observer's packet leaves every register's values alone."""
    is_tally_or_max = packet.kind in (Kind.TALLY, Kind.MAX)
    tells_peak = is_tally_or_max and packet.aux
    asks_bits = packet.kind == Kind.TALLY and packet.bits
    return not (packet.n_items or tells_peak or asks_bits)


def _lanes_bytes(packet: Packet, payload_bytes: int) -> int | None:
    is_valid = 1 <= packet.bits_up <= packet.bits <= WORD_BITS
    if not is_valid or not _has_items(packet) or packet.threshold:
        return None
    # Wider sums go down eight lanes at a time at least.
    if packet.bits_up < packet.bits > payload_bytes:
        return None
    return -(-packet.n_items * packet.bits_up // 8)


def _block_bytes(packet: Packet) -> int | None:
    if packet.threshold:
        return None
    if Flag.ANNOUNCE in packet.flags:
        return 0 if not packet.n_items else None
    return 4 * packet.n_items if packet.aux > packet.packet else None


def _pairs_bytes(packet: Packet, payload_bytes: int) -> int | None:
    if packet.threshold or not packet.aux or not 1 <= packet.bits <= WORD_BITS:
        return None
    widths = pair_widths(packet)
    last = n_ranges(packet.aux, widths, payload_bytes) - 1
    if last < 0:
        return None
    if Flag.READ in packet.flags:
        return 0 if not packet.n_items and packet.packet <= last else None
    n_bytes = -(-packet.n_items * sum(widths) // 8)
    if len(packet.body) != n_bytes:
        return None
    indices, _ = read_pairs(packet)
    return n_bytes if all(index < packet.aux for index in indices) else None


def _collect(answers: list[tuple[int, bytes]], stride: int) -> Answers:
    packets = np.zeros((len(answers), stride), dtype=np.uint8)
    for row, (_, data) in zip(packets, answers, strict=True):
        row[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    return Answers(
        packets=packets,
        lengths=np.array([len(data) for _, data in answers], dtype=np.int32),
        destinations=np.array([to for to, _ in answers], dtype=np.uint16),
    )
