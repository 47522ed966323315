"""Whatever arrives: packets survive the wire, and the switch survives packets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fediac import native
from fediac.errors import RemoteProtocolError
from fediac.switch.counters import Count
from fediac.switch.pipeline import Answers, Switch
from fediac.wire.header import END, HEADER_BYTES, Flag, Kind
from fediac.wire.packet import Packet, decode, encode
from tests.packets import index_width, pack
from tests.planes import PLANES, data_plane, require_native

N_JOBS = 3
PAIR_BITS = 7
"""Width of a level in most packets of indexed sums."""
LANE_BITS = [(5, 5), (3, 7), (4, 8), (8, 16), (9, 16), (11, 21), (1, 32), (16, 32)]
"""Widths up and down of most packets of a mill's sums."""

u8, u16, u32 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32))


def as_sent(packet: Packet) -> Packet:
    """Leave out what has no place of its own: a threshold goes up, a count down."""
    if Flag.ANSWER in packet.flags:
        return replace(packet, threshold=0)
    return replace(packet, count=0)


any_packet = st.builds(
    Packet,
    kind=st.sampled_from(Kind),
    session=st.integers(0, (1 << 64) - 1),
    exchange=u16,
    client=u16,
    packet=u32,
    n_items=u16,
    count=u16,
    aux=u32,
    threshold=u16,
    bits_up=st.just(0) | u8,
    bits=u8,
    flags=u8.map(Flag),
    part=st.just(0) | u8,
    tag=st.integers(0, (1 << 64) - 1),
    body=st.binary(max_size=64),
).map(as_sent)


@given(any_packet)
def test_a_packet_survives_encode_and_decode(packet: Packet) -> None:
    assert decode(encode(packet)) == packet


@given(st.binary(max_size=64))
def test_random_bytes_are_a_protocol_error_at_most(data: bytes) -> None:
    try:
        packet = decode(data)
    except RemoteProtocolError:
        return
    assert encode(packet) == data


@given(any_packet, st.integers(0, 39), u8)
def test_a_damaged_header_is_a_protocol_error_at_most(
    packet: Packet, place: int, value: int
) -> None:
    data = bytearray(encode(packet))
    data[place] = value
    try:
        decode(bytes(data))
    except RemoteProtocolError:
        assert place < 4


@dataclass(frozen=True)
class Plan:
    """A switch with three jobs of the same clients side by side."""

    payload_bytes: int
    register_bytes: int
    n_clients: int
    n_observers: int

    @property
    def n_voters(self) -> int:
        return self.n_clients - self.n_observers

    def switch(self) -> Switch:
        switch = Switch(3 * self.register_bytes + 5, payload_bytes=self.payload_bytes)
        for _ in range(N_JOBS):
            switch.open(
                self.n_voters,
                n_observers=self.n_observers,
                register_bytes=self.register_bytes,
            )
        return switch


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    n_clients = draw(st.sampled_from([1, 2, 3, 9, 65]))
    payload_bytes = draw(st.sampled_from([1, 2, 7, 8, 16, 44, 600]))
    least = 512 + 2 * payload_bytes
    return Plan(
        payload_bytes,
        draw(st.integers(least, least + 4000)),
        n_clients,
        draw(st.integers(0, min(2, n_clients - 1))),
    )


