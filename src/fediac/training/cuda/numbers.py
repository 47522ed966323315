"""Random numbers of a recorded step: a client's own, whatever trains beside it.

PyTorch's generator on a device is one for all: replicas that replay their steps side by
side would read its place in whatever order they come, and so would a client's numbers
depend on the others. Here what a layer draws is computed instead, by the Philox of
`fediac.core.rng`, from a key that is the client's in this round and from a counter of
entry, draw and step. Key and step live on the device and the rest is plain arithmetic
on tensors, so a step can be recorded once and draws anew each time that it is replayed;
a CPU computes the same bits.

Draws are caught below autograd, where a layer's dropout and a model's own
``torch.rand`` are the same few operations. What draws in another way, such as a dropout
inside cuDNN's LSTM, is refused by its name.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from fediac.core.rng import Stream, philox, purpose_word, to_unit
from fediac.errors import ArgumentError

_PURPOSE = purpose_word("layers")

_aten = torch.ops.aten

_OFF = ("dropout_p", "dropout", "p")
"""What an operation calls the share that it drops; with 0 it draws nothing."""


class OwnNumbers(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has none
    """Inside this context a model's layers draw numbers of one key.

    Args:
        step: How many steps there were before, on the device.

    Attributes:
        key: Two words, on the device; see `set_key`.
    """

    def __init__(self, step: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch has none
        self.key = torch.zeros(2, dtype=torch.int64, device=step.device)
        self._step = step
        self._n_draws = 0

    def set_key(self, stream: Stream) -> None:
        """Let the numbers be those of a client in a round; nothing is waited for."""
        words = stream.purpose("layers").words(0, 2, like=torch.zeros(0))
        for place, word in enumerate(words.tolist()):
            self.key[place].fill_(word)

    def __enter__(self) -> "OwnNumbers":
        """Begin a step: its draws are counted from 0."""
        self._n_draws = 0
        super().__enter__()  # type: ignore[no-untyped-call] # torch has none
        return self

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - an operation of PyTorch's
        types: Any,  # noqa: ANN401 - as PyTorch calls it
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - what the operation returns
        """Run an operation, or what stands for one that draws."""
        kwargs = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        draw = _DRAWS.get(func)
        given = _arguments(func, args, kwargs)
        if draw is not None and given.get("generator") is None:
            return draw(self, given)
        if any(given.get(name) == 0.0 for name in _OFF):
            return func(*args, **kwargs)
        raise ArgumentError(
            "model",
            "must draw random numbers by dropout, torch.rand, randn or bernoulli on "
            f"CUDA, without a generator, got {func}; train it on the CPU",
        )

    def uniform(self, like: Tensor) -> Tensor:
        """Return a float64 in [0, 1) for each entry of ``like``, of the next draw."""
        number, self._n_draws = self._n_draws, self._n_draws + 1
        n_entries = like.numel()
        blocks = torch.arange(-(-n_entries // 4), device=self.key.device)
        words = philox(
            (
                blocks,
                torch.full_like(blocks, _PURPOSE),
                torch.full_like(blocks, number),
                self._step.expand_as(blocks),
            ),
            (self.key[0], self.key[1]),  # type: ignore[arg-type] # as good as ints
        )
        flat: Tensor = to_unit(torch.stack(words, dim=1).reshape(-1)[:n_entries])
        return flat.reshape(like.shape)


@contextmanager
def drawing(numbers: OwnNumbers | None) -> Iterator[None]:
    """Let a model draw these numbers inside; None: it draws none."""
    if numbers is None:
        yield
        return
    # Attention with dropout draws inside its fused kernels; this one is made of parts.
    with sdpa_kernel(SDPBackend.MATH), numbers:
        yield


def try_draws(module: nn.Module, inputs: Tensor) -> None:
    """Refuse a model that draws in a way that a recorded step cannot.

    Args:
        module: The model, on the CPU; a copy of it sees the inputs.
        inputs: Examples, two or more.

    Raises:
        ArgumentError: It does, by this operation.
    """
    tried = copy.deepcopy(module).train()
    numbers = OwnNumbers(torch.zeros(1, dtype=torch.int64))
    with torch.no_grad(), drawing(numbers):
        tried(inputs)


def _arguments(
    func: Any,  # noqa: ANN401 - an operation of PyTorch's
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """Return an operation's arguments by their names, defaults included."""
    schema = func._schema.arguments
    given = {
        each.name: each.default_value for each in schema if each.has_default_value()
    }
    given |= {each.name: value for each, value in zip(schema, args, strict=False)}
    return given | dict(kwargs)


