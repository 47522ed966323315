from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fediac.training.model_checks import check_for_cuda, try_model
from tests.support import refuses

INPUTS = torch.arange(24.0).view(4, 6)


class Own(nn.Module):
    """A layer with code of its own behind it."""

    def __init__(self, after: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)
        self.after = after

    def forward(self, inputs: Tensor) -> object:
        return self.after(self.inner(inputs))


@pytest.mark.parametrize(
    ("module", "draws"),
    [
        (nn.Linear(6, 3), False),
        (nn.Linear(6, 4), False),  # more scores than classes are nobody's harm
        (nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), False),
        (nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 3)), True),
        (Own(lambda scores: functional.dropout(scores, 0.5)), True),
        (Own(lambda scores: scores + torch.rand_like(scores)), True),
    ],
)
def test_whoever_draws_is_found_out_and_leaves_no_trace(
    module: nn.Module, *, draws: bool
) -> None:
    module.eval()
    before, state = torch.get_rng_state(), str(module.state_dict())
    assert try_model(module, INPUTS, 3) is draws
    assert torch.equal(torch.get_rng_state(), before)
    assert str(module.state_dict()) == state
    assert not module.training


def test_one_example_is_enough() -> None:
    module = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))
    assert not try_model(module, INPUTS[:1], 3)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (
            nn.Linear(7, 3),
            "model must take inputs of shape (6,) and torch.float32, got RuntimeError: "
            "mat1 and mat2 shapes cannot be multiplied (2x6 and 7x3)",
        ),
        (
            nn.Linear(6, 2),
            "model must return a tensor with 3 scores (classes) an example, got shape "
            "(2, 2) for 2 examples",
        ),
        (
            Own(lambda scores: scores.sum(dim=1)),
            "model must return a tensor with 3 scores (classes) an example, got shape "
            "(2,) for 2 examples",
        ),
        (
            Own(lambda scores: (scores, scores)),
            "model must return a tensor with 3 scores (classes) an example, got tuple",
        ),
    ],
)
def test_models_that_do_not_fit_are_refused(module: nn.Module, text: str) -> None:
    with refuses(text):
        try_model(module, INPUTS, 3)


class Recurrent(nn.Module):
    """Dropout that is nobody's layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(2, 3, num_layers=2, dropout=0.5, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.inner(inputs.view(-1, 3, 2))[0]
        return outputs[:, -1]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (
            nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3, momentum=None)),
            "model must give BatchNorm1d a momentum on CUDA, got None; train it on the "
            "CPU",
        ),
        (
            nn.Linear(6, 2),
            "model must return a tensor with 3 scores (classes) an example, got shape "
            "(2, 2) for 2 examples",
        ),
    ],
)
def test_models_that_cuda_could_not_repeat_are_refused(
    module: nn.Module, text: str
) -> None:
    with refuses(text):
        check_for_cuda(module, INPUTS, 3)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(6, 3), nn.Sequential(nn.Dropout(0.1))),
        Own(lambda scores: functional.dropout(scores, 0.5)),
        Recurrent(),
    ],
)
def test_models_that_draw_are_said_to(module: nn.Module) -> None:
    assert check_for_cuda(module, INPUTS, 3)


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm1d(3),
        nn.BatchNorm1d(3, momentum=None, track_running_stats=False),
    ],
)
def test_other_models_may_train_on_cuda(norm: nn.Module) -> None:
    assert not check_for_cuda(nn.Sequential(nn.Linear(6, 3), norm), INPUTS, 3)
