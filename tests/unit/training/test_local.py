import numpy as np
import pytest
import torch

from fediac.core.rng import Stream
from fediac.training.local import draw_batches
from fediac.training.local_settings import LocalSettings

STREAM = Stream(7, round_number=2, client=4)


@pytest.mark.parametrize(
    ("epochs", "steps", "n_examples", "n_steps"),
    [
        (5, None, 100, 10),
        (1, None, 101, 3),
        (2, None, 75, 3),
        (3, None, 20, 3),
        (5, 7, 100, 7),
        (5, 2, 20, 2),
    ],
)
def test_epochs_become_full_batches(
    epochs: int, steps: int | None, n_examples: int, n_steps: int
) -> None:
    settings = LocalSettings(epochs=epochs, steps=steps, batch_size=50)
    batches = draw_batches(n_examples, settings, STREAM)
    assert settings.n_steps(n_examples) == n_steps
    assert batches.shape == (n_steps, min(50, n_examples))
    assert batches.dtype == torch.int64


def test_over_whole_epochs_every_example_comes_up_equally_often() -> None:
    batches = draw_batches(60, LocalSettings(epochs=5, batch_size=50), STREAM)
    counts = np.bincount(batches.reshape(-1).numpy(), minlength=60)
    assert counts.tolist() == [5] * 60
    first_epoch = batches.reshape(-1)[:60]
    assert sorted(first_epoch.tolist()) == list(range(60))
    assert first_epoch.tolist() != list(range(60))


def test_every_epoch_has_a_shuffle_of_its_own() -> None:
    batches = draw_batches(60, LocalSettings(epochs=5, batch_size=50), STREAM)
    epochs = batches.reshape(5, 60).tolist()
    assert len({tuple(epoch) for epoch in epochs}) == 5
    for epoch in epochs:
        assert sorted(epoch) == list(range(60))


def test_only_the_last_batch_reaches_into_one_more_epoch() -> None:
    batches = draw_batches(45, LocalSettings(epochs=2, batch_size=20), STREAM)
    counts = np.bincount(batches.reshape(-1).numpy(), minlength=45)
    assert batches.shape == (5, 20)
    assert sorted(set(counts.tolist())) == [2, 3]
    assert int((counts == 3).sum()) == 10


def test_seed_round_and_client_decide_the_batches() -> None:
    settings = LocalSettings(epochs=1, batch_size=10)
    first = draw_batches(100, settings, STREAM)
    assert torch.equal(first, draw_batches(100, settings, Stream(7, 2, 4)))
    for other in (Stream(8, 2, 4), Stream(7, 3, 4), Stream(7, 2, 5)):
        assert not torch.equal(first, draw_batches(100, settings, other))
