import tomllib
from pathlib import Path

import pytest

from fediac.errors import ConfigError
from fediac.paper import scenarios
from fediac.paper.published import ROWS
from fediac.paper.scenarios import NAMES, find_scenario, read_scenario
from fediac.runs.settings.algorithm_tables import table_types
from tests.support import refuses

FOLDER = Path(scenarios.__file__).with_name("scenarios")
CIFAR = [name for name in NAMES if name.startswith("cifar")]
PAPER = [*CIFAR, "femnist"]

OWN_BEST = {
    "cifar10-iid": (3, 8),
    "cifar10-noniid": (4, 8),
    "cifar100-iid": (2, 8),
    "cifar100-noniid": (3, 8),
    "unipen62": (3, 8),
}
"""Scenario -> FediAC's threshold and SwitchML's bits, where ours were better than the
paper's; see the sweeps among the results."""


def test_every_file_has_a_name() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", [*PAPER, "unipen62"])
def test_the_papers_scenarios_have_the_papers_settings(name: str) -> None:
    settings = find_scenario(name).settings
    assert (settings.clients.n_clients, settings.clients.n_participants) == (20, "100%")
    train = settings.train
    assert (train.epochs, train.steps, train.batch_size) == (5, None, 50)
    assert train.lr == 0.1
    assert settings.network.switches == ("fast", "slow")
    assert settings.network.rates == ("paper",)
    assert settings.network.memory == "unbounded"
    assert settings.of("fediac").n_votes == "5%"
    threshold, bits = OWN_BEST.get(name, (4 if "noniid" in name else 3, 12))
    assert settings.of("fediac").threshold == threshold
    assert settings.of("switchml").bits == bits
    assert settings.of("libra").n_sent == "1%"
    assert settings.of("omnireduce").n_sent == "5%"
    assert settings.stop.n_rounds == 20


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_repeats_no_default_of_an_algorithm(name: str) -> None:
    document = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    for algorithm, kind in table_types().items():
        for key, value in document.get(algorithm, {}).items():
            assert value != getattr(kind(), key), (algorithm, key)


@pytest.mark.parametrize(
    ("prefix", "decay", "compute_s"),
    [("cifar10-", 40.0, 2.0), ("cifar100-", 40.0, 3.0), ("femnist", 20.0, 0.1)],
)
def test_data_decide_the_learning_rate_and_the_time_to_train(
    prefix: str, decay: float, compute_s: float
) -> None:
    for name in NAMES:
        if name.startswith(prefix):
            settings = find_scenario(name).settings
            assert settings.train.lr_decay == decay
            assert settings.network.compute_s == compute_s


@pytest.mark.parametrize("name", CIFAR)
def test_cifar_is_even_or_dirichlet(name: str) -> None:
    data = find_scenario(name).settings.data
    assert data.name == name.partition("-")[0]
    assert data.partition == ("dirichlet" if "noniid" in name else "iid")
    assert data.beta == 0.5


@pytest.mark.parametrize("name", PAPER)
def test_targets_are_those_of_the_papers_rows(name: str) -> None:
    paper = find_scenario(name).paper
    for rows in ROWS.values():
        assert rows[str(paper.beside)].target == paper.target


def test_the_stand_in_has_its_own_name_and_target() -> None:
    scenario = find_scenario("unipen62")
    assert scenario.settings.data.name == "unipen62"
    assert "FEMNIST" not in scenario.paper.title
    assert scenario.paper.target is None
    assert (scenario.paper.below_fedavg, scenario.paper.fedavg_rounds) == (0.02, 50)


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_parameters_is_the_models(name: str) -> None:
    from fediac.training.models import find_model

    scenario = find_scenario(name)
    shape, n_classes = {
        "cifar10": ((3, 32, 32), 10),
        "cifar100": ((3, 32, 32), 100),
        "digits": ((1, 28, 28), 10),
    }.get(scenario.settings.data.name, ((1, 28, 28), 62))
    model = find_model(scenario.settings.model.name)(shape, n_classes)
    assert sum(each.numel() for each in model.parameters()) == scenario.paper.dim


def test_an_unknown_scenario_is_named_with_the_nearest() -> None:
    with refuses(
        "unknown scenario 'cifar10-nonid'; did you mean 'cifar10-noniid'?", ConfigError
    ):
        find_scenario("cifar10-nonid")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 1", "a scenario needs a table [paper]"),
        ('[paper]\ntitle = "A"\nrounds = 1', "'dim' is missing in [paper]"),
        (
            '[paper]\ntitle = "A"\nrounds = 1\ndim = 1',
            "[paper] must have either target or below_fedavg",
        ),
        (
            '[paper]\ntitle = "A"\nrounds = 1\ndim = 1\nbelow_fedavg = 0.02',
            "below_fedavg and fedavg_rounds in [paper] need each other",
        ),
        (
            '[paper]\ntitle = "A"\nrounds = 1\ndim = 1\ntarget = 0.5\nfedavg_rounds=2',
            "below_fedavg and fedavg_rounds in [paper] need each other",
        ),
    ],
)
def test_an_incomplete_scenario_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with refuses(f"{path}: {message}", ConfigError):
        read_scenario(path)
