import numpy as np
import pytest
import torch

from fediac import native
from fediac.core.corrected import correct
from fediac.core.quantize import Grid, send_chosen
from fediac.native.arrays import view
from fediac.native.kernels import Kernels
from tests.support import refuses, stream

FLOATS = np.ones(16, np.float32)


def kernels() -> Kernels:
    found = native.host_kernels_for(FLOATS)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "array",
    [
        FLOATS,
        FLOATS[4:9],
        np.ones(3, np.uint8),
        torch.ones(4),
        torch.ones(9)[3:],
        torch.ones(3, dtype=torch.uint8),
    ],
)
def test_kernels_take_float32_and_bytes(array: object) -> None:
    assert native.host_kernels_for(array) is not None
    assert native.host_kernels_for(array, None, array) is not None


@pytest.mark.parametrize(
    "array",
    [
        np.ones(4),
        np.ones(4, np.int64),
        np.ones(4, ">f4"),
        np.ones((2, 2), np.float32),
        FLOATS[::2],
        np.zeros(17, np.uint8)[1:].view(np.float32),
        torch.ones(4, dtype=torch.float64),
        torch.ones(4, dtype=torch.bfloat16),
        torch.ones(8)[::2],
        torch.ones(2, 2),
        torch.ones(4, device="meta"),
        torch.ones(4).to_sparse(),
        [1.0, 2.0],
    ],
)
def test_everything_else_is_left_to_core(array: object) -> None:
    assert native.host_kernels_for(array) is None
    assert native.host_kernels_for(FLOATS, array) is None


def test_kernels_do_not_mix_kinds() -> None:
    assert native.host_kernels_for(FLOATS, torch.ones(16)) is None
    assert native.host_kernels_for(torch.ones(16), FLOATS) is None
    assert native.host_kernels_for() is None
    assert native.host_kernels_for(None) is None


def test_lanes_are_packed_from_integers_of_numpy() -> None:
    assert native.kernels_for_lanes(np.ones(4, np.int64)) is not None
    assert native.kernels_for_lanes(np.ones(4, np.int32)) is not None
    assert native.kernels_for_lanes(np.ones(4, np.uint64)) is None
    assert native.kernels_for_lanes(torch.ones(4, dtype=torch.int64)) is None


def test_tensors_are_not_copied() -> None:
    tensor = torch.arange(5, dtype=torch.float32)
    assert view(tensor).ctypes.data == tensor.data_ptr()
    update, residual = torch.ones(5000), torch.ones(5000)
    corrected = correct(update, residual, out=residual)
    assert corrected.values is residual
    assert residual.tolist() == [2.0] * 5000
    grid = Grid.of(peak=2.0, bits=8, n_clients=2)
    sent = send_chosen(residual, None, grid, stream(), out=residual)
    assert isinstance(sent.lanes, torch.Tensor)
    assert float(residual.abs().max()) <= 1.0 / grid.scale


def test_an_update_that_is_its_own_sum_is_not_written() -> None:
    update = np.ones(5000, np.float32)
    update.flags.writeable = False
    assert correct(update, None, out=update).mass == 5000.0
    assert correct(update, update, out=update).mass == 10_000.0


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    short, packed = FLOATS[:9], np.zeros(3, np.uint8)
    grid = Grid.of(peak=1.0, bits=8, n_clients=2)
    with refuses("residual must have 16 entries, got 9"):
        kernels().count_nonfinite(FLOATS, short)
    with refuses("out must have 16 entries, got 9"):
        kernels().first_pass(FLOATS, None, short)
    with refuses("gia must have 2 entries, got 3"):
        kernels().send_chosen(FLOATS, packed, grid, stream(), None)
    with refuses("votes must have 3 entries, got 2"):
        kernels().agree([packed, packed[:2]], 1)
    with refuses("packed must have 3 entries, got 2"):
        kernels().add_lanes(packed, packed[:2])
    with refuses("packed must have 4 bytes, got 3"):
        kernels().unpack_lanes(packed, 4, 8)
    with refuses("packed must be uint8, got float32", TypeError):
        kernels().count_bits(FLOATS)


def test_read_only_arrays_are_not_written() -> None:
    out = np.zeros(16, np.float32)
    out.flags.writeable = False
    with refuses("out must be writable, got a read-only array"):
        kernels().first_pass(FLOATS, None, out)
    assert not out.any()


@pytest.mark.parametrize("n_bytes", [0, 1, 3, 7, 8, 9, 16, 1001])
def test_lanes_add_like_one_long_integer(n_bytes: int) -> None:
    rng = np.random.default_rng(n_bytes)
    for _ in range(20):
        total = rng.integers(0, 256, n_bytes).astype(np.uint8)
        total[rng.random(n_bytes) < 0.5] = 255
        packed = rng.integers(0, 256, n_bytes).astype(np.uint8)
        packed[rng.random(n_bytes) < 0.5] = 0
        numbers = [int.from_bytes(part.tobytes(), "little") for part in (total, packed)]
        expected = sum(numbers) % (1 << 8 * n_bytes) if n_bytes else 0
        kernels().add_lanes(total, packed)
        assert int.from_bytes(total.tobytes(), "little") == expected
