"""Sums and counters, which C has once for each instruction set: always Python's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fediac.native.library import ISAS
from fediac.switch.registers import Layout, Widths
from fediac.wire.header import Kind
from fediac.wire.packet import Packet, encode
from tests.planes import instruction_set
from tests.property.test_packets import Plan, process_on_both

PAYLOAD_BYTES, N_SLOTS = 600, 2
FULL = (1 << 64) - 1
SESSION = 2
"""A job whose first byte is no multiple of anything."""

words = st.sampled_from([0, 1, FULL, FULL - 1, 1 << 63]) | st.integers(0, FULL)
"""Words that hand a carry on or make one, and all others."""

n_bits = st.integers(1, 8 * PAYLOAD_BYTES) | st.just(8 * PAYLOAD_BYTES)


@st.composite
def payloads(draw: st.DrawFn) -> list[int]:
    """Return what a few clients send, as one integer each."""
    runs = st.lists(words, min_size=1, max_size=30)
    return [
        int.from_bytes(b"".join(w.to_bytes(8, "little") for w in run) * 75, "little")
        for run in draw(st.lists(runs, min_size=1, max_size=5))
    ]


def compare(
    payloads: list[int],
    n_items: int,
    item_bits: int,
    *,
    widths: Widths | None = None,
    threshold: int = 1,
) -> None:
    """Let both planes fill two slots, answer from them again, and fill one again."""
    kind = Kind.TALLY if widths is None else Kind.SUM
    n_clients = len(payloads)
    layout = Layout(n_clients, PAYLOAD_BYTES, 1 << 20)
    n_bytes = layout.least_bytes(kind, N_SLOTS, threshold, widths)
    plan = Plan(PAYLOAD_BYTES, n_bytes + 3, n_clients, 0)
    bits_up, bits = widths or (0, 0)
    batches = []
    for packet in range(N_SLOTS + 1):
        n_here = n_items if packet % 2 == 0 else n_items // 2 + 1
        mask = (1 << n_here * item_bits) - 1
        sent = [
            Packet(
                kind=kind,
                session=SESSION,
                exchange=0,
                client=client,
                packet=packet,
                n_items=n_here,
                threshold=0 if widths else threshold,
                bits_up=bits_up,
                bits=bits,
                body=(payload & mask).to_bytes(-(-n_here * item_bits // 8), "little"),
            )
            for client, payload in enumerate(payloads[packet:] + payloads[:packet])
        ]
        batches += 2 * [[encode(each) for each in sent]]
    switch = process_on_both(plan, batches)
    assert switch.counters.aggregations == N_SLOTS + 1
    assert not switch.counters.drops


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=60, deadline=None)
@given(payloads(), n_bits)
def test_carries_go_as_far_as_they_must(
    isa: str, payloads: list[int], n_bits: int
) -> None:
    with instruction_set(isa):
        compare(payloads, n_bits, 1, widths=(1, 1))


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=60, deadline=None)
@given(
    payloads(),
    st.lists(st.integers(1, 32), min_size=2, max_size=2, unique=True).map(sorted),
    n_bits,
)
def test_lanes_of_any_widths_are_widened(
    isa: str, payloads: list[int], widths: list[int], n_bits: int
) -> None:
    bits_up, bits = widths
    n_items = max(1, n_bits // bits_up)
    with instruction_set(isa):
        compare(payloads, n_items, bits_up, widths=(bits_up, bits))


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=60, deadline=None)
@given(payloads(), n_bits, st.data())
def test_votes_are_counted_up_to_any_threshold(
    isa: str, payloads: list[int], n_bits: int, data: st.DataObject
) -> None:
    threshold = data.draw(st.integers(1, len(payloads)))
    with instruction_set(isa):
        compare(payloads, n_bits, 1, threshold=threshold)
