import numpy as np
import pytest

from fediac.core import chunks as module
from fediac.core.chunks import DEVICE_CHUNK, HOST_CHUNK, chunk_length, chunks
from fediac.core.exact import BLOCK
from tests.support import Make


def test_chunks_hold_whole_blocks_of_the_sum() -> None:
    assert HOST_CHUNK % BLOCK == 0
    assert DEVICE_CHUNK % BLOCK == 0


def test_arrays_in_host_memory_are_cut_alike(make: Make) -> None:
    assert chunk_length(make(np.zeros(1))) == HOST_CHUNK


@pytest.mark.parametrize("n_entries", [0, 1, 8, 9, 16, 17])
def test_chunks_cover_all_entries_in_order(
    make: Make, monkeypatch: pytest.MonkeyPatch, n_entries: int
) -> None:
    monkeypatch.setattr(module, "HOST_CHUNK", 8)
    covered = [
        entry
        for start, stop in chunks(n_entries, make(np.zeros(1)))
        for entry in range(start, stop)
    ]
    assert covered == list(range(n_entries))
    assert all(start % 8 == 0 for start, _ in chunks(n_entries, np.zeros(1)))
