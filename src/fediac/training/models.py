"""The models of the paper's experiments, a small one for the default, and users' own.

Every model is built from a seed by its own generator, so that the same seed gives the
same initial weights whatever ran before.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from fediac.core.rng import Stream
from fediac.errors import ArgumentError, ConfigError, hint_name
from fediac.imports import import_named, say_fault

Shape = tuple[int, ...]
"""The shape of an input: channels, height and width of an image."""

_IMAGE_DIMS = 3

Builder = Callable[[Shape, int], nn.Module]
"""(shape of an input, number of classes) -> model."""


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch norm, and a way around them."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        out = torch.relu_(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out)) + self.shortcut(x)
        return torch.relu_(out)


def resnet18(shape: Shape, n_classes: int) -> nn.Module:
    """Return ResNet-18 for small images: 3x3 stem, no max-pool.

    He et al., "Deep Residual Learning for Image Recognition", CVPR 2016. 11,173,962
    parameters for 3 channels and 10 classes, 11,220,132 for 100.
    """
    layers: list[nn.Module] = [
        nn.Conv2d(shape[0], 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
    ]
    n_in = 64
    for n_out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [BasicBlock(n_in, n_out, stride), BasicBlock(n_out, n_out, 1)]
        n_in = n_out
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, n_classes)]
    return nn.Sequential(*layers, *head)


def femnist_cnn(shape: Shape, n_classes: int) -> nn.Module:
    """Return the paper's CNN: two convolution-norm-pool blocks, three linear layers.

    The paper gives "about 800,000" parameters and no widths; these make 791,774 for
    28x28 grey images of 62 classes.
    """
    channels, height, width = shape
    n_flat = 64 * (height // 4) * (width // 4)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.BatchNorm2d(32),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.BatchNorm2d(64),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(n_flat, 224),
        nn.ReLU(inplace=True),
        nn.Linear(224, 128),
        nn.ReLU(inplace=True),
        nn.Linear(128, n_classes),
    )


def small_cnn(shape: Shape, n_classes: int) -> nn.Module:
    """Return a CNN of 105,866 parameters (28x28 grey, 10 classes), quick on a CPU."""
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), 64),
        nn.ReLU(inplace=True),
        nn.Linear(64, n_classes),
    )


def mlp(shape: Shape, n_classes: int) -> nn.Module:
    """Return two hidden layers of 64, for inputs of any shape, such as table rows."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), 64),
        nn.ReLU(inplace=True),
        nn.Linear(64, 64),
        nn.ReLU(inplace=True),
        nn.Linear(64, n_classes),
    )


MODELS: dict[str, Builder] = {
    "resnet18": resnet18,
    "femnist-cnn": femnist_cnn,
    "small-cnn": small_cnn,
    "mlp": mlp,
}


def find_model(name: str) -> Builder:
    """Return the builder called ``name``: one of `MODELS`, or ``"module:function"``.

    Raises:
        ConfigError: There is none; the message names the nearest.
    """
    if name in MODELS:
        return MODELS[name]
    if ":" not in name:
        hint = hint_name(name, [*MODELS, "module:function"])
        raise ConfigError(f"unknown model {name!r}{hint}")
    builder: Builder = import_named("model", name)
    return builder


@contextmanager
def draw_weights(seed: int) -> Iterator[None]:
    """Let models that are made inside have the initial weights of a run's ``seed``.

    PyTorch's layers draw from the global generator; it is put back afterwards.
    """
    words = Stream(seed, 0, 0, "initial weights").words(0, 1, like=np.zeros(0))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(words[0]))
        yield


def _call(builder: Builder, name: str, shape: Shape, n_classes: int) -> object:
    """Return what a function makes, which may be a user's own and fail."""
    try:
        return builder(shape, n_classes)
    except TypeError as error:
        raise ArgumentError(
            "model", f"{name!r} must take (shape, n_classes): {say_fault(error)}"
        ) from error
    except MemoryError:
        raise
    except Exception as error:
        raise ArgumentError("model", f"{name!r} failed: {say_fault(error)}") from error


def build_model(name: str, shape: Shape, n_classes: int, *, seed: int) -> nn.Module:
    """Return the named model with the initial weights of a run's ``seed``.

    Raises:
        ConfigError: There is no such model.
        ArgumentError: What is there makes none.
    """
    builder = find_model(name)
    if name in MODELS and name != "mlp" and len(shape) != _IMAGE_DIMS:
        raise ArgumentError(
            "model", f"{name!r} is for images, got inputs of shape {shape}; take 'mlp'"
        )
    with draw_weights(seed):
        module = _call(builder, name, shape, n_classes)
    if not isinstance(module, nn.Module):
        raise ArgumentError(
            "model",
            f"{name!r} must return a torch.nn.Module, got {type(module).__name__}",
        )
    return module
