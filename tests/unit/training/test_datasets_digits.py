import numpy as np

from fediac.training.datasets import load_dataset
from fediac.training.datasets.catalog import DIGITS_FILE


def test_embedded_file_takes_at_most_two_megabytes() -> None:
    assert DIGITS_FILE.stat().st_size <= 2_000_000


def test_attribution_lies_beside_the_file() -> None:
    text = DIGITS_FILE.with_suffix(".md").read_text(encoding="utf-8")
    assert all(name in text for name in ("LeCun", "Cortes", "Burges", "QMNIST", "BSD"))


def test_digits_are_whole_and_known() -> None:
    digits = load_dataset("digits")
    assert (digits.name, digits.n_classes) == ("digits", 10)
    assert digits.train.images.shape == (6_850, 1, 28, 28)
    assert digits.test.images.shape == (2_051, 1, 28, 28)
    assert digits.train.images.dtype == np.uint8
    assert digits.train.labels.dtype == np.int64
    assert digits.sha256 == (
        "58107ed180d0e166dc665d864e29860044e52fd980a84a5db61aeb2194e1470b"
    )


def test_nobody_writes_for_both_training_and_test() -> None:
    digits = load_dataset("digits")
    assert digits.train.writers is not None
    assert digits.test.writers is not None
    train, test = set(digits.train.writers), set(digits.test.writers)
    assert (len(train), len(test), train & test) == (60, 19, set())