class Mill:
    """Makes packets that are almost valid, from few enough values that they meet.

    Each job has an exchange that runs. Most packets belong to it or to the last one.
    """

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.rng = np.random.default_rng(seed)
        self.lane_bits = LANE_BITS[int(self.rng.integers(len(LANE_BITS)))]
        self.running = {job: [self.kind()] for job in (1, 2, 3)}

    def pick(self, usual: Sequence[int], rare: Sequence[int] = ()) -> int:
        values = rare if len(rare) and self.rng.random() < 0.02 else usual
        return values[int(self.rng.integers(len(values)))]

    def kind(self) -> Kind:
        return Kind(self.pick(range(1, 6)))

    def exchange(self, job: int) -> tuple[int, Kind]:
        kinds = self.running.get(job, [Kind.SUM])
        if self.rng.random() < 0.03:
            kinds.append(self.kind())
        number = max(0, len(kinds) - self.pick([1, 1, 1, 1, 2], [3, 4, 5, 6]))
        return number, kinds[number]

    def packet(self, jobs: Sequence[int] = (1, 2, 3)) -> bytes:
        job = self.pick(jobs, [*jobs, 0, 99])
        exchange, kind = self.exchange(job)
        number = 0 if kind == Kind.MAX else self.number(kind)
        flags = Flag(self.pick(self.flags(kind), range(256)))
        client = self.pick(range(self.plan.n_clients), [1023, 1024, 0xFFFF])
        is_observer = self.pick([client >= self.plan.n_voters], [0, 1])
        if is_observer:
            flags |= Flag.OBSERVE
        asks_only = flags & (Flag.ANNOUNCE | Flag.READ | Flag.OBSERVE)
        is_bare = kind == Kind.MAX or bool(asks_only)
        tells_nothing = is_observer and kind in (Kind.TALLY, Kind.MAX)
        bits_up, bits = self.lane_bits
        widths = {Kind.SUM: bits, Kind.INDEXED_SUM: PAIR_BITS}
        packet = Packet(
            kind=Kind(self.pick([kind], range(1, 6))),
            session=job,
            exchange=self.pick([exchange], [0, exchange + 1]),
            client=client,
            packet=number,
            n_items=0 if is_bare else self.n_items(kind),
            aux=0 if tells_nothing else self.aux(kind, number),
            threshold=self.pick([3] if kind == Kind.TALLY else [0], range(70)),
            bits_up=self.pick([bits_up if kind == Kind.SUM else 0], range(40)),
            bits=0 if tells_nothing else self.pick([widths.get(kind, 32)], range(40)),
            part=self.pick([0], [1]),
            flags=flags,
        )
        data = encode(packet)[:HEADER_BYTES] + self.body(packet)
        return data if self.rng.random() < 0.97 else self.damaged(data)

    def number(self, kind: Kind) -> int:
        return self.pick(range(3 if kind == Kind.INDEXED_SUM else 6), [50, END - 1])

    def aux(self, kind: Kind, number: int) -> int:
        if kind == Kind.INDEXED_SUM:
            return self.pick([40], [1, 300, END])
        ahead = [number + 1, number + 1, min(number + 2, END), END]
        return self.pick(ahead, [0, 1, END - 1])

    def n_items(self, kind: Kind) -> int:
        room = 8 * self.plan.payload_bytes
        # Six bits tell 40 addresses apart.
        width = {
            Kind.TALLY: 1,
            Kind.SUM: self.lane_bits[0],
            Kind.BLOCK_SUM: 32,
            Kind.INDEXED_SUM: PAIR_BITS + 6,
        }
        most = room // width[kind]
        if kind in (Kind.TALLY, Kind.SUM):
            return self.pick([most], [1, 0, most + 1, 0xFFFF])
        return self.pick([most, most, 0], [1, most + 1, 0xFFFF])

    def flags(self, kind: Kind) -> list[int]:
        if kind == Kind.BLOCK_SUM:
            return [0, 0, 0, Flag.ANNOUNCE]
        if kind == Kind.INDEXED_SUM:
            narrow = 3 * [Flag.NARROW, Flag.NARROW, Flag.NARROW | Flag.LAST]
            reads = 2 * [Flag.NARROW | Flag.READ]
            return [*narrow, *reads, 0, Flag.LAST, Flag.READ]
        return [0]

    def body(self, packet: Packet) -> bytes:
        if packet.kind == Kind.INDEXED_SUM:
            return self.pairs(packet)
        bits_up = packet.bits_up
        bits = {Kind.TALLY: 1, Kind.SUM: bits_up, Kind.BLOCK_SUM: 32, Kind.MAX: 0}
        n_bytes = -(-packet.n_items * bits[packet.kind] // 8)
        return b"" if Flag.ANNOUNCE in packet.flags else self.rng.bytes(n_bytes)

    def pairs(self, packet: Packet) -> bytes:
        n_index = index_width(packet.aux, is_narrow=Flag.NARROW in packet.flags)
        levels = self.rng.integers(0, 1 << packet.bits, packet.n_items).tolist()
        words = [
            int(self.rng.integers(max(packet.aux, 1))) | level << n_index
            for level in levels
        ]
        return pack(words, n_index + packet.bits)

    def damaged(self, data: bytes) -> bytes:
        changed = bytearray(data)
        changed[int(self.rng.integers(len(data)))] ^= 1 << int(self.rng.integers(8))
        return bytes(changed[: int(self.rng.integers(len(data) + 1))] or changed)


def as_rows(
    data: Sequence[bytes],
) -> tuple[np.typing.NDArray[np.uint8], np.typing.NDArray[np.int32]]:
    rows = np.zeros((len(data), max(map(len, data), default=0)), dtype=np.uint8)
    for row, each in zip(rows, data, strict=True):
        row[: len(each)] = np.frombuffer(each, dtype=np.uint8)
    return rows, np.array([len(each) for each in data], dtype=np.int32)


def assert_equal(core: Answers, compiled: Answers) -> None:
    assert compiled.lengths.tolist() == core.lengths.tolist()
    assert compiled.destinations.tolist() == core.destinations.tolist()
    assert np.array_equal(compiled.packets, core.packets)


def process_on_both(plan: Plan, batches: Sequence[Sequence[bytes]]) -> Switch:
    """Compare the planes batch by batch; return the compiled one's switch."""
    require_native()
    core, compiled = plan.switch(), plan.switch()
    for batch in batches:
        rows, lengths = as_rows(batch)
        with native.disabled():
            expected = core.process(rows, lengths)
        assert_equal(expected, compiled.process(rows, lengths))
        assert np.array_equal(compiled._registers, core._registers)
        assert compiled._counts.tolist() == core._counts.tolist()
    return compiled


@settings(max_examples=60, deadline=None)
@given(plan=plans(), data=st.lists(st.binary(max_size=80), max_size=20))
def test_both_planes_agree_on_random_bytes(plan: Plan, data: list[bytes]) -> None:
    process_on_both(plan, [data])


@settings(max_examples=60, deadline=None)
@given(plan=plans(), data=st.lists(any_packet.map(encode), max_size=20))
def test_both_planes_agree_on_random_fields(plan: Plan, data: list[bytes]) -> None:
    process_on_both(plan, [data])


@settings(max_examples=60, deadline=None)
@given(plan=plans(), seed=u32, n_packets=st.integers(0, 400))
def test_both_planes_agree_on_almost_valid_packets(
    plan: Plan, seed: int, n_packets: int
) -> None:
    mill = Mill(plan, seed)
    data = [mill.packet() for _ in range(n_packets)]
    process_on_both(plan, [data[i : i + 90] for i in range(0, n_packets, 90)])


@settings(max_examples=30, deadline=None)
@given(plan=plans(), seed=u32)
def test_how_packets_are_batched_makes_no_difference(plan: Plan, seed: int) -> None:
    require_native()
    mill = Mill(plan, seed)
    rows, lengths = as_rows([mill.packet() for _ in range(150)])
    whole, split = plan.switch(), plan.switch()
    expected = whole.process(rows, lengths)
    cuts = np.sort(mill.rng.integers(0, 151, 3))
    parts = [
        split.process(*part)
        for part in zip(np.split(rows, cuts), np.split(lengths, cuts), strict=True)
    ]
    assert_equal(
        expected,
        Answers(
            np.concatenate([part.packets for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.destinations for part in parts]),
        ),
    )
    assert np.array_equal(whole._registers, split._registers)


@pytest.mark.parametrize("plane", PLANES)
@settings(max_examples=40, deadline=None)
@given(plan=plans(), seed=u32)
def test_a_job_never_writes_outside_its_registers(
    plane: str, plan: Plan, seed: int
) -> None:
    mill, switch = Mill(plan, seed), plan.switch()
    start, stop = plan.register_bytes, 2 * plan.register_bytes
    switch._registers[:start] = switch._registers[stop:] = 0xA5
    # A damaged packet may be another job's, which then writes to its own registers.
    sent = (mill.packet(jobs=[2]) for _ in range(200))
    data = [each for each in sent if job_of(each) not in (1, 3)]
    with data_plane(plane):
        switch.process(*as_rows(data))
    assert (switch._registers[:start] == 0xA5).all()
    assert (switch._registers[stop:] == 0xA5).all()


def job_of(data: bytes) -> int:
    """Return what a packet's header says its session is."""
    return int.from_bytes(data[4:12], "big")


def spoil(switch: Switch, rng: np.random.Generator) -> None:
    """Write to the registers what no packet would: anywhere, or to a few words.

    What is left of tags and kinds still meets packets; sizes then say too much.
    """
    registers = switch._registers
    if rng.random() < 0.2:
        registers[:] = rng.integers(0, 256, len(registers), dtype=np.uint8)
    for _ in range(int(rng.integers(1, 40))):
        job = list(switch._jobs.values())[int(rng.integers(N_JOBS))]
        # Most often the job's record, its peaks, and what stands first in a half.
        reach = job.layout.register_bytes if rng.random() < 0.5 else 200
        width = int(rng.choice([1, 2, 4]))
        at = job.base + int(rng.integers(reach)) // width * width
        most = (1 << 8 * width) - 1
        usual = [0, 1, 2, 3, 5, 7, most, most - 1, int(rng.integers(most + 1))]
        value = min(most, usual[int(rng.integers(len(usual)))])
        place = slice(at, at + width)
        registers[place] = np.frombuffer(value.to_bytes(width, "little"), np.uint8)


@settings(max_examples=60, deadline=None)
@given(plan=plans(), seed=u32)
def test_no_content_of_the_registers_leads_outside_them(plan: Plan, seed: int) -> None:
    require_native()
    mill, core, compiled = Mill(plan, seed), plan.switch(), plan.switch()
    for _ in range(6):
        spoil(core, mill.rng)
        compiled._registers[:] = core._registers
        behind = core._registers[N_JOBS * plan.register_bytes :].copy()
        rows, lengths = as_rows([mill.packet() for _ in range(40)])
        with native.disabled():
            expected = core.process(rows, lengths)
        assert_equal(expected, compiled.process(rows, lengths))
        assert np.array_equal(compiled._registers, core._registers)
        assert compiled._counts.tolist() == core._counts.tolist()
        behind_now = core._registers[N_JOBS * plan.register_bytes :]
        assert np.array_equal(behind_now, behind)


@pytest.mark.parametrize("plane", PLANES)
@settings(max_examples=40, deadline=None)
@given(plan=plans(), seed=u32)
def test_a_job_with_spoilt_registers_leaves_others_alone(
    plane: str, plan: Plan, seed: int
) -> None:
    mill, switch = Mill(plan, seed), plan.switch()
    start, stop = plan.register_bytes, 2 * plan.register_bytes
    with data_plane(plane):
        for _ in range(6):
            spoil(switch, mill.rng)
            before = switch._registers.copy()
            sent = (mill.packet(jobs=[2]) for _ in range(40))
            data = [each for each in sent if job_of(each) not in (1, 3)]
            switch.process(*as_rows(data))
            assert np.array_equal(switch._registers[:start], before[:start])
            assert np.array_equal(switch._registers[stop:], before[stop:])


@pytest.mark.parametrize("plane", PLANES)
@settings(max_examples=40, deadline=None)
@given(plan=plans(), seed=u32)
def test_register_use_stays_within_the_registers_and_falls_to_nothing(
    plane: str, plan: Plan, seed: int
) -> None:
    mill, switch = Mill(plan, seed), plan.switch()
    with data_plane(plane):
        switch.process(*as_rows([mill.packet() for _ in range(200)]))
    assert switch.counters.register_bytes <= N_JOBS * plan.register_bytes
    for job in list(switch._jobs.values()):
        switch.close(job)
    assert switch._counts[Count.USED_BYTES] == 0
