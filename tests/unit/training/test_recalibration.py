"""Statistics measured on a model: by hand, by PyTorch, and what stays as it was."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fediac.core.rng import Stream
from fediac.training.flat_model import FlatModel, flatten_model
from fediac.training.recalibration import (
    draw_examples,
    find_measured,
    measure,
    share_of_training,
)
from tests.tiny import SHAPE, normed_model, seeded

STREAM = Stream(5, 2, 1).purpose("recalibration")


def images(n_batches: int, size: int = 8, *, seed: int = 0) -> list[Tensor]:
    rng = np.random.default_rng(seed)
    values = rng.normal(1.0, 3.0, (n_batches, size, *SHAPE)).astype(np.float32)
    return list(torch.from_numpy(values))


def vectors(n_batches: int, size: int = 8) -> list[Tensor]:
    rng = np.random.default_rng(1)
    values = rng.normal(-2.0, 5.0, (n_batches, size, 4)).astype(np.float32)
    return list(torch.from_numpy(values))


@pytest.mark.parametrize(
    ("n_examples", "batch_size", "shape"),
    [
        (1000, 50, (5, 50)),
        (1000, 32, (7, 32)),
        (1000, 600, (1, 250)),
        (250, 50, (5, 50)),
        (99, 32, (3, 32)),
        (10, 32, (1, 10)),
    ],
)
def test_batches_are_full_and_hold_each_example_once(
    n_examples: int, batch_size: int, shape: tuple[int, int]
) -> None:
    batches = draw_examples(n_examples, batch_size, STREAM)
    assert batches.shape == shape
    drawn = batches.reshape(-1).tolist()
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= set(range(n_examples))


def test_every_round_and_client_draws_its_own_examples() -> None:
    keys = [(5, 2, 1), (5, 3, 1), (5, 2, 0), (6, 2, 1)]
    drawn = [
        draw_examples(1000, 50, Stream(*key).purpose("recalibration")).tolist()
        for key in keys
    ]
    assert draw_examples(1000, 50, STREAM).tolist() == drawn[0]
    assert all(drawn[0] != other for other in drawn[1:])


def test_a_forward_pass_is_a_third_of_a_training_step() -> None:
    assert share_of_training(250, 1250) == Fraction(1, 15)


def test_means_and_variances_are_those_of_the_batches() -> None:
    """Inputs of known moments, straight into a normalization."""
    model = flatten_model(nn.BatchNorm1d(2))
    # Batches (1, 3) and (5, 9) in one channel: means 2 and 7, unbiased variances 2
    # and 8. The other channel is constant in a batch: 4, then 6.
    batches = [
        torch.tensor([[1.0, 4.0], [3.0, 4.0]]),
        torch.tensor([[5.0, 6.0], [9.0, 6.0]]),
    ]
    assert measure(model, batches).tolist() == [4.5, 5.0, 5.0, 0.0]


NORMS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], list[Tensor]]]] = {
    "2d": (lambda: nn.Sequential(nn.BatchNorm2d(1)), images),
    "2d after others": (lambda: seeded(normed_model), images),
    "1d": (lambda: nn.Sequential(nn.BatchNorm1d(4)), vectors),
    "two": (
        lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Tanh(), nn.BatchNorm1d(4)),
        vectors,
    ),
    "no momentum": (lambda: nn.Sequential(nn.BatchNorm1d(4, momentum=None)), vectors),
    "not affine": (
        lambda: nn.Sequential(nn.BatchNorm1d(4, affine=False), nn.Linear(4, 2)),
        vectors,
    ),
    "no count": (lambda: nn.Sequential(uncounted()), vectors),
    "one twice": (lambda: twice(nn.BatchNorm1d(4)), vectors),
}


def uncounted() -> nn.Module:
    """A normalization that counts no batches, as replicas on CUDA have it."""
    norm = nn.BatchNorm1d(4)
    norm.register_buffer("num_batches_tracked", None)
    return norm


def twice(norm: nn.Module) -> nn.Module:
    return nn.Sequential(norm, nn.Tanh(), norm)


def flat(module: nn.Module) -> FlatModel:
    """The flat model, or one of a model that would have no parameters."""
    if not list(module.parameters()):
        module.register_parameter("unused", nn.Parameter(torch.zeros(1)))
    return flatten_model(module)


@pytest.mark.parametrize("name", NORMS)
def test_measured_statistics_are_pytorchs_cumulative_average(name: str) -> None:
    build, make_batches = NORMS[name]
    torch.default_generator.manual_seed(1)
    model, reference = flat(build()), flat(build())
    reference.parameters.copy_(model.parameters)
    for each in reference.module.modules():
        if isinstance(each, nn.modules.batchnorm._NormBase):
            each.register_buffer("num_batches_tracked", torch.tensor(0))
            each.momentum = None
    model.statistics.fill_(7.0)  # what was there before does not count
    batches = make_batches(5)
    measured = measure(model, batches)
    with torch.no_grad():
        for inputs in batches:
            reference.module.train()(inputs)
    assert torch.equal(measured, reference.statistics)
    assert bool(find_measured(model).all())


def test_instance_norm_is_averaged_too() -> None:
    model = flatten_model(
        nn.Sequential(
            nn.Conv2d(1, 2, 1), nn.InstanceNorm2d(2, track_running_stats=True)
        )
    )
    batches = images(3)
    measured = measure(model, batches)
    one = [measure(model, [each]) for each in batches]
    torch.testing.assert_close(measured, torch.stack(one).mean(dim=0))


def test_other_layers_do_as_in_a_test() -> None:
    model = flatten_model(nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(4)))
    plain = flatten_model(nn.Sequential(nn.BatchNorm1d(4)))
    before = torch.get_rng_state()
    assert torch.equal(measure(model, vectors(3)), measure(plain, vectors(3)))
    assert torch.equal(torch.get_rng_state(), before)


class NormAndDrop(nn.BatchNorm1d):
    """A normalization with a layer of its own inside."""

    def __init__(self) -> None:
        super().__init__(4)
        self.drop = nn.Dropout(0.5)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 # PyTorch's name
        dropped: Tensor = self.drop(super().forward(input))
        return dropped


def test_layers_inside_a_normalization_do_as_in_a_test() -> None:
    model = flatten_model(nn.Sequential(NormAndDrop(), nn.BatchNorm1d(4)))
    plain = flatten_model(nn.Sequential(nn.BatchNorm1d(4), nn.BatchNorm1d(4)))
    assert torch.equal(measure(model, vectors(3)), measure(plain, vectors(3)))


def test_layers_are_as_before_afterwards() -> None:
    norms = [nn.BatchNorm1d(4, momentum=0.3), nn.BatchNorm1d(4, momentum=None)]
    model = flatten_model(nn.Sequential(*norms))
    parameters = model.parameters.clone()
    measure(model, vectors(3))
    assert [each.momentum for each in norms] == [0.3, None]
    assert not any(each.training for each in norms)
    assert not any(each._forward_pre_hooks for each in norms)
    assert torch.equal(model.parameters, parameters)
    with pytest.raises(RuntimeError):
        measure(model, [torch.zeros(2, 5)])
    assert [each.momentum for each in norms] == [0.3, None]


class Scaled(nn.Module):
    """A layer with a number of its own that is no statistic of a normalization."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.full((3,), 2.0))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.scale[0]


