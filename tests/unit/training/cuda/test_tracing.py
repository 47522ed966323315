"""Models as graphs whose batch norms are joined with what follows them."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fediac.training.cuda.norms import JoinedNorm
from fediac.training.cuda.tracing import (
    can_trace,
    join_norms,
    narrow_layers,
    takes_narrow,
    trace,
)
from fediac.training.models import build_model

IMAGES = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))

Code = Callable[["Own", Tensor], Tensor]


class Own(nn.Module):
    """Layers that the code behind them uses as it likes."""

    def __init__(self, code: Code) -> None:
        super().__init__()
        self.conv, self.other = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 1)
        self.norm, self.relu = nn.BatchNorm2d(8), nn.ReLU(inplace=True)
        self.head = nn.Linear(8, 5)
        self.code = code

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.code(self, images).mean(dim=(2, 3)))
        return scores


def normed(own: Own, images: Tensor) -> Tensor:
    out: Tensor = own.norm(own.conv(images))
    return out


RUNS: dict[str, tuple[Code, int]] = {
    "norm": (lambda own, x: normed(own, x) * 2.0, 1),
    "layer": (lambda own, x: own.relu(normed(own, x)), 1),
    "function": (lambda own, x: functional.relu(normed(own, x)), 1),
    "in place": (lambda own, x: torch.relu_(normed(own, x)), 1),
    "method": (lambda own, x: normed(own, x).relu(), 1),
    "added": (lambda own, x: torch.relu(normed(own, x) + own.other(x)), 2),
    "added to": (lambda own, x: torch.relu(own.other(x).add(normed(own, x))), 2),
    "nothing rectified": (lambda own, x: normed(own, x) + own.other(x), 1),
    "scaled": (
        lambda own, x: torch.relu(torch.add(normed(own, x), own.other(x), alpha=2.0)),
        1,
    ),
    "number": (lambda own, x: torch.relu(normed(own, x) + 1.0), 1),
    "itself": (lambda own, x: torch.relu((y := normed(own, x)) + y), 1),
    "other changed": (lambda own, x: torch.relu(own.other(x).add_(normed(own, x))), 1),
    "seen twice": (lambda own, x: torch.relu(y := normed(own, x)) + y, 1),
    "twice used": (lambda own, x: (y := torch.relu(normed(own, x))) * y.mean(), 1),
}


def seeded(code: Code) -> Own:
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(3)
        return Own(code).train()


def bits_of(module: nn.Module, run: nn.Module) -> list[Tensor]:
    """Gradients and statistics of ``module`` after a step of ``run``."""
    scores = run(IMAGES)
    loss = functional.cross_entropy(scores, torch.arange(len(scores)) % 5)
    torch.autograd.backward(loss)
    gradients = [each.grad for each in module.parameters() if each.grad is not None]
    return [scores, *gradients, *module.buffers()]


@pytest.mark.parametrize("name", RUNS)
def test_a_joined_graph_trains_as_the_model_does(name: str) -> None:
    code, n_inputs = RUNS[name]
    module = seeded(code)
    assert can_trace(module, IMAGES)
    other = copy.deepcopy(module)
    traced = trace(other)
    assert traced is not None
    join_norms(traced, None)
    (joined,) = (
        node
        for node in traced.graph.nodes
        if node.op == "call_module"
        and type(traced.get_submodule(node.target)) is JoinedNorm
    )
    assert len(joined.args) == n_inputs
    own, same = bits_of(module, module), bits_of(other, traced)
    assert all(map(torch.equal, own, same))
    assert len(own) == len(same)


def test_resnet_has_all_its_norms_joined_and_its_sums_apart() -> None:
    module = build_model("resnet18", (3, 32, 32), 10, seed=1).train()
    traced = trace(module)
    assert traced is not None
    layers = narrow_layers(traced)
    assert len(layers) == 21
    assert takes_narrow(traced, layers)
    join_norms(traced, None)
    joined = [each for each in traced.modules() if type(each) is JoinedNorm]
    assert len(joined) == 20
    assert sum(each.settings.rectifies for each in joined) == 17
    # The first layer's and those of seven blocks go on in two ways, the last's in one.
    assert sum(each.settings.has_two for each in joined) == 8
    targets = {str(node.target) for node in traced.graph.nodes}
    assert not any("relu" in each or each == "add" for each in targets)


def test_evaluation_and_unusual_norms_stay_as_they_are() -> None:
    module = seeded(RUNS["layer"][0])
    module.norm = nn.BatchNorm2d(8, affine=False)
    for each in (module, seeded(RUNS["layer"][0]).eval()):
        traced = trace(each)
        assert traced is not None
        join_norms(traced, None)
        assert not any(type(layer) is JoinedNorm for layer in traced.modules())


def without_gradient(own: Own, x: Tensor) -> Tensor:
    with torch.no_grad():
        out: Tensor = own.relu(normed(own, x))
    return out


def by_type(own: Own, x: Tensor) -> Tensor:
    out: Tensor = own.conv(x) if isinstance(x, Tensor) else own.other(x)
    return out


@pytest.mark.parametrize(
    "code",
    [
        without_gradient,
        by_type,
        lambda own, x: own.conv(x) if x.sum() > 0 else own.other(x),
        lambda own, x: own.conv(x[: len(x)]),
    ],
)
def test_code_that_a_graph_cannot_tell_is_not_traced(code: Code) -> None:
    assert not can_trace(seeded(code), IMAGES)


@pytest.mark.parametrize(
    ("code", "n_layers", "narrow_inputs"),
    [
        (lambda own, x: own.conv(x), 2, True),
        (lambda own, x: own.conv(x) * own.conv.weight.mean(), 1, False),
        (lambda own, x: own.conv(x) + x.mean(), 2, False),
    ],
)
def test_layers_are_narrow_where_nobody_else_sees_their_weights(
    code: Code, *, n_layers: int, narrow_inputs: bool
) -> None:
    traced = trace(seeded(code))
    assert traced is not None
    layers = narrow_layers(traced)
    assert len(layers) == n_layers
    assert takes_narrow(traced, layers) is narrow_inputs


def test_layers_with_hooks_or_shared_weights_are_not_narrow() -> None:
    hooked = seeded(lambda own, x: own.conv(x))
    hooked.conv.register_forward_hook(lambda *_: None)
    tied = seeded(lambda own, x: own.conv(x) * own.norm.weight.mean())
    tied.norm.weight = tied.head.bias
    for each in (hooked, tied):
        traced = trace(each)
        assert traced is not None
        assert len(narrow_layers(traced)) == 1
