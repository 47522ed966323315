"""The counters of a switch."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt


class Drop(IntEnum):
    """Why a packet was dropped."""

    FOREIGN = 0
    """Not a packet of this protocol or of this version."""
    MALFORMED = 1
    """Its fields contradict each other or its length."""
    UNKNOWN_SESSION = 2
    STRANGER = 3
    """The client does not take part in the job's round."""
    STALE = 4
    """The packet belongs to an exchange that is already over."""
    BUSY = 5
    """An earlier packet must come first: this one overtook it or the window."""
    DUPLICATE = 6
    """This client was counted already, and is told to wait for the answer."""
    MISMATCH = 7
    """It contradicts the exchange it belongs to; the client is told how."""
    REGISTERS = 8
    """The exchange does not fit the job's registers."""


class Count(IntEnum):
    """Places of the counters before those of drops."""

    PACKETS_IN = 0
    PACKETS_OUT = 1
    AGGREGATIONS = 2
    REPEATED = 3
    USED_BYTES = 4
    PEAK_BYTES = 5


N_COUNTS = len(Count) + len(Drop)

REASONS = (*(drop.name.lower() for drop in Drop), "tag", "key", "address")
"""Why the data plane or the control plane dropped a packet: a wrong tag, an OPEN or
CLOSE without the job's key, an address that its member has not joined from."""


@dataclass(frozen=True, slots=True)
class Counters:
    """A reading of a switch's counters.

    Attributes:
        packets_in: Packets that arrived, dropped ones included.
        packets_out: Answers sent; one to all clients counts once.
        aggregations: Slots completed; for indexed values, distinct entries touched.
        repeated: Answers given again to a client that asked again.
        register_bytes: The most register bytes in use at one time, since the switch was
            made or told to forget its peak.
        drops: Reason in lower case -> packets, for the reasons that occurred.
    """

    packets_in: int
    packets_out: int
    aggregations: int
    repeated: int
    register_bytes: int
    drops: dict[str, int]

    @classmethod
    def read(cls, counts: npt.NDArray[np.int64]) -> "Counters":
        """Return the counters held in an array of ``N_COUNTS`` integers."""
        first = len(Count)
        return cls(
            packets_in=int(counts[Count.PACKETS_IN]),
            packets_out=int(counts[Count.PACKETS_OUT]),
            aggregations=int(counts[Count.AGGREGATIONS]),
            repeated=int(counts[Count.REPEATED]),
            register_bytes=int(counts[Count.PEAK_BYTES]),
            drops={
                reason.name.lower(): int(counts[first + reason])
                for reason in Drop
                if counts[first + reason]
            },
        )

    def since(self, before: "Counters") -> "Counters":
        """Return what was counted after ``before``; the peak stays what it is now."""
        return Counters(
            packets_in=self.packets_in - before.packets_in,
            packets_out=self.packets_out - before.packets_out,
            aggregations=self.aggregations - before.aggregations,
            repeated=self.repeated - before.repeated,
            register_bytes=self.register_bytes,
            drops={
                reason: count - before.drops.get(reason, 0)
                for reason, count in self.drops.items()
                if count != before.drops.get(reason, 0)
            },
        )