def test_only_what_normalizations_keep_is_measured() -> None:
    model = flatten_model(
        nn.Sequential(
            Scaled(),
            nn.BatchNorm1d(4),
            nn.BatchNorm1d(4, track_running_stats=False),
            nn.GroupNorm(2, 4),
        )
    )
    assert find_measured(model).tolist() == [False] * 3 + [True] * 8
    assert measure(model, vectors(2))[:3].tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "layer",
    [
        nn.GroupNorm(2, 4),
        nn.LayerNorm(4),
        nn.BatchNorm1d(4, track_running_stats=False),
        Scaled(),
    ],
)
def test_models_without_kept_statistics_have_nothing_to_measure(
    layer: nn.Module,
) -> None:
    model = flatten_model(nn.Sequential(nn.Linear(4, 4), layer))
    assert not bool(find_measured(model).any())


def test_layers_that_are_not_used_keep_their_statistics() -> None:
    class Half(nn.Sequential):
        def forward(self, input: Tensor) -> Tensor:  # noqa: A002 # PyTorch's name
            used: Tensor = self[0](input)
            return used

    model = flatten_model(Half(nn.BatchNorm1d(4), nn.BatchNorm1d(4)))
    model.statistics.fill_(7.0)
    assert measure(model, vectors(2))[8:].tolist() == [7.0] * 8
