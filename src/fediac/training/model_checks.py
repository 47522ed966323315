"""Before the first round: does a model fit its data, and does it draw numbers?"""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fediac.errors import ArgumentError
from fediac.training.task import Task


def try_model(module: nn.Module, inputs: Tensor, n_classes: int | None) -> bool:
    """Return whether the model draws random numbers while it trains.

    Two examples go through a copy of it; PyTorch's generator tells afterwards whether
    it was used, be it by a layer or the model's own code.

    Args:
        module: The model, on the CPU.
        inputs: Examples, one or more.
        n_classes: How many scores an example needs; None: outputs may be anything.

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
    if n_classes is not None:
        _check_scores(scores, n_classes)
    return has_drawn


def try_task(module: nn.Module, inputs: Tensor, targets: Tensor, task: Task) -> bool:
    """Return whether a loss or an optimizer of the user's own draws random numbers.

    Args:
        module: The model, on the CPU; a copy of it takes a step on two examples.
        inputs: Examples, one or more.
        targets: What their outputs should be.
        task: The loss and the optimizer.

    Raises:
        ArgumentError: One of them cannot be used.
    """
    tried = copy.deepcopy(module).train()
    rows = [0, len(inputs) - 1]
    before = torch.get_rng_state()
    with torch.random.fork_rng(devices=[]):
        outputs = tried(inputs[rows])
        with _blamed_on("loss", outputs, targets[rows]):
            loss: object = task.mean_loss(outputs, targets[rows])
        if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
            got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else loss
            raise ArgumentError(
                "loss", f"must return one number that can be differentiated, got {got}"
            )
        torch.autograd.backward(loss.reshape(()))
        with _blamed_on("optimizer"):
            optimizer = task.make_optimizer(tried, 1e-3)
            if optimizer is not None:
                optimizer.step()
        return not torch.equal(before, torch.get_rng_state())


@contextmanager
def _blamed_on(argument: str, *given: Tensor) -> Iterator[None]:
    """Raise what a user's own function raises as one line that names it.

    A loss that broadcasts its targets is wrong without an error: PyTorch only warns.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Using a target size")
            yield
    except ArgumentError:
        raise
    except Exception as error:
        shapes = " and ".join(str(tuple(each.shape)) for each in given)
        rule = (
            f"must take outputs and targets of shapes {shapes}"
            if given
            else ("must take parameters and lr, and step without arguments")
        )
        reason = " ".join(str(error).split())
        raise ArgumentError(
            argument, f"{rule}, got {type(error).__name__}: {reason}"
        ) from error


def _check_scores(scores: object, n_classes: int) -> None:
    rule = f"must return a tensor with {n_classes} scores (classes) an example"
    if not isinstance(scores, Tensor):
        raise ArgumentError("model", f"{rule}, got {type(scores).__name__}")
    if scores.dim() != 2 or len(scores) != 2 or scores.shape[1] < n_classes:
        shape = tuple(scores.shape)
        raise ArgumentError("model", f"{rule}, got shape {shape} for 2 examples")


def check_for_cuda(module: nn.Module, inputs: Tensor, n_classes: int) -> bool:
    """Return whether a model draws numbers; refuse one that cannot be recorded.

    A recorded step cannot ask how many batches there were before it.

    Raises:
        ArgumentError: As `try_model`; or it counts batches.
    """
    draws = try_model(module, inputs, n_classes)
    for each in module.modules():
        is_norm = isinstance(each, nn.modules.batchnorm._NormBase)
        if is_norm and each.momentum is None and each.num_batches_tracked is not None:
            raise ArgumentError(
                "model",
                f"must give {type(each).__name__} a momentum on CUDA, got None; train "
                "it on the CPU",
            )
    return draws
