"""Golden packets in both data planes: what they make of them is the same bytes."""

from collections.abc import Sequence

import numpy as np
import pytest

from fediac.switch.pipeline import Switch
from tests.planes import PLANES, data_plane
from tests.unit.wire.test_packet import VECTORS

DATA = [bytes.fromhex(vector["packet"]) for vector in VECTORS]
SESSION = VECTORS[0]["fields"]["session"]
N_CLIENTS = 20


def answers(plane: str, batches: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Return all that a switch answers, then its registers and counters."""
    switch = Switch(1 << 20)
    switch.open(N_CLIENTS, n_observers=1, session=SESSION)
    said = []
    with data_plane(plane):
        for batch in batches:
            rows = np.zeros((len(batch), max(map(len, batch))), dtype=np.uint8)
            for row, data in zip(rows, batch, strict=True):
                row[: len(data)] = np.frombuffer(data, dtype=np.uint8)
            lengths = np.array([len(data) for data in batch], dtype=np.int32)
            made = switch.process(rows, lengths)
            said += [made.packets.tobytes(), made.lengths.tobytes()]
            said.append(made.destinations.tobytes())
    return [*said, switch._registers.tobytes(), repr(switch.counters).encode()]


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "backwards"])
def test_both_planes_make_the_same_of_every_golden_packet(order: int) -> None:
    batches = [[data] for data in DATA[::order]]
    core, native = (answers(plane, batches) for plane in PLANES)
    assert core == native


def test_some_golden_packets_are_taken_and_some_are_not() -> None:
    *_, counters = answers("core", [DATA])
    assert b"foreign" in counters
    assert b"packets_out=0" not in counters
