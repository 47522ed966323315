"""What layers draw in a recorded step, shown on the CPU, where the bits are the same.

A CUDA graph repeats the operations that it recorded, on tensors that may have changed.
So does a graph that PyTorch traces: that is what stands for a recording here.
"""

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from fediac.core.rng import Stream
from fediac.errors import ArgumentError
from fediac.training.cuda.numbers import OwnNumbers, drawing, try_draws
from tests.support import refuses

X = torch.linspace(-2.0, 2.0, 40).reshape(5, 8)


def make(client: int = 3, *, step: int = 0) -> OwnNumbers:
    numbers = OwnNumbers(torch.full((1,), step, dtype=torch.int64))
    numbers.set_key(Stream(1, 2, client))
    return numbers


def drawn(numbers: OwnNumbers, draw: Callable[[], Tensor]) -> Tensor:
    with drawing(numbers):
        return draw()


def drop() -> Tensor:
    return functional.dropout(torch.ones(1000), 0.25)


def test_draws_depend_on_client_step_and_their_order_alone() -> None:
    first = drawn(make(), drop)
    assert torch.equal(drawn(make(), drop), first)
    assert not torch.equal(drawn(make(4), drop), first)
    assert not torch.equal(drawn(make(step=1), drop), first)
    with drawing(make()):
        once, twice = drop(), drop()
    assert torch.equal(once, first)
    assert not torch.equal(twice, first)


def test_pytorchs_generator_is_neither_read_nor_moved() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        before = torch.get_rng_state()
        first = drawn(make(), drop)
        assert torch.equal(torch.get_rng_state(), before)
        torch.default_generator.manual_seed(8)
        assert torch.equal(drawn(make(), drop), first)


def test_clients_side_by_side_draw_what_each_draws_alone() -> None:
    alone = [drawn(make(client), drop) for client in range(4)]
    beside: dict[int, Tensor] = {}
    meet = threading.Barrier(4)

    def work(client: int) -> None:
        with drawing(make(client)):
            meet.wait()
            beside[client] = drop()

    threads = [threading.Thread(target=work, args=(client,)) for client in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(torch.equal(beside[client], alone[client]) for client in range(4))


def network(inputs: Tensor) -> Tensor:
    hidden = functional.dropout(inputs, 0.5) + 0.1 * torch.randn_like(inputs)
    hidden = functional.alpha_dropout(hidden, 0.2) * torch.rand(8)
    return torch.bernoulli(torch.sigmoid(hidden)) + hidden


def test_a_recorded_step_draws_anew_whenever_it_is_repeated() -> None:
    numbers = OwnNumbers(torch.zeros(1, dtype=torch.int64))

    def step(inputs: Tensor, key: Tensor, number: Tensor) -> Tensor:
        numbers.key, numbers._step = key, number
        return drawn(numbers, lambda: network(inputs))

    recorded = make_fx(step)(X, make().key, torch.zeros(1, dtype=torch.int64))
    operations = [each.target for each in recorded.graph.nodes if each.op != "output"]
    seeded = torch.Tag.nondeterministic_seeded
    assert not [each for each in operations if seeded in getattr(each, "tags", ())]
    seen = set()
    for client in (3, 4):
        for number in (0, 1, 2):
            own = make(client, step=number)
            wanted = drawn(own, lambda: network(X))
            assert torch.equal(recorded(X, own.key, own._step), wanted)
            seen.add(wanted.numpy().tobytes())
    assert len(seen) == 6


@pytest.mark.parametrize(
    "dropped",
    [
        lambda x: functional.dropout(x, 0.25),
        lambda x: torch.native_dropout(x, 0.25, train=True)[0],  # what CUDA runs
    ],
)
def test_gradients_pass_where_values_do(dropped: Callable[[Tensor], Tensor]) -> None:
    inputs = torch.ones(4000, requires_grad=True)
    outputs = drawn(make(), lambda: dropped(inputs))
    assert set(outputs.tolist()) == {0.0, torch.tensor(1.0 / 0.75).item()}
    torch.autograd.backward(outputs.sum())
    assert inputs.grad is not None
    assert torch.equal(inputs.grad, outputs.detach())


# A share of n draws is off by more than sqrt(ln(2e6) / 2n) with a probability of at
# most 1e-6 (Hoeffding): by 0.0085 of 100,000.
N, FAR = 100_000, math.sqrt(math.log(2e6) / 2e5)


def check_share(zeros: Tensor, share: float) -> bool:
    return abs(float(zeros.double().mean()) - share) <= FAR


def test_the_share_that_is_dropped_is_the_one_asked_for() -> None:
    ones = torch.ones(N)
    for share in (0.1, 0.5, 0.9):
        kept = drawn(make(), lambda share=share: functional.dropout(ones, share))  # type: ignore[misc] # a default
        assert check_share(kept == 0.0, share)
        assert not check_share(kept == 0.0, share + 0.02)
    for share in (0.0, 1.0):
        kept = drawn(make(), lambda share=share: functional.dropout(ones, share))  # type: ignore[misc] # a default
        assert torch.equal(kept, ones * (1.0 - share))


def test_numbers_have_the_law_asked_for() -> None:
    with drawing(make()):
        even, normal = torch.rand(N), torch.randn(N)
        wide, far = torch.empty(N).uniform_(2.0, 6.0), torch.empty(N).normal_(5.0, 2.0)
    for below in (0.1, 0.5, 0.8):
        assert check_share(even < below, below)
        assert check_share(wide < 2.0 + 4.0 * below, below)
    for z in (-1.5, 0.0, 0.7):
        below = 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))
        assert check_share(normal < z, below)
        assert check_share(far < 5.0 + 2.0 * z, below)
    assert bool(torch.isfinite(normal).all())


def test_layers_that_draw_nothing_are_as_ever() -> None:
    norm = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.0))
    plain = norm(X)
    assert torch.equal(drawn(make(), lambda: norm(X)), plain)
    query = X.reshape(1, 1, 5, 8)
    attend = functional.scaled_dot_product_attention
    with_none = drawn(make(), lambda: attend(query, query, query, dropout_p=0.0))
    torch.testing.assert_close(with_none, attend(query, query, query))


class Own(nn.Module):
    """A model of a line of code."""

    def __init__(self, code: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.code = code

    def forward(self, inputs: Tensor) -> Any:
        return self.code(inputs)


def test_attention_with_dropout_can_be_recorded() -> None:
    layer = nn.MultiheadAttention(8, 2, dropout=0.5)
    try_draws(Own(lambda x: layer(x, x, x, need_weights=False)[0]), X)


@pytest.mark.parametrize(
    ("code", "operation"),
    [
        (lambda x: x[torch.randperm(5)], "aten.randperm.default"),
        (
            lambda x: x + torch.rand(8, generator=torch.Generator()),
            "aten.rand.generator",
        ),
        (lambda x: x.exponential_(), "aten.exponential_.default"),
    ],
)
def test_other_draws_are_refused_by_name(
    code: Callable[[Tensor], Any], operation: str
) -> None:
    text = (
        "model must draw random numbers by dropout, torch.rand, randn or bernoulli on "
        f"CUDA, without a generator, got {operation}; train it on the CPU"
    )
    with refuses(text, ArgumentError):
        try_draws(Own(code), X.clone())
