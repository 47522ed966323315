"""Float64 sums and quotients that have the same bits on every library and machine.

A sum is a tree: values stand in zero-padded blocks of 4,096, each block is folded in
half until one value is left, and the block sums are summed the same way. Every step is
an elementwise addition, which NumPy, C, PyTorch and CUDA round alike.

PyTorch on CUDA divides by a Python number by multiplying by its reciprocal, which does
not always give the nearest float. A divisor that is an array gets a true division.
"""

from array_api_compat import array_namespace, device

from fediac.core.types import Array

BLOCK = 4096


def block_sums(values: Array, length: int = BLOCK) -> Array:
    """Return the sum of each zero-padded block of float64 values.

    Args:
        values: All blocks, one behind the other.
        length: Values of a block, a power of two.
    """
    xp = array_namespace(values)
    n_missing = -values.shape[0] % length
    if n_missing:
        padding = xp.zeros(n_missing, dtype=values.dtype, device=device(values))
        values = xp.concat([values, padding])
    folded = xp.reshape(values, (-1, length))
    while folded.shape[1] > 1:
        half = folded.shape[1] // 2
        folded = folded[:, :half] + folded[:, half:]
    return folded[:, 0]


def tree_sum(values: Array) -> float:
    """Return the sum of float64 ``values`` in the order this module describes."""
    while values.shape[0] > 1:
        values = block_sums(values)
    return float(values[0]) if values.shape[0] else 0.0


def divide(values: Array, divisor: float) -> Array:
    """Return float64 ``values`` divided by one number, correctly rounded."""
    xp = array_namespace(values)
    return values / xp.asarray([divisor], dtype=xp.float64, device=device(values))
