"""Whether a switch has room for what an algorithm is going to ask.

A round finds out by itself, but only when residuals may have been overwritten.
"""

from fediac.compressors import Compressor, FediAC, Libra, OmniReduce
from fediac.switch.registers import Layout
from fediac.transports.packets import (
    require_addresses,
    require_block,
    require_slots,
)
from fediac.wire.header import Kind


def require_capacity(compressor: Compressor, layout: Layout) -> None:
    """Refuse one of this package's algorithms that the registers are too small for.

    What the user's own algorithms ask is not known before they do.

    Raises:
        ValueError: They are.
    """
    match compressor:
        case FediAC():
            require_slots(layout, Kind.TALLY, compressor.threshold)
        case OmniReduce():
            require_block(layout.payload_bytes, compressor.block)
            require_slots(layout, Kind.BLOCK_SUM)
        case Libra():
            require_addresses(layout, compressor.hot.shape[0])
