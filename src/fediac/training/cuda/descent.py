"""SGD on one flat vector, which also keeps the narrow weights that layers use.

Under autocast every layer narrows its weights to bfloat16 in every step, and widens
their gradients. Here layers have narrow weights of their own, with the same bits, and
one kernel takes the step of all parameters: it reads narrow gradients, changes the
parameters and narrows them again.
"""

from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Protocol

import torch
from torch import Tensor, nn

from fediac.training.flat_model import FlatModel, place_all, view_like

_BLOCK = 4096
_N_WARPS = 8


class Descent(Protocol):
    """Steps of SGD on a model's parameters."""

    def begin(self) -> None:
        """Take over parameters that were set from outside."""
        ...

    def forget(self) -> None:
        """Drop all gradients, so that backward hands over its own without copies."""
        ...

    def step(self) -> None:
        """Change the parameters by their gradients."""
        ...

    def end_recording(self) -> None:
        """Do what a recorded step needs before it is repeated."""
        ...


class PlainDescent:
    """Steps of PyTorch's own optimizer."""

    def __init__(self, model: FlatModel, rate: Tensor) -> None:
        self._optimizer = torch.optim.SGD(
            model.module.parameters(), lr=rate, fused=True
        )

    def begin(self) -> None:
        """Do nothing: nothing is kept besides the parameters."""

    def forget(self) -> None:
        """Drop all gradients."""
        self._optimizer.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Change the parameters by their gradients."""
        self._optimizer.step()

    def end_recording(self) -> None:
        """Do nothing: recorded steps need nothing."""


class NarrowDescent:
    """Steps with one kernel, and narrow parameters for the layers that use them.

    Args:
        model: Its layers in ``layers`` get narrow parameters.
        layers: Those that use narrow parameters, which no other layer uses.
        rate: The learning rate, on the device.
        kernels: The Triton kernels.
    """

    def __init__(
        self,
        model: FlatModel,
        layers: Iterable[nn.Module],
        rate: Tensor,
        kernels: ModuleType,
    ) -> None:
        trained = [each for each in model.module.parameters() if each.requires_grad]
        self._flat, self._rate, self._kernels = model.parameters, rate, kernels
        self._narrow = model.parameters.to(torch.bfloat16)
        self._places = place_all(trained)
        narrow = _narrow_parameters(layers, trained, self._places, self._narrow)
        self._trained = [narrow.get(each, each) for each in trained]
        self._table = torch.zeros(0, 4, dtype=torch.int64, device=rate.device)
        self._rows = self._table

    def begin(self) -> None:
        """Narrow all parameters."""
        self._narrow.copy_(self._flat)

    def forget(self) -> None:
        """Drop all gradients."""
        for each in self._trained:
            each.grad = None

    def step(self) -> None:
        """Change the parameters by their gradients, in one launch."""
        gradients = [each.grad for each in self._trained]
        self._rows = torch.tensor(list(_list_blocks(gradients, self._places)))
        if len(self._rows) != len(self._table):
            self._table = self._rows.to(self._table.device)
        elif not torch.cuda.is_current_stream_capturing():
            self._table.copy_(self._rows)
        self._kernels.descend[(len(self._rows),)](
            *(self._table, self._flat, self._narrow, self._rate),
            IS_ALIGNED=not (self._rows[:, :2] % torch.tensor([16, 8])).any(),
            BLOCK=_BLOCK,
            num_warps=_N_WARPS,
        )

    def end_recording(self) -> None:
        """Give the recorded step the places of its gradients."""
        self._table.copy_(self._rows)


def _narrow_parameters(
    layers: Iterable[nn.Module],
    trained: Sequence[nn.Parameter],
    places: Sequence[int],
    flat: Tensor,
) -> dict[nn.Parameter, nn.Parameter]:
    """Give the layers narrow parameters, views of ``flat``; return old -> new."""
    at = dict(zip(trained, places, strict=True))
    narrow: dict[nn.Parameter, nn.Parameter] = {}
    for layer in layers:
        for name, old in list(layer.named_parameters(recurse=False)):
            if old not in at:
                continue
            if old not in narrow:
                narrow[old] = nn.Parameter(view_like(flat, at[old], old))
            setattr(layer, name, narrow[old])
    return narrow


def _list_blocks(
    gradients: Sequence[Tensor | None], places: Sequence[int]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the rows of the kernel's table, one per block of parameters."""
    for gradient, place in zip(gradients, places, strict=True):
        if gradient is None:
            continue
        size, first = gradient.element_size(), gradient.data_ptr()
        for start in range(0, gradient.numel(), _BLOCK):
            n_entries = min(_BLOCK, gradient.numel() - start)
            yield first + start * size, place + start, n_entries, int(size == 2)
