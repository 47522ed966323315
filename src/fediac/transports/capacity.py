"""Whether a switch has room for what an algorithm is going to ask.

A round finds out by itself, but only when residuals may have been overwritten.
"""

from fediac.compressors import Compressor, FediAC, Libra, OmniReduce, SwitchML
from fediac.switch.registers import Layout
from fediac.transports.packets import (
    require_addresses,
    require_block,
    require_slots,
)
from fediac.wire.header import Kind, items_per_packet


def require_capacity(compressor: Compressor, layout: Layout) -> None:
    """Refuse an algorithm of this package if registers or packets are too small for it.

    What the user's own algorithms ask is not known before they do.

    Raises:
        ValueError: They are, and how large they must be.
    """
    match compressor:
        case FediAC():
            require_slots(layout, Kind.TALLY, compressor.threshold)
            if isinstance(compressor.bits, int):
                items_per_packet(compressor.bits, layout.payload_bytes)
        case SwitchML():
            items_per_packet(compressor.bits, layout.payload_bytes)
        case OmniReduce():
            require_block(layout.payload_bytes, compressor.block)
            require_slots(layout, Kind.BLOCK_SUM)
        case Libra() if compressor.hot.shape[0]:
            require_addresses(layout, compressor.hot.shape[0])
            items_per_packet(compressor.pair_bits, layout.payload_bytes)
