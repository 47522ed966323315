"""What a training loop has goes in, and comes back in the same form."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fediac
from fediac.core.ledger import PAYLOAD
from fediac.errors import UpdateError
from tests.support import KINDS, Make, bytes_of, normal_update, refuses, to_numpy

N_CLIENTS = 3
SHAPES = {"fc.weight": (4, 5), "fc.bias": (4,), "scale": ()}


def all_entries(**changes: Any) -> fediac.FediAC:
    """An algorithm that sends every entry, so that little is lost by rounding."""
    settings: dict[str, Any] = {"n_votes": "100%", "threshold": 1, "bits": 24}
    settings["law"] = "topk"
    return fediac.FediAC(N_CLIENTS, **(settings | changes))


def split(vector: np.ndarray, make: Make) -> dict[str, Any]:
    parts, start = {}, 0
    for name, shape in SHAPES.items():
        size = int(np.prod(shape))
        parts[name] = make(vector[start : start + size].reshape(shape))
        start += size
    return parts


def vectors() -> list[np.ndarray]:
    return [normal_update(25, seed=seed) for seed in range(N_CLIENTS)]


def run(updates: Any, **settings: Any) -> fediac.RoundResult:
    given = {"seed": 1, "round_number": 1} | settings
    return fediac.aggregate(updates, given.pop("compressor", all_entries()), **given)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("form", [dict, list, tuple])
def test_a_form_gives_the_bits_of_its_vector(make: Make, form: type[Any]) -> None:
    def as_form(vector: np.ndarray) -> Any:
        parts = split(vector, make)
        return parts if form is dict else form(parts.values())

    expected = run(vectors())
    result = run([as_form(each) for each in vectors()])
    assert type(result.mean) is form
    parts = result.mean if form is dict else dict(zip(SHAPES, result.mean, strict=True))
    for name, part in split(expected.mean, np.array).items():
        assert type(parts[name]) is type(make(np.zeros(1)))
        assert np.array_equal(to_numpy(parts[name]), part)
    assert result.ledger == expected.ledger
    assert result.facts == expected.facts


def test_names_may_come_in_another_order() -> None:
    updates = [split(each, np.array) for each in vectors()]
    turned = [updates[0], *(dict(reversed(each.items())) for each in updates[1:])]
    for ours, theirs in zip(
        run(updates).mean.values(), run(turned).mean.values(), strict=True
    ):
        assert np.array_equal(ours, theirs)


def test_states_go_on_whatever_the_form() -> None:
    compressor = all_entries(n_votes="20%", threshold=2)
    plain = run(vectors(), compressor=compressor)
    named = run([split(e, np.array) for e in vectors()], compressor=compressor)
    for ours, theirs in zip(named.states, plain.states, strict=True):
        assert bytes_of(ours.residual) == bytes_of(theirs.residual)
    again = run(
        [split(e, np.array) for e in vectors()],
        compressor=compressor,
        round_number=2,
        states=named.states,
    )
    then = run(
        vectors(), compressor=compressor, round_number=2, states=plain.states
    ).mean
    for name, part in split(then, np.array).items():
        assert np.array_equal(again.mean[name], part)


def test_halves_stay_halves_and_doubles_doubles() -> None:
    for dtype in (torch.bfloat16, torch.float64):
        update = {"w": torch.linspace(-1.0, 1.0, 9).to(dtype)}
        mean = run([update] * N_CLIENTS).mean["w"]
        assert mean.dtype == dtype
        assert torch.allclose(mean, update["w"], atol=1e-5)


def trained_models() -> tuple[nn.Module, list[nn.Module]]:
    """A model with batch norm, and three that have seen other data each."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        start: nn.Module = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)
        )
        clients = []
        for _ in range(N_CLIENTS):
            model = copy.deepcopy(start)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                x = torch.randn(16, 6)
                loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
                torch.autograd.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            clients.append(model)
    return start, clients


def mean_of(models: list[nn.Module], name: str) -> torch.Tensor:
    return torch.stack([each.state_dict()[name] for each in models]).mean(dim=0)


@pytest.mark.parametrize("compressor", [all_entries(), fediac.FedAvg(N_CLIENTS)])
def test_models_are_averaged_with_their_statistics(compressor: Any) -> None:
    model, clients = trained_models()
    trained = [each.state_dict() for each in clients]
    result = run(trained, compressor=compressor, base=model.state_dict())
    for name, after in result.model.items():
        before = model.state_dict()[name]
        if name.endswith("num_batches_tracked"):
            assert torch.equal(after, before)
            assert not result.mean[name]
        else:
            # A level is at most 2**-21 of the largest change here, all below 2.
            assert torch.allclose(after, mean_of(clients, name), atol=1e-5)
            assert torch.allclose(result.mean[name], before - after, atol=1e-6)
    model.load_state_dict(result.model)
    assert result.ledger.phases[-1] == "statistics"
    n_bits = 24 if isinstance(compressor, fediac.FediAC) else 32
    rows = result.ledger.select(phase="statistics", direction="up")
    assert rows.traffic(PAYLOAD).payload_bits == N_CLIENTS * 16 * n_bits


