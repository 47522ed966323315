"""Whether a switch has room for what an algorithm is going to ask.

A round finds out by itself, but only when residuals may have been overwritten.
"""

from fediac.compressors import Compressor, FediAC, Libra, OmniReduce, SwitchML
from fediac.core.bitpack import MAX_LANE_BITS
from fediac.core.widths import lane_widths
from fediac.switch.registers import Layout, Widths
from fediac.transports.packets import (
    require_addresses,
    require_block,
    require_slots,
)
from fediac.wire.header import Kind, items_per_packet, lanes_per_packet


def require_capacity(compressor: Compressor, layout: Layout) -> None:
    """Refuse an algorithm of this package if registers or packets are too small for it.

    What the user's own algorithms ask is not known before they do.

    Raises:
        ValueError: They are, and how large they must be.
    """
    match compressor:
        case FediAC():
            require_slots(layout, Kind.TALLY, compressor.threshold)
            _require_lanes(compressor, layout)
        case SwitchML():
            _require_lanes(compressor, layout)
        case OmniReduce():
            require_block(layout.payload_bytes, compressor.block)
            require_slots(layout, Kind.BLOCK_SUM)
        case Libra() if compressor.hot.shape[0]:
            require_addresses(layout, compressor.hot.shape[0])
            items_per_packet(compressor.pair_bits, layout.payload_bytes)


def known_widths(compressor: Compressor) -> Widths | None:
    """Return the widths of the lanes that an algorithm will send and get.

    None where it has none, or clients are still to agree on them.
    """
    if not isinstance(compressor, FediAC | SwitchML):
        return None
    bits, n_clients = compressor.bits, compressor.n_clients
    if not isinstance(bits, int):
        return None
    return lane_widths(bits=bits, n_clients=n_clients, lanes=compressor.lanes)


def _require_lanes(compressor: FediAC | SwitchML, layout: Layout) -> None:
    """Refuse registers without a slot for the sums, whatever clients may agree on."""
    widths = known_widths(compressor)
    if widths is not None:
        lanes_per_packet(*widths, layout.payload_bytes)
        require_slots(layout, Kind.SUM, widths=widths)
        return
    n_clients, lanes = compressor.n_clients, compressor.lanes
    every = {
        lane_widths(bits=bits, n_clients=n_clients, lanes=lanes)
        for bits in range(n_clients.bit_length() + 1, MAX_LANE_BITS + 1)
    }
    longest = max(every, key=lambda each: layout.slot_bytes(Kind.SUM, widths=each))
    require_slots(layout, Kind.SUM, widths=longest)
