"""Before the first round: does a model fit its data, and does it draw numbers?"""

import copy

import torch
from torch import Tensor, nn

from fediac.errors import ArgumentError


def try_model(module: nn.Module, inputs: Tensor, n_classes: int) -> bool:
    """Return whether the model draws random numbers while it trains.

    Two examples go through a copy of it; PyTorch's generator tells afterwards whether
    it was used, be it by a layer or the model's own code.

    Args:
        module: The model, on the CPU.
        inputs: Examples, one or more.
        n_classes: How many scores an example needs.

    Raises:
        ArgumentError: It cannot take such inputs, or returns something else than
            scores.
    """
    tried = copy.deepcopy(module).train()
    two = inputs[[0, len(inputs) - 1]]  # batch norm refuses to train on one
    before = torch.get_rng_state()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            scores = tried(two)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            reason = " ".join(str(error).split())
            raise ArgumentError(
                "model",
                f"must take inputs of shape {tuple(inputs.shape[1:])} and "
                f"{inputs.dtype}, got {type(error).__name__}: {reason}",
            ) from error
        has_drawn = not torch.equal(before, torch.get_rng_state())
    _check_scores(scores, n_classes)
    return has_drawn


def _check_scores(scores: object, n_classes: int) -> None:
    rule = f"must return a tensor with {n_classes} scores (classes) an example"
    if not isinstance(scores, Tensor):
        raise ArgumentError("model", f"{rule}, got {type(scores).__name__}")
    if scores.dim() != 2 or len(scores) != 2 or scores.shape[1] < n_classes:
        shape = tuple(scores.shape)
        raise ArgumentError("model", f"{rule}, got shape {shape} for 2 examples")


def check_for_cuda(module: nn.Module, inputs: Tensor, n_classes: int) -> None:
    """Refuse a model that is not repeatable or cannot be recorded on CUDA.

    Clients train side by side there, so which client draws which number would vary;
    and a recorded step cannot ask how many batches there were before it.

    Raises:
        ArgumentError: As `try_model`; or it draws numbers, or counts batches.
    """
    if try_model(module, inputs, n_classes):
        raise ArgumentError(
            "model",
            "must draw no random numbers (dropout) on CUDA; train it on the CPU",
        )
    for each in module.modules():
        is_norm = isinstance(each, nn.modules.batchnorm._NormBase)
        if is_norm and each.momentum is None and each.num_batches_tracked is not None:
            raise ArgumentError(
                "model",
                f"must give {type(each).__name__} a momentum on CUDA, got None; train "
                "it on the CPU",
            )