def _native_dropout(numbers: OwnNumbers, given: Mapping[str, Any]) -> Any:  # noqa: ANN401
    values, share = given["input"], given["p"]
    if given["train"] is False:
        return values.clone(), torch.ones_like(values, dtype=torch.bool)
    kept = numbers.uniform(values) >= share
    scale = 0.0 if share == 1.0 else 1.0 / (1.0 - share)
    return values * kept * scale, kept


def _bernoulli(numbers: OwnNumbers, given: Mapping[str, Any]) -> Tensor:
    chances = given.get("p")
    own: Tensor = given["self"]
    if chances is None:
        chances = own
    return (numbers.uniform(own) < chances).to(own.dtype)


def _bernoulli_in_place(numbers: OwnNumbers, given: Mapping[str, Any]) -> Tensor:
    own: Tensor = given["self"]
    return own.copy_(numbers.uniform(own) < given["p"])


def _uniform_in_place(numbers: OwnNumbers, given: Mapping[str, Any]) -> Tensor:
    own: Tensor = given["self"]
    low, high = given["from"], given["to"]
    return own.copy_(low + (high - low) * numbers.uniform(own))


def _normal_in_place(numbers: OwnNumbers, given: Mapping[str, Any]) -> Tensor:
    own: Tensor = given["self"]
    return own.copy_(given["mean"] + given["std"] * _normal(numbers, own))


def _made(
    draw: Callable[[OwnNumbers, Tensor], Tensor],
) -> Callable[[OwnNumbers, Mapping[str, Any]], Tensor]:
    """Return what makes a new tensor of such numbers, of a shape or like another."""

    def make(numbers: OwnNumbers, given: Mapping[str, Any]) -> Tensor:
        names = ("dtype", "layout", "device", "pin_memory")
        options = {name: given[name] for name in names if given.get(name) is not None}
        if "self" in given:
            out = torch.empty_like(given["self"], **options)
        else:
            out = torch.empty(given["size"], **options)
        return out.copy_(draw(numbers, out))

    return make


def _uniform(numbers: OwnNumbers, like: Tensor) -> Tensor:
    return numbers.uniform(like)


def _normal(numbers: OwnNumbers, like: Tensor) -> Tensor:
    """Return standard normal numbers, by Box and Muller."""
    radius = torch.sqrt(-2.0 * torch.log1p(-numbers.uniform(like)))
    return radius * torch.cos(2.0 * math.pi * numbers.uniform(like))


_DRAWS: Mapping[Any, Callable[[OwnNumbers, Mapping[str, Any]], Any]] = {
    _aten.native_dropout.default: _native_dropout,
    _aten.bernoulli.default: _bernoulli,
    _aten.bernoulli.p: _bernoulli,
    _aten.bernoulli_.float: _bernoulli_in_place,
    _aten.bernoulli_.Tensor: _bernoulli_in_place,
    _aten.uniform_.default: _uniform_in_place,
    _aten.normal_.default: _normal_in_place,
    _aten.rand.default: _made(_uniform),
    _aten.rand_like.default: _made(_uniform),
    _aten.randn.default: _made(_normal),
    _aten.randn_like.default: _made(_normal),
}
"""Operation -> what stands for it."""
