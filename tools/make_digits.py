"""Make the embedded set of handwritten digits from MNIST with its writers.

    python tools/make_digits.py mnist_by_writer.npz digits.npz

The source holds MNIST in its own order as ``x_train``, ``y_train`` and the writers of
QMNIST as ``w_train``, and the same with ``_test``. Kept are whole writers: the first 60
training writers with at least 100 images, so that three make a client of 300 to 400
images, and the first test writers that have 2,000 images together. Images keep MNIST's
order. The result is ``src/fediac/training/datasets/digits.npz``.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

N_WRITERS = 60
MIN_IMAGES = 100
N_TEST_IMAGES = 2_000


def choose_train_writers(writers: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return the first writers that have enough images."""
    numbers, counts = np.unique(writers, return_counts=True)
    return numbers[counts >= MIN_IMAGES][:N_WRITERS]


def choose_test_writers(writers: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return the fewest first writers that have enough images together."""
    numbers, counts = np.unique(writers, return_counts=True)
    return numbers[: 1 + int(np.searchsorted(np.cumsum(counts), N_TEST_IMAGES))]


def make_digits(source: Path, target: Path) -> None:
    """Write the chosen writers' images to ``target`` in the by-writer layout."""
    with np.load(source, allow_pickle=False) as mnist:
        arrays = {name: mnist[name] for name in mnist.files}
    parts = []
    for split, choose in enumerate((choose_train_writers, choose_test_writers)):
        end = ("_train", "_test")[split]
        writers = arrays["w" + end]
        rows = np.flatnonzero(np.isin(writers, choose(writers)))
        parts.append(
            {
                "images": arrays["x" + end][rows],
                "labels": arrays["y" + end][rows],
                "writer": writers[rows],
                "split": np.full(len(rows), split, dtype=np.uint8),
            }
        )
    train, test = parts
    joined = {name: np.concatenate((train[name], test[name])) for name in train}
    # The stubs take array names for the flag.
    np.savez_compressed(target, **joined)  # type: ignore[arg-type]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the embedded set of digits.")
    parser.add_argument("source", type=Path, help="MNIST by writer (.npz)")
    parser.add_argument("target", type=Path, help="the file to write (.npz)")
    arguments = parser.parse_args()
    make_digits(arguments.source, arguments.target)
