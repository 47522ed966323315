from dataclasses import replace

import numpy as np
import pytest

from fediac.training.datasets import Dataset, Examples
from fediac.training.datasets.types import make_dataset, pixel_statistics


def examples(n: int, *, writers: bool = True) -> Examples:
    rng = np.random.default_rng(n)
    return Examples(
        rng.integers(0, 256, (n, 2, 4, 3), dtype=np.uint8),
        np.arange(n, dtype=np.int64) % 5,
        np.arange(n, dtype=np.int32) if writers else None,
    )


def dataset(*, writers: bool = True) -> Dataset:
    return make_dataset(
        "own", examples(7, writers=writers), examples(3, writers=writers), n_classes=5
    )


def test_statistics_are_of_training_pixels_by_channel() -> None:
    data = dataset()
    pixels = data.train.images / 255.0
    # Both are right to a few units in float64's last place, 2**-52.
    assert data.mean == pytest.approx(pixels.mean(axis=(0, 2, 3)), rel=1e-14)
    assert data.std == pytest.approx(pixels.std(axis=(0, 2, 3)), rel=1e-14)


def test_statistics_do_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    images = examples(100).images
    whole = pixel_statistics(images)
    monkeypatch.setattr("fediac.training.datasets.types._CHUNK", 7)
    assert pixel_statistics(images) == whole


def test_constant_channel_has_deviation_one() -> None:
    assert pixel_statistics(np.full((4, 1, 2, 2), 51, np.uint8)) == ((0.2,), (1.0,))


def test_examples_count_their_labels() -> None:
    assert len(examples(7)) == 7


def test_equal_datasets_have_one_hash() -> None:
    assert dataset().sha256 == dataset().sha256


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("array", ["images", "labels", "writers"])
def test_hash_changes_with_every_array(part: str, array: str) -> None:
    data = dataset()
    changed = getattr(getattr(data, part), array).copy()
    changed.flat[-1] ^= 1
    other = replace(data, **{part: replace(getattr(data, part), **{array: changed})})
    assert other.sha256 != data.sha256


def test_hash_knows_missing_writers() -> None:
    assert dataset().sha256 != dataset(writers=False).sha256
