import pytest

from fediac.compressors import CATALOG, find
from fediac.compressors.catalog import title_of
from fediac.compressors.forecast import needs_no_switch, sends_to_server
from fediac.compressors.settings import setting_fields
from fediac.docstrings import read_attributes, read_summary
from fediac.errors import ConfigError
from tests.support import refuses


@pytest.mark.parametrize("name", CATALOG)
def test_every_algorithm_is_found_by_its_name(name: str) -> None:
    found = find(name)
    assert found is CATALOG[name]
    assert found.__name__.lower() == name


@pytest.mark.parametrize("name", CATALOG)
def test_everything_but_the_clients_has_a_default_and_a_meaning(name: str) -> None:
    compressor = find(name)(20)
    assert compressor.n_clients == 20
    meanings = read_attributes(find(name))
    for each in setting_fields(find(name)):
        assert getattr(compressor, each.name) == each.default
        assert meanings[each.name]
    assert read_summary(find(name))


def test_what_a_run_supplies_is_no_setting() -> None:
    names = [each.name for each in setting_fields(find("libra"))]
    assert names == ["n_sent", "bits", "narrow", "hot_rounds", "residual", "fade"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("fediack", "fediac"), ("switch-ml", "switchml"), ("top-k", "topk")],
)
def test_unknown_algorithm_names_the_nearest(name: str, nearest: str) -> None:
    text = f"unknown algorithm {name!r}; did you mean {nearest!r}?"
    with refuses(text, ConfigError):
        find(name)


def test_a_name_that_is_near_none_gets_all_of_them() -> None:
    text = "unknown algorithm 'adam'; there are " + ", ".join(CATALOG)
    with refuses(text, ConfigError):
        find("adam")


def test_an_algorithm_says_what_it_is_called() -> None:
    titles = ["FediAC", "SwitchML", "OmniReduce", "libra", "FedAvg", "top-k", "mine"]
    assert [title_of(name) for name in (*CATALOG, "mine")] == titles


def test_who_needs_the_far_server_follows_from_what_is_expected() -> None:
    every = {name: kind(3) for name, kind in CATALOG.items()}
    served = [name for name, each in every.items() if sends_to_server(each, 1000)]
    assert served == ["libra", "fedavg", "topk"]
    alone = [name for name, each in every.items() if needs_no_switch(each, 1000)]
    assert alone == ["fedavg", "topk"]
