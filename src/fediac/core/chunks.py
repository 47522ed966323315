"""How long vectors are split, so that every function of core has bounded memory."""

from collections.abc import Iterator

from array_api_compat import device, is_torch_array

from fediac.core.types import Array

HOST_CHUNK = 1 << 17
"""Entries at a time on a CPU: a dozen int64 temporaries about fit the cache."""

DEVICE_CHUNK = 1 << 25
"""Entries at a time on an accelerator, where each launch costs microseconds."""


def chunk_length(array: Array) -> int:
    """Return how many entries to work on at a time where ``array`` lives.

    Both lengths are multiples of 4,096, so a chunk holds whole blocks of the sum in
    ``sums`` and whole bytes of packed bits; no result depends on the choice.
    """
    is_on_device = is_torch_array(array) and device(array).type != "cpu"
    return DEVICE_CHUNK if is_on_device else HOST_CHUNK


def chunks(n_entries: int, like: Array) -> Iterator[tuple[int, int]]:
    """Yield ``(start, stop)`` pairs that cover ``0..n_entries`` in order."""
    length = chunk_length(like)
    for start in range(0, n_entries, length):
        yield start, min(start + length, n_entries)