def test_statistics_may_be_left_as_they_were() -> None:
    model, clients = trained_models()
    before = model.state_dict()
    trained = [each.state_dict() for each in clients]
    result = run(trained, base=before, statistics="leave")
    assert torch.equal(result.model["1.running_mean"], before["1.running_mean"])
    assert not result.mean["1.running_var"].any()
    assert not torch.equal(result.model["0.weight"], before["0.weight"])
    assert "statistics" not in result.ledger.phases


def test_other_arrays_may_be_the_statistics() -> None:
    updates = [split(each, np.array) for each in vectors()]
    result = run(updates, buffers=["fc.bias"])
    assert to_numpy(result.states[0].residual).shape == (21,)
    expected = np.mean([each["fc.bias"] for each in updates], axis=0)
    assert np.allclose(result.mean["fc.bias"], expected, atol=1e-5)


def test_variances_stay_above_zero_beside_much_larger_ones() -> None:
    """One grid serves all statistics; its step is larger than a small variance."""
    base = {"w": np.ones(4), "n.running_var": np.array([1e6, 0.1])}
    client = {"w": np.zeros(4), "n.running_var": np.array([1.0, 0.0])}
    lowest = []
    for number in range(1, 9):
        result = run([client] * N_CLIENTS, base=base, round_number=number)
        lowest.append(result.model["n.running_var"].min())
    assert min(lowest) == 0.0


def test_vectors_may_be_models_too() -> None:
    start = normal_update(25, seed=9)
    result = run([start - each for each in vectors()], base=start)
    assert np.allclose(result.model, start - result.mean)
    assert np.allclose(result.mean, np.mean(vectors(), axis=0), atol=1e-4)


def test_parameters_need_no_detaching() -> None:
    model, clients = trained_models()
    base = list(model.parameters())
    result = run([list(each.parameters()) for each in clients], base=base)
    assert torch.allclose(result.model[0], mean_of(clients, "0.weight"), atol=1e-5)
    assert not result.model[0].requires_grad


def test_absent_clients_are_left_out() -> None:
    model, clients = trained_models()
    trained = [each.state_dict() for each in clients]
    trained[0] = None  # type: ignore[call-overload] # as the user has it
    result = run(trained, base=model.state_dict())
    expected = mean_of(clients[1:], "0.weight")
    assert torch.allclose(result.model["0.weight"], expected, atol=1e-5)


def test_what_comes_back_shares_no_memory() -> None:
    model, clients = trained_models()
    base = model.state_dict()
    result = run([each.state_dict() for each in clients], base=base)
    for part in (result.model, result.mean):
        places = {each.untyped_storage().data_ptr() for each in part.values()}
        assert len(places) == len(part)
        assert places.isdisjoint(e.untyped_storage().data_ptr() for e in base.values())


def _wrong(**changes: Any) -> dict[str, Any]:
    return {**split(vectors()[0], np.array), **changes}


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (
            {"fc.weight": np.zeros((4, 5))},
            "client 1: update must have 'fc.bias' as the first, has not",
        ),
        (
            _wrong(other=np.zeros(2)),
            "client 1: update must have the same entries as the first, which has no "
            "'other'",
        ),
        (
            _wrong(scale=np.zeros(2)),
            "client 1: update['scale'] has shape (2,) but the first has ()",
        ),
        (
            _wrong(scale=torch.zeros(())),
            "client 1: update['scale'] is a PyTorch tensor on cpu but the first is a "
            "NumPy array on cpu",
        ),
        (
            _wrong(scale=1.0),
            "client 1: update['scale'] must be a NumPy array or a PyTorch tensor, got "
            "float",
        ),
        (
            _wrong(scale=np.zeros((), complex)),
            "client 1: update['scale'] must be of floats or whole numbers, got "
            "complex128",
        ),
        (
            nn.Linear(2, 1),
            "client 1: update must be a vector, a list of arrays or a state_dict, got "
            "Linear; give its state_dict()",
        ),
        (
            "fc.weight",
            "client 1: update must be a vector, a list of arrays or a state_dict, got "
            "str",
        ),
    ],
)
def test_clients_that_do_not_fit_the_first_are_named(second: Any, text: str) -> None:
    with refuses(text, UpdateError):
        run([split(vectors()[0], np.array), second, second])


def test_models_that_do_not_fit_the_base_are_named() -> None:
    base = split(vectors()[0], np.array)
    with refuses("client 0: model must have 'scale' as base, has not", UpdateError):
        run([{"fc.weight": base["fc.weight"]}] * 3, base={"scale": base["scale"]})


def test_what_is_neither_kept_nor_averaged_is_named() -> None:
    updates = [split(each, np.array) for each in vectors()]
    with refuses("statistics must be average or leave, got 'local'"):
        run(updates, statistics="local")
    text = "client 0: update must have at least one float to learn, has none"
    with refuses(text, UpdateError):
        run([{"n": np.arange(3)}] * N_CLIENTS)


def test_an_update_that_is_not_finite_names_its_client() -> None:
    updates = [split(each, np.array) for each in vectors()]
    updates[2]["fc.bias"][1] = np.nan
    with pytest.raises(UpdateError, match=r"^client 2, round 1: .*1 entry"):
        run(updates)
