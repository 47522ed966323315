"""Which arrays share memory: a round must not overwrite what it has yet to read."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from array_api_compat import is_numpy_array

from fediac.core.types import Array
from fediac.errors import UpdateError


@dataclass(frozen=True, slots=True)
class Written:
    """Memory that clients write to, each to its own, from first byte to last.

    Columns of one matrix, which lie between each other, count as shared.

    Attributes:
        spans: (first byte, byte behind the last, client), ascending; none overlap.
    """

    spans: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, buffers: Mapping[int, Array | None]) -> "Written":
        """Return the memory of these arrays.

        Args:
            buffers: Client -> what it writes to, if anything.

        Raises:
            UpdateError: Two clients would write to the same memory.
        """
        spans = sorted(
            (*_span(buffer), client)
            for client, buffer in buffers.items()
            if buffer is not None
        )
        for (_, stop, owner), (start, _, client) in pairwise(spans):
            if start < stop:
                raise UpdateError(
                    f"client {max(owner, client)}: out must be an array of its own, "
                    f"got memory of client {min(owner, client)}'s out"
                )
        return cls(tuple(spans))

    def check(self, client: int, name: str, array: Array, *, may_be_own: bool) -> None:
        """Refuse an array that a client writes to.

        Args:
            client: Whose array it is.
            name: What it is.
            array: What is read.
            may_be_own: The client itself may write there, entry for entry.
        """
        start, stop = _span(array)
        place = bisect_left(self.spans, (stop,))
        # They stand apart, so their ends ascend as well.
        while place and self.spans[place - 1][1] > start:
            place -= 1
            owner = self.spans[place][2]
            if not (may_be_own and self.spans[place] == (start, stop, client)):
                raise UpdateError(
                    f"client {owner}: out must be an array of its own, got memory of "
                    f"client {client}'s {name}"
                )


def is_same_memory(array: Array, other: Array | None) -> bool:
    """Return whether both begin and end in the same places of memory."""
    return other is not None and _span(array) == _span(other)


def _span(array: Array) -> tuple[int, int]:
    """Return where the memory of an array begins and ends."""
    if is_numpy_array(array):
        low, high = np.lib.array_utils.byte_bounds(array)
        return int(low), int(high)
    first = int(array.data_ptr())
    if not array.numel():
        return first, first
    steps = zip(array.shape, array.stride(), strict=True)
    last = sum((length - 1) * stride for length, stride in steps)
    return first, first + (last + 1) * array.itemsize
