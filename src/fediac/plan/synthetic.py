"""Synthetic updates with power-law magnitudes, on which clients mostly agree.

Entry l of the shared signal has magnitude φ·l^α at a random place with a random sign.
Every client sees it through its own noise, so clients agree on most of the large
entries and differ on the rest. Nothing here is data; results on it say so.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fediac.core.rng import Stream

ALPHA, PHI = -0.37, 0.32
"""Fitted to one round of ResNet-18 on CIFAR-10."""

NOISE = 0.5
"""A client's standard deviation from the signal, relative to the entry."""


def synthetic_updates(
    dim: int, n_clients: int, *, seed: int, first_client: int = 0
) -> Iterator[npt.NDArray[np.float32]]:
    """Yield one update per client.

    Args:
        dim: Entries in an update.
        n_clients: How many to yield.
        seed: Seed of all updates; it fixes the signal.
        first_client: Number of the first one; other numbers have other noise.
    """
    signal = _make_signal(dim, seed)
    for client in range(first_client, first_client + n_clients):
        noise = _generator(seed, client).standard_normal(dim, dtype=np.float32)
        noise *= NOISE
        noise += 1.0
        noise *= signal
        yield noise


def _generator(seed: int, client: int) -> np.random.Generator:
    stream = Stream(seed, 0, client, "synthetic updates")
    words = stream.words(0, 4, like=np.zeros(0))
    return np.random.default_rng(words.astype(np.uint32))


def _make_signal(dim: int, seed: int) -> npt.NDArray[np.float32]:
    generator = _generator(seed, (1 << 32) - 1)
    ranks = np.arange(1, dim + 1, dtype=np.float32)
    signal = np.float32(PHI) * ranks ** np.float32(ALPHA)
    signal[generator.random(dim, dtype=np.float32) < 0.5] *= -1.0
    generator.shuffle(signal)
    return signal
