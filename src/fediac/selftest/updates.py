"""What clients of a self-test have trained: made up, the same whenever asked for."""

import numpy as np
import numpy.typing as npt

from fediac.core.rng import Stream

_NOISE = 0.5
"""A client's standard deviation from what all have in common, relative to the entry."""

_EVERYONE = (1 << 32) - 1
"""In place of a client's number, for what they have in common."""


def make_update(
    dim: int, *, seed: int, client: int, round_number: int
) -> npt.NDArray[np.float32]:
    """Return a client's update: a few large entries, on which most clients agree."""
    shared = _generator(seed, _EVERYONE, round_number).standard_normal(dim, np.float32)
    update = _generator(seed, client, round_number).standard_normal(dim, np.float32)
    update *= _NOISE
    update += 1
    update *= shared * shared * shared
    return update


def _generator(seed: int, client: int, round_number: int) -> np.random.Generator:
    stream = Stream(seed, round_number, client, "updates of a self-test")
    words = stream.words(0, 4, like=np.zeros(0))
    return np.random.default_rng(words.astype(np.uint32))
