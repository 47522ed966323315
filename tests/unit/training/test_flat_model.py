import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fediac.training.flat_model import flatten_model
from tests.support import refuses
from tests.tiny import N_CLASSES, SHAPE, normed_model, plain_model, seeded

IMAGES = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(0))


def test_parameters_gradients_and_statistics_are_views_of_flat_buffers() -> None:
    flat = flatten_model(seeded(normed_model))
    trained = list(flat.module.parameters())
    floats = [each for each in flat.module.buffers() if each.is_floating_point()]
    buffers: list[tuple[Tensor, Sequence[Tensor | None]]] = [
        (flat.parameters, trained),
        (flat.gradients, [each.grad for each in trained]),
        (flat.statistics, floats),
    ]
    for whole, parts in buffers:
        inside = range(whole.data_ptr(), whole.data_ptr() + 4 * whole.numel())
        assert sum(each.numel() for each in parts if each is not None) == len(whole)
        for each in parts:
            assert each is not None
            assert each.data_ptr() in inside
    flat.parameters.fill_(2.0)
    flat.statistics.fill_(3.0)
    assert all(bool((each == 2.0).all()) for each in flat.module.parameters())
    assert flat.dim == len(flat.parameters) == 483
    assert bool((flat.module.state_dict()["1.running_var"] == 3.0).all())


def test_parameters_stand_in_the_order_of_the_module() -> None:
    module = seeded(plain_model)
    flat = flatten_model(copy.deepcopy(module))
    place = 0
    for each in module.parameters():
        part = flat.parameters[place : place + each.numel()]
        assert torch.equal(part.sort().values, each.detach().reshape(-1).sort().values)
        place += each.numel()


def test_a_flat_model_computes_what_the_model_did() -> None:
    module = seeded(normed_model)
    flat = flatten_model(copy.deepcopy(module))
    before, after = module.state_dict(), flat.module.state_dict()
    assert list(before) == list(after)
    for key, tensor in before.items():
        assert torch.equal(tensor, after[key])
    module.eval()
    flat.module.eval()
    # 36 products of a channel, then 144: sums in another order differ by rounding.
    torch.testing.assert_close(flat.module(IMAGES), module(IMAGES))


def test_convolutions_keep_channels_last_strides() -> None:
    flat = flatten_model(nn.Conv2d(3, 5, 2))
    weight = next(flat.module.parameters())
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert weight.shape == (5, 3, 2, 2)


def test_backward_writes_into_the_flat_gradients() -> None:
    flat = flatten_model(seeded(plain_model))
    for _ in range(2):
        flat.gradients.zero_()
        torch.autograd.backward(flat.module(IMAGES).sum())
        parts = [each.grad for each in flat.module.parameters()]
        # The last layer's bias gets one from each image, whatever the weights are.
        assert bool((flat.gradients[-N_CLASSES:] == len(IMAGES)).all())
        assert parts[-1] is not None
        assert bool((parts[-1] == len(IMAGES)).all())


def test_a_copy_is_flattened_into_buffers_of_its_own() -> None:
    flat = flatten_model(seeded(normed_model))
    other = flatten_model(copy.deepcopy(flat.module))
    assert torch.equal(flat.parameters, other.parameters)
    other.parameters.zero_()
    other.statistics.zero_()
    assert bool(flat.parameters.any())
    assert bool(flat.statistics.any())


def test_frozen_parameters_and_counters_stay_out() -> None:
    module = seeded(normed_model)
    module[0].requires_grad_(requires_grad=False)  # type: ignore[index] # Sequential
    flat = flatten_model(module)
    assert flat.dim == 483 - 40
    assert len(flat.statistics) == 8
    flat.statistics.fill_(7.0)
    assert int(flat.module.state_dict()["1.num_batches_tracked"]) == 0


def test_a_model_without_batch_norm_has_no_statistics() -> None:
    assert flatten_model(seeded(plain_model)).statistics.shape == (0,)


def test_what_cannot_be_trained_in_float32_is_refused() -> None:
    with refuses("module must have at least one parameter that requires grad"):
        flatten_model(nn.ReLU())
    text = "parameters and buffers must be float32, got torch.float64"
    with refuses(text):
        flatten_model(nn.Linear(2, 2).double())
    odd = nn.Linear(2, 2)
    odd.register_buffer("mean", torch.zeros(2, dtype=torch.float64))
    with refuses(text):
        flatten_model(odd)
