"""The ledger as bytes on the wire: IP packets of their real length, with headers."""

from fediac.core.ledger import View
from fediac.wire.header import (
    HEADER_BYTES,
    IP_UDP_BYTES,
    LANES_UNIT,
    PAYLOAD_BYTES,
    items_per_packet,
)

WIRE = View(
    "wire",
    payload_bytes=PAYLOAD_BYTES,
    header_bytes=HEADER_BYTES + IP_UDP_BYTES,
    items_per_packet=items_per_packet,
    lanes_unit=LANES_UNIT,
    is_as_sent=True,
)
