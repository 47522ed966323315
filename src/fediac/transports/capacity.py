"""Whether a switch has room for the exchanges that an algorithm announces.

A round finds out by itself, but only when residuals may have been overwritten.
"""

from fediac.compressors import Compressor
from fediac.compressors.forecast import (
    AsksBlockSum,
    AsksIndexedSum,
    AsksSum,
    AsksTally,
    asks_of,
)
from fediac.switch.registers import Layout
from fediac.transports.packets import (
    require_addresses,
    require_block,
    require_slots,
)
from fediac.wire.header import Kind, items_per_packet, lanes_per_packet


def require_capacity(compressor: Compressor, layout: Layout) -> None:
    """Refuse an algorithm if registers or packets are too small for it.

    Of one that does not say what it asks, this is not known before it does.

    Raises:
        ValueError: They are, and how large they must be.
    """
    for asked in asks_of(compressor):
        match asked:
            case AsksTally():
                require_slots(layout, Kind.TALLY, asked.threshold)
            case AsksSum():
                _require_lanes(asked, layout)
            case AsksBlockSum():
                require_block(layout.payload_bytes, asked.block)
                require_slots(layout, Kind.BLOCK_SUM)
            case AsksIndexedSum() if asked.size:
                require_addresses(layout, asked.size)
                items_per_packet(asked.pair_bits, layout.payload_bytes)


def _require_lanes(asked: AsksSum, layout: Layout) -> None:
    """Refuse registers too small for a slot of the sums, at any width agreed on."""
    if asked.known_widths is not None:
        lanes_per_packet(*asked.known_widths, layout.payload_bytes)
    longest = max(
        asked.widths, key=lambda each: layout.slot_bytes(Kind.SUM, widths=each)
    )
    require_slots(layout, Kind.SUM, widths=longest)
