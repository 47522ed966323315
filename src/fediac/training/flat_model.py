"""A model's parameters as views of one flat vector, which the round works on."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fediac.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class FlatModel:
    """A model whose tensors live in flat buffers.

    Attributes:
        module: The model; running it reads and writes the buffers.
        parameters: All parameters, in the module's order.
        gradients: Their gradients, same order; zero them between steps.
        statistics: Floating-point buffers (batch norm's running mean and variance),
            in the module's order; empty when there are none.
        variances: Which of these must not be negative.
    """

    module: nn.Module
    parameters: Tensor
    gradients: Tensor
    statistics: Tensor
    variances: Tensor

    def reset_counters(self, start: "FlatModel") -> None:
        """Copy buffers that are not floats, such as a count of batches."""
        for own, other in zip(
            self.module.buffers(), start.module.buffers(), strict=True
        ):
            if not own.is_floating_point():
                own.copy_(other)

    @property
    def dim(self) -> int:
        """Entries of an update."""
        return self.parameters.shape[0]


def flatten_model(
    module: nn.Module, *, device: torch.device | str = "cpu"
) -> FlatModel:
    """Return ``module`` with its parameters moved into flat buffers on ``device``.

    Convolution weights keep channels-last strides inside the buffer: the layout in
    which convolutions run fastest. Only the order of entries within a tensor depends
    on it, and all clients agree on that order.
    """
    module = module.to(device)
    trained = [each for each in module.parameters() if each.requires_grad]
    if not trained:
        raise ArgumentError(
            "module", "must have at least one parameter that requires grad"
        )
    floats = [each for each in module.buffers() if each.is_floating_point()]
    for each in (*trained, *floats):
        if each.dtype != torch.float32:
            raise ValueError(
                f"parameters and buffers must be float32, got {each.dtype}"
            )
    values = _move_into_one(trained, device)
    gradients = torch.zeros_like(values)
    for parameter, place in zip(trained, place_all(trained), strict=True):
        parameter.grad = view_like(gradients, place, parameter)
    statistics = _move_into_one(floats, device)
    return FlatModel(module, values, gradients, statistics, _find_variances(module))


def _find_variances(module: nn.Module) -> Tensor:
    """Return which entries of the statistics are variances, as a mask."""
    flags = [
        torch.full((each.numel(),), name.endswith("running_var"), device=each.device)
        for name, each in module.named_buffers()
        if each.is_floating_point()
    ]
    return torch.cat(flags) if flags else torch.zeros(0, dtype=torch.bool)


def place_all(tensors: Sequence[Tensor]) -> list[int]:
    """Return where each tensor begins in a vector that holds all of them."""
    places, total = [], 0
    for each in tensors:
        places.append(total)
        total += each.numel()
    return places


def view_like(flat: Tensor, place: int, like: Tensor) -> Tensor:
    """Return the part of ``flat`` that begins at ``place``, shaped like a tensor."""
    part = flat[place : place + like.numel()]
    if like.dim() == 4:
        out, channels, height, width = like.shape
        return part.view(out, height, width, channels).permute(0, 3, 1, 2)
    return part.view(like.shape)


def _move_into_one(tensors: Sequence[Tensor], device: torch.device | str) -> Tensor:
    """Return one vector that holds all tensors, which become views of it."""
    total = sum(each.numel() for each in tensors)
    flat = torch.empty(total, dtype=torch.float32, device=device)
    for each, place in zip(tensors, place_all(tensors), strict=True):
        view = view_like(flat, place, each)
        view.copy_(each.detach())
        each.data = view
    return flat
