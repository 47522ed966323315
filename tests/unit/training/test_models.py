from pathlib import Path

import pytest
import torch
from torch import nn

from fediac.errors import ConfigError
from fediac.training.models import MODELS, Shape, build_model, find_model
from tests.support import refuses

GREY, COLOUR = (1, 28, 28), (3, 32, 32)

# Name, image, classes, parameters, values of running statistics.
SIZES = {
    "CIFAR-10": ("resnet18", COLOUR, 10, 11_173_962, 9_600),
    "CIFAR-100": ("resnet18", COLOUR, 100, 11_220_132, 9_600),
    "FEMNIST": ("femnist-cnn", GREY, 62, 791_774, 192),
    "digits": ("small-cnn", GREY, 10, 105_866, 0),
}


def returns_a_number(shape: Shape, n_classes: int) -> int:
    return n_classes * shape[0]


@pytest.mark.parametrize("case", SIZES)
def test_every_model_has_the_size_that_results_are_compared_at(case: str) -> None:
    name, shape, n_classes, dim, n_statistics = SIZES[case]
    with torch.device("meta"):
        model = MODELS[name](shape, n_classes)
        assert model(torch.zeros(2, *shape)).shape == (2, n_classes)
    assert sum(each.numel() for each in model.parameters()) == dim
    buffers = [each for each in model.buffers() if each.is_floating_point()]
    assert sum(each.numel() for each in buffers) == n_statistics


def test_resnet_looks_at_small_images_without_shrinking_them_first() -> None:
    with torch.device("meta"):
        model = MODELS["resnet18"](COLOUR, 10)
        stem = model[:3](torch.zeros(1, *COLOUR))  # type: ignore[index] # a Sequential
    assert stem.shape == (1, 64, 32, 32)
    assert not any(isinstance(each, nn.MaxPool2d) for each in model.modules())


def test_a_seed_decides_the_weights_and_no_other_generator_moves() -> None:
    before = torch.random.get_rng_state()
    first = build_model("small-cnn", GREY, 10, seed=5).state_dict()
    torch.rand(3)
    again = build_model("small-cnn", GREY, 10, seed=5).state_dict()
    other = build_model("small-cnn", GREY, 10, seed=6).state_dict()
    torch.random.set_rng_state(before)
    build_model("small-cnn", GREY, 10, seed=5)
    assert torch.equal(torch.random.get_rng_state(), before)
    for key, weights in first.items():
        assert torch.equal(weights, again[key])
        assert not torch.equal(weights, other[key])


def test_unknown_models_are_errors_with_the_nearest_name() -> None:
    text = (
        "unknown model 'mine'; there are resnet18, femnist-cnn, small-cnn, mlp, "
        "module:function"
    )
    with refuses(text, ConfigError):
        find_model("mine")
    with refuses("unknown model 'resnet'; did you mean 'resnet18'?", ConfigError):
        find_model("resnet")


def test_own_models_are_named_by_module_and_function() -> None:
    model = build_model("tests.tiny:plain_model", (1, 6, 6), 3, seed=1)
    assert model(torch.zeros(2, 1, 6, 6)).shape == (2, 3)


def test_own_models_are_found_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_own_network.py").write_text("def build(shape, n): pass\n")
    monkeypatch.setattr("sys.path", [])
    monkeypatch.chdir(tmp_path)
    assert find_model("my_own_network:build").__module__ == "my_own_network"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere.models:build", "No module named 'nowhere'"),
        ("tests.tiny:missing", "module 'tests.tiny' has no attribute 'missing'"),
        (":build", "Empty module name"),
    ],
)
def test_own_models_that_cannot_be_imported_say_why(name: str, why: str) -> None:
    with refuses(f"model {name!r} cannot be imported: {why}", ConfigError):
        find_model(name)


def test_what_is_no_model_is_refused() -> None:
    name = f"{__name__}:returns_a_number"
    text = f"model {name!r} must return a torch.nn.Module, got int"
    with refuses(text):
        build_model(name, GREY, 10, seed=1)


def _fails(shape: Shape, n_classes: int) -> nn.Module:  # noqa: ARG001 - as models
    raise ZeroDivisionError("no features")


def test_a_function_that_fails_is_named_with_its_line() -> None:
    text = (
        f"model '{__name__}:_fails' failed: ZeroDivisionError: no features "
        f"(test_models.py, line {_fails.__code__.co_firstlineno + 1})"
    )
    with refuses(text):
        build_model(f"{__name__}:_fails", GREY, 10, seed=1)
