"""Division that rounds the same way everywhere.

PyTorch on CUDA multiplies by the reciprocal when the divisor is a Python number, which
is not always the nearest float. A divisor that is an array gets a true division.
"""

from array_api_compat import array_namespace, device

from fediac.core.types import Array


def divide(values: Array, divisor: float) -> Array:
    """Return float64 ``values`` divided by one number, correctly rounded."""
    xp = array_namespace(values)
    return values / xp.asarray([divisor], dtype=xp.float64, device=device(values))
