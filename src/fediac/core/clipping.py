"""Phase 1, client side: the peak that a client offers, perhaps below its largest.

The agreed peak sets the step of the grid. One entry far above the others makes it
coarse for all of them; with a lower peak, levels of the few entries beyond are clamped,
and what that cuts stays in the residual.
"""

import math
from numbers import Real

from fediac.core.corrected import Corrected
from fediac.core.magnitudes import indices_of_largest
from fediac.core.quantize import energy_of
from fediac.errors import ArgumentError


def check_clip(clip: object) -> None:
    """Raise unless ``clip`` is a positive number, or None for no clipping."""
    if clip is None:
        return
    if isinstance(clip, bool) or not isinstance(clip, Real):
        raise TypeError(f"clip must be a number or None, got {clip!r}")
    if not 0.0 < float(clip) < math.inf:  # nor is NaN
        raise ArgumentError("clip", f"must be finite and above 0, got {clip}")


def clipped_peak(corrected: Corrected, n_largest: int, clip: float) -> float:
    """Return ``clip`` times the root mean square of the ``n_largest`` magnitudes.

    Never more than the peak, and the peak itself where that product is 0.
    """
    largest = corrected.values[indices_of_largest(corrected.values, n_largest)]
    wanted = clip * math.sqrt(energy_of(largest) / n_largest)
    return min(corrected.peak, wanted) if wanted > 0.0 else corrected.peak
