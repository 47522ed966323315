"""The Triton kernels of a training step against PyTorch in higher precision.

They run on a GPU, or interpreted where there is none; without Triton these tests are
skipped by name.
"""

import copy
import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fediac.native import StepKernels
from fediac.training.cuda import convolutions
from fediac.training.cuda.convolutions import Measuring, can_convolve, convolve
from fediac.training.cuda.descent import NarrowDescent
from fediac.training.cuda.norms import JoinedNorm
from fediac.training.cuda.replica import Batch, Data
from fediac.training.flat_model import flatten_model

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    # Triton reads it when it is imported.
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton is not installed")

# Interpreted loops count with arrays of one number.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array:DeprecationWarning"
)

SIZES = ((3, 64, 11, 11), (2, 24, 5, 3), (5, 128, 8, 8))
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""For norms: what is stored is rounded, 2^-9 of bfloat16, and so is what it is from."""


@pytest.fixture
def kernels() -> StepKernels:
    from fediac.native import convolution_kernels, step_kernels

    return StepKernels(step_kernels, convolution_kernels)


def draw(size: tuple[int, ...], seed: int) -> Tensor:
    images = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    return images.to(DEVICE).contiguous(memory_format=torch.channels_last)


def make_norm(n_channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(n_channels, device=DEVICE).train()
    with torch.no_grad():
        norm.weight.copy_(draw((1, n_channels, 1, 1), 1).view(-1))
        norm.bias.copy_(draw((1, n_channels, 1, 1), 2).view(-1))
    return norm


def is_near(got: Any, wanted: Any, dtype: torch.dtype) -> bool:
    error = (got.double() - wanted).norm() / wanted.norm()
    return bool(error < TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("adds", "rectifies", "has_two"),
    [
        (False, False, False),
        (False, True, False),
        (False, True, True),
        (True, True, False),
        (True, True, True),
    ],
)
def test_joined_norms(
    kernels: StepKernels,
    size: tuple[int, ...],
    dtype: torch.dtype,
    *,
    adds: bool,
    rectifies: bool,
    has_two: bool,
) -> None:
    norm = make_norm(size[1])
    exact = copy.deepcopy(norm).double()
    joined = JoinedNorm(norm, rectifies=rectifies, has_two=has_two, kernels=kernels)
    # A mean far from zero must not cost digits.
    inputs = [(2.0 * draw(size, 3) + 30.0).to(dtype), draw(size, 4).to(dtype)]
    inputs = [each.requires_grad_() for each in inputs[: 1 + adds]]
    same = [each.detach().double().requires_grad_() for each in inputs]
    slopes = [draw(size, 5).to(dtype), draw(size, 6).to(dtype)][: 1 + has_two]
    wanted = sum(same[1:], exact(same[0]))
    wanted = functional.relu(wanted) if rectifies else wanted
    wanted.backward(sum(each.double() for each in slopes))
    got = joined(*inputs)
    outputs = got if has_two else (got,)
    torch.autograd.backward(outputs, slopes)
    pairs = [
        (outputs[0], wanted),
        *((one.grad, two.grad) for one, two in zip(inputs, same, strict=True)),
    ]
    pairs += [
        (one.grad, two.grad)
        for one, two in zip(norm.parameters(), exact.parameters(), strict=True)
    ]
    assert all(is_near(one, two, dtype) for one, two in pairs)
    assert is_near(norm.running_mean, exact.running_mean, torch.float32)
    assert is_near(norm.running_var, exact.running_var, torch.float32)
    assert torch.equal(outputs[0], outputs[-1])


def test_norms_that_the_kernels_cannot_do_go_to_pytorch(kernels: StepKernels) -> None:
    for norm, images in (
        (make_norm(12), draw((2, 12, 3, 3), 1)),
        (make_norm(8), draw((2, 8, 3, 3), 1).contiguous()),
        (make_norm(8).eval(), draw((2, 8, 3, 3), 1)),
    ):
        joined = JoinedNorm(norm, rectifies=True, has_two=False, kernels=kernels)
        joined.train(norm.training)
        wanted = functional.relu(copy.deepcopy(norm)(images))
        assert torch.equal(joined(images), wanted)


@pytest.mark.parametrize("n_classes", [8, 3])
def test_a_step_of_narrow_layers(kernels: StepKernels, n_classes: int) -> None:
    """With three classes parameters begin anywhere."""
    layers = [nn.Linear(5, n_classes), nn.BatchNorm2d(16), nn.Conv2d(16, 300, 3)]
    model = flatten_model(nn.Sequential(*layers), device=DEVICE)
    start, rate = model.parameters.clone(), torch.tensor(0.1, device=DEVICE)
    descent = NarrowDescent(model, [layers[0], layers[2]], rate, kernels.steps)
    descent.begin()
    trained = list(model.module.parameters())
    kinds = [torch.bfloat16] * 2 + [torch.float32] * 2 + [torch.bfloat16] * 2
    assert [each.dtype for each in trained] == kinds
    place, wanted = 0, start.clone()
    for each in trained[:-1]:  # the last one has no gradient
        each.grad = torch.ones_like(each) * (place % 7)
        wanted[place : place + each.numel()] -= 0.1 * (place % 7)
        place += each.numel()
    descent.step()
    descent.end_recording()
    torch.testing.assert_close(model.parameters, wanted)
    weights = trained[4].detach().permute(0, 2, 3, 1).reshape(-1)
    narrow = model.parameters[place - len(weights) : place].bfloat16()
    # Interpreted, what is narrowed is cut off, not rounded.
    torch.testing.assert_close(
        weights, narrow, rtol=0.0 if DEVICE == "cuda" else 2**-7, atol=0.0
    )
    descent.forget()
    assert all(each.grad is None for each in trained)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_picked_batches(kernels: StepKernels, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 3, 19, 23), dtype=np.uint8)
    labels = np.arange(20)
    source: Any = SimpleNamespace(images=images, labels=labels)
    scales: Any = SimpleNamespace(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    data = Data(source, scales, DEVICE)
    batch = Batch.first(5, 4, DEVICE)
    batch.order.copy_(torch.from_numpy(rng.permutation(20)))
    batch.step.fill_(2)
    inputs, targets = data.pick_batch(batch, dtype, kernels)
    wanted, same = data.pick(batch.indices())
    assert torch.equal(targets, same)
    # One rounding in bfloat16, interpreted to the next below; in float32 a product may
    # be rounded or not.
    torch.testing.assert_close(inputs, wanted.to(dtype), rtol=2**-7, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "n_out", "n_taps", "stride"),
    [
        ((3, 64, 8, 9), 64, 3, 1),
        ((2, 64, 9, 9), 128, 3, 1),
        ((1, 128, 5, 7), 128, 3, 1),
        ((3, 64, 8, 8), 128, 3, 2),
        ((3, 128, 6, 6), 64, 1, 2),
    ],
)
def test_convolutions(
    kernels: StepKernels, size: tuple[int, ...], n_out: int, n_taps: int, stride: int
) -> None:
    """Interpreted in float32: the interpreter multiplies nothing narrower."""
    dtype = torch.bfloat16 if DEVICE == "cuda" else torch.float32
    layer = nn.Conv2d(size[1], n_out, n_taps, stride, n_taps // 2, bias=False)
    norm = make_norm(n_out)
    images = draw(size, 1).to(dtype).requires_grad_()
    weight = (0.1 * draw(tuple(layer.weight.shape), 2)).to(dtype).requires_grad_()
    same = [each.detach().double().requires_grad_() for each in (images, weight)]
    wanted = torch.conv2d(same[0], same[1], None, stride, n_taps // 2)
    slopes = draw(tuple(wanted.shape), 3).to(dtype)
    torch.autograd.backward([wanted], [slopes.double()])
    assert can_convolve(layer)
    counters = torch.zeros(n_out, dtype=torch.int32, device=DEVICE)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert kernels.convolutions is not None
    measuring = Measuring(norm.running_mean, norm.running_var, counters, 0.1, 1e-5)
    got, facts = convolve(images, weight, stride, measuring, kernels.convolutions)
    torch.autograd.backward([got], [slopes])
    assert is_near(got, wanted, dtype)
    for one, two in zip((images, weight), same, strict=True):
        assert is_near(one.grad, two.grad, dtype)
    exact = nn.BatchNorm2d(n_out, device=DEVICE).double()
    exact(got.detach().double())
    assert is_near(norm.running_mean, exact.running_mean, torch.float32)
    assert is_near(norm.running_var, exact.running_var, torch.float32)
    rows = got.detach().double().transpose(0, 1).flatten(1)
    mean, var = rows.mean(dim=1), rows.var(dim=1, correction=0)
    assert is_near(facts, torch.cat([mean, (var + 1e-5) ** -0.5]), torch.float32)
    assert not counters.any()


def test_weights_of_few_channels_are_summed_in_parts(
    kernels: StepKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolutions, "_N_PARTS", 2)
    test_convolutions(kernels, (3, 64, 8, 9), 64, 3, 1)


def test_weights_of_many_channels_are_summed_at_once(
    kernels: StepKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolutions, "_MIN_TILES", 1)
    test_convolutions(kernels, (1, 128, 5, 7), 128, 3, 1)
