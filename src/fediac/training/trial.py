"""Before the first round: does a model fit its data, and does it draw numbers?"""

import copy

import torch
from torch import Tensor, nn

from fediac.errors import ConfigError

_RANDOM_LAYERS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
    nn.RReLU,
)


def try_model(module: nn.Module, inputs: Tensor, n_classes: int) -> bool:
    """Return whether the model draws random numbers while it trains.

    Two examples go through a copy of it; PyTorch's generator tells afterwards whether
    anybody asked it, be it a layer or the model's own code.

    Args:
        module: The model, on the CPU.
        inputs: Examples, one or more.
        n_classes: How many scores an example needs.

    Raises:
        ConfigError: It cannot take such inputs, or returns something else than scores.
    """
    tried = copy.deepcopy(module).train()
    two = inputs[[0, len(inputs) - 1]]  # batch norm refuses to train on one
    before = torch.get_rng_state()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            scores = tried(two)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            reason = " ".join(str(error).split())
            raise ConfigError(
                f"model must take inputs of shape {tuple(inputs.shape[1:])} and "
                f"{inputs.dtype}, got {type(error).__name__}: {reason}"
            ) from error
        has_drawn = not torch.equal(before, torch.get_rng_state())
    _check_scores(scores, n_classes)
    return has_drawn


def _check_scores(scores: object, n_classes: int) -> None:
    rule = f"model must return a tensor with {n_classes} scores (classes) an example"
    if not isinstance(scores, Tensor):
        raise ConfigError(f"{rule}, got {type(scores).__name__}")
    if scores.dim() != 2 or len(scores) != 2 or scores.shape[1] < n_classes:
        shape = tuple(scores.shape)
        raise ConfigError(f"{rule}, got shape {shape} for 2 examples")


def refuse_random_layers(module: nn.Module) -> None:
    """Refuse layers that draw random numbers, where nobody could say which they get.

    Raises:
        ConfigError: There is one.
    """
    for each in module.modules():
        if isinstance(each, _RANDOM_LAYERS):
            raise ConfigError(
                "model must have no layer that draws random numbers on CUDA, got "
                f"{type(each).__name__}; train it on the CPU"
            )
