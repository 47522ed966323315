"""Updates of every kind, and checks that the kernels and core agree on them bit by bit.

Each check runs one function of core twice: with the kernels, and without.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fediac import native
from fediac.core.bitpack import count_bits, pack_lanes, unpack_lanes
from fediac.core.consensus import agree
from fediac.core.corrected import Corrected, correct, count_nonfinite
from fediac.core.groups import group_peaks, group_rms, spread_groups
from fediac.core.magnitudes import largest, pattern_counts
from fediac.core.quantize import MIN_PEAK, Grid, send_chosen
from fediac.core.rng import Stream
from fediac.core.voting import _draw_bernoulli
from tests.support import bytes_of, kind_of

Values = NDArray[np.float32]

DIMS = (1, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097, 11519, 11520, 11521)
LONG_DIMS = (131071, 131072, 131073)


def _normal(dim: int) -> Values:
    return np.random.default_rng(dim).standard_normal(dim).astype(np.float32)


def _power_law(dim: int) -> Values:
    ranks = np.random.default_rng(dim).permutation(dim) + 1.0
    values: Values = (np.where(ranks % 2, -1.0, 1.0) * ranks**-0.7).astype(np.float32)
    return values


def _denormal(dim: int) -> Values:
    return (_normal(dim).astype(np.float64) * 1e-40).astype(np.float32)


def _huge(dim: int) -> Values:
    return (np.clip(_normal(dim), -3.0, 3.0) * 1.1e38).astype(np.float32)


def _signed_zeros(dim: int) -> Values:
    values = np.zeros(dim, np.float32)
    values[::2] = -0.0
    values[::5] = 1.0
    return values


def _mixed(dim: int) -> Values:
    """Everything at once: from denormals to values that swallow all others."""
    exponents = np.random.default_rng(dim).integers(-145, 120, dim)
    return np.ldexp(_normal(dim).astype(np.float64), exponents).astype(np.float32)


VECTORS: dict[str, Callable[[int], Values]] = {
    "normal": _normal,
    "power law": _power_law,
    "zero": lambda dim: np.zeros(dim, np.float32),
    "equal": lambda dim: np.full(dim, -0.1, np.float32),
    "denormal": _denormal,
    "huge": _huge,
    "signed zeros": _signed_zeros,
    "mixed": _mixed,
}


def packed_mask(dim: int, share: float, *, seed: int = 0) -> NDArray[np.uint8]:
    mask = np.random.default_rng(seed).random(dim) < share
    return np.packbits(mask, bitorder="little")


def both(function: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what the function gives with the kernels and without."""
    with_kernels = function()
    with native.disabled():
        return with_kernels, function()


def assert_same(found: Any, expected: Any) -> None:
    assert kind_of(found) == kind_of(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert bytes_of(found) == bytes_of(expected)


def check_correct(update: Any, residual: Any) -> None:
    def run() -> Corrected:
        return correct(update, residual)

    found, expected = both(run)
    assert_same(found.values, expected.values)
    assert found.mass == expected.mass
    assert found.peak == expected.peak
    assert found.energy == expected.energy
    assert found.n_nonfinite == expected.n_nonfinite
    assert np.isfinite(expected.energy)  # too large to send is not too large to compare


def check_count_nonfinite(update: Any, residual: Any) -> None:
    found, expected = both(lambda: count_nonfinite(update, residual))
    assert found == expected


def check_votes(values: Any, mass: float, n_votes: int, stream: Stream) -> None:
    """Compare the votes for any mass, be it the sum of magnitudes or not."""
    corrected = Corrected(values, mass=mass, peak=0.0, energy=0.0, n_nonfinite=0)
    with np.errstate(all="ignore"):
        found, expected = both(lambda: _draw_bernoulli(corrected, n_votes, stream))
    assert_same(found, expected)


def check_agree(votes: list[Any], threshold: int) -> None:
    found, expected = both(lambda: agree(votes, threshold))
    assert_same(found, expected)


def check_count_bits(packed: Any) -> None:
    found, expected = both(lambda: count_bits(packed))
    assert found == expected


def check_send(
    values: Any, gia: Any, bits: int, stream: Stream, *, clip: float = 1.0
) -> None:
    """Compare what is sent and left of ``values``, with and without a residual.

    Args:
        clip: This part of the largest magnitude is the agreed peak.
    """
    largest = float(np.max(np.abs(np.asarray(values)), initial=0.0))
    peak = max(clip * largest, MIN_PEAK)
    grid = Grid.of(peak=peak, bits=bits, n_clients=3)
    copies = [values + 0, values + 0]

    def run() -> Any:
        out = copies.pop()
        return send_chosen(out, gia, grid, stream, out=out), out

    with np.errstate(over="ignore"):  # a coarse grid can leave twice the peak
        (found, found_out), (expected, expected_out) = both(run)
    assert_same(found_out, expected_out)
    assert_same(found.lanes, expected.lanes)
    assert found.n_levels == expected.n_levels
    assert found.chosen_energy == expected.chosen_energy
    assert found.left_energy == expected.left_energy
    assert found.n_clamped == expected.n_clamped
    kept_by_nobody = send_chosen(values, gia, grid, stream)
    assert_same(kept_by_nobody.lanes, expected.lanes)


def check_lanes(lanes: NDArray[Any], bits: int) -> None:
    packed, expected = both(lambda: pack_lanes(lanes, bits))
    assert_same(packed, expected)
    found, expected = both(lambda: unpack_lanes(packed, lanes.size, bits))
    assert_same(found, expected)
    assert (found == lanes).all()


def check_patterns(values: Any) -> None:
    found, expected = both(lambda: pattern_counts(values))
    assert_same(found, expected)


def check_largest(values: Any, n_largest: int) -> None:
    found, expected = both(lambda: largest(values, n_largest))
    assert_same(found, expected)


def check_groups(values: Any, length: int) -> None:
    """Compare the groups' magnitudes, and bits of groups as those of entries."""
    peaks, expected = both(lambda: group_peaks(values, length))
    assert_same(peaks, expected)
    found, expected = both(lambda: group_rms(values, length))
    assert_same(found, expected)
    packed = np.packbits(np.asarray(peaks) > 0.1, bitorder="little")
    found, expected = both(lambda: spread_groups(packed, values.shape[0], length))
    assert_same(found, expected)
