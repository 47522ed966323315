"""The Triton kernels give core's bits: on a GPU, or interpreted where there is none.

Triton comes with PyTorch's CUDA builds; without it these tests are skipped by name.
Interpreted kernels run in NumPy and need neither a GPU nor a compiler.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from fediac import native
from fediac.core.bitpack import count_bits, pack_lanes, unpack_lanes
from fediac.core.consensus import agree
from fediac.core.corrected import Corrected, correct
from fediac.core.quantize import Grid, send_chosen
from fediac.core.rng import Stream
from fediac.core.voting import _draw_bernoulli
from fediac.native import DeviceKernels
from tests.support import bytes_of
from tests.unit.native.equality import VECTORS, packed_mask

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    # Triton reads it when it is imported.
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton is not installed")

DIMS = (1, 9, 4097)
VOTED = [name for name in VECTORS if name != "zero"]
SENT = [name for name in VOTED if name != "denormal"]
"""All but what is too small to send."""

STREAM = Stream(3, 2, 1, "test")


@pytest.fixture
def kernels() -> Iterator[DeviceKernels]:
    """The kernels; core stays core meanwhile."""
    from fediac.native import device_kernels

    with native.disabled():
        yield DeviceKernels(device_kernels)


def vector(name: str, dim: int) -> Any:
    return torch.from_numpy(VECTORS[name](dim)).to(DEVICE)


def finite(name: str, dim: int) -> Corrected:
    corrected = correct(vector(name, dim), None)
    assert np.isfinite(corrected.energy)
    return corrected


def test_they_have_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDIAC_NATIVE", raising=False)
    assert native.name_kernels("cuda") == "triton"
    monkeypatch.setenv("FEDIAC_NATIVE", "0")
    assert native.name_kernels("cuda") == "none"


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("dim", DIMS)
def test_first_pass(kernels: DeviceKernels, name: str, dim: int) -> None:
    update = vector(name, dim)
    for residual in (None, vector("normal", dim)):
        out = update if residual is None else torch.empty_like(update)
        mass, peak, energy, n_nonfinite = kernels.first_pass(update, residual, out)
        expected = correct(update, residual)
        assert n_nonfinite == expected.n_nonfinite
        assert bytes_of(out.cpu()) == bytes_of(expected.values.cpu())
        assert (mass, peak) == (expected.mass, expected.peak)
        assert energy == expected.energy


def test_nonfinite_entries_are_counted(kernels: DeviceKernels) -> None:
    update = torch.ones(5000, device=DEVICE)
    update[[3, 4100, 4999]] = torch.tensor([np.nan, np.inf, -np.inf], device=DEVICE)
    assert kernels.count_nonfinite(update, None) == 3
    assert kernels.count_nonfinite(update, torch.ones_like(update)) == 3


def test_entries_beyond_the_largest_magnitude_are_counted(
    kernels: DeviceKernels,
) -> None:
    above = np.nextafter(np.float32(2.0**100), np.float32(np.inf))
    update = torch.full((5000,), 2.0**100, device=DEVICE)
    assert kernels.count_nonfinite(update, None) == 0
    update[[3, 4100, 4999]] = torch.tensor([above, -above, 3e38], device=DEVICE)
    assert kernels.count_nonfinite(update, None) == 3


@pytest.mark.parametrize("name", VOTED)
@pytest.mark.parametrize("dim", DIMS)
def test_votes(kernels: DeviceKernels, name: str, dim: int) -> None:
    corrected = finite(name, dim)
    for n_votes in {1, max(1, dim // 20), dim}:
        votes = kernels.draw_votes(corrected.values, corrected.mass, n_votes, STREAM)
        expected = _draw_bernoulli(corrected, n_votes, STREAM)
        assert bytes_of(votes.cpu()) == bytes_of(expected.cpu())
        assert kernels.count_bits(votes) == count_bits(expected)


@pytest.mark.parametrize("bits", [6, 12, 32])
@pytest.mark.parametrize("share", [None, 0.0, 0.3])
@pytest.mark.parametrize("name", SENT)
def test_sent_levels(
    kernels: DeviceKernels, name: str, share: float | None, bits: int
) -> None:
    dim = 4099
    corrected = finite(name, dim)
    # A peak below the largest entry's: some levels are clamped.
    grid = Grid.of(peak=0.75 * corrected.peak, bits=bits, n_clients=5)
    gia = None
    if share is not None:
        gia = torch.from_numpy(packed_mask(dim, share)).to(DEVICE)
    left, expected_left = corrected.values.clone(), corrected.values.clone()
    lanes, *numbers = kernels.send_chosen(corrected.values, gia, grid, STREAM, left)
    expected = send_chosen(corrected.values, gia, grid, STREAM, out=expected_left)
    assert bytes_of(lanes.cpu()) == bytes_of(expected.lanes.cpu())
    assert bytes_of(left.cpu()) == bytes_of(expected_left.cpu())
    assert numbers == [
        expected.n_levels,
        expected.chosen_energy,
        expected.left_energy,
        expected.n_clamped,
    ]


@pytest.mark.parametrize("bits", range(1, 33))
def test_lanes(kernels: DeviceKernels, bits: int) -> None:
    rng = np.random.default_rng(bits)
    lanes = torch.from_numpy(rng.integers(0, 1 << bits, 1001)).to(DEVICE)
    packed = kernels.pack_lanes(lanes, bits)
    assert bytes_of(packed.cpu()) == bytes_of(pack_lanes(lanes, bits).cpu())
    unpacked = kernels.unpack_lanes(packed, 1001, bits)
    assert bytes_of(unpacked.cpu()) == bytes_of(unpack_lanes(packed, 1001, bits).cpu())


@pytest.mark.parametrize("threshold", [1, 3, 7, 8])
def test_agreement(kernels: DeviceKernels, threshold: int) -> None:
    votes = [
        torch.from_numpy(packed_mask(4100, 0.3, seed=seed)).to(DEVICE)
        for seed in range(7)
    ]
    agreed = kernels.agree(votes, threshold)
    assert bytes_of(agreed.cpu()) == bytes_of(agree(votes, threshold).cpu())
