import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fediac import aggregate
from fediac.compressors import FedAvg, State, SwitchML, TopK
from fediac.compressors.protocol import Facts, Outcome, Round, ask
from fediac.core.exchange import Max, Peak
from fediac.core.mean import Mean
from fediac.core.quantize import level_limit
from fediac.core.rng import Stream
from fediac.errors import AlgorithmError, ConfigError, named
from fediac.plugins import list_named, make_own, require_algorithm
from fediac.runs.algorithm import check_algorithm
from fediac.runs.settings import RunSettings
from fediac.runs.settings.error_names import setting_names
from fediac.switch import Switch
from tests.support import refuses

plain = FedAvg
halved = partial(SwitchML, bits=9)
a_number = 7


def by_dim(dim: int) -> TopK:
    return TopK(3, n_sent=dim // 5)


def by_both(n_clients: int, dim: int) -> TopK:
    return TopK(n_clients, n_sent=dim // 4)


def by_whatever(**given: int) -> TopK:
    return by_both(**given)


def needs_more(n_clients: int, share: float) -> TopK:
    return TopK(n_clients, n_sent=int(share))


def fails(n_clients: int) -> SwitchML:
    return SwitchML(n_clients, bits=2)


def gives_a_class(n_clients: int) -> Any:  # noqa: ARG001 - named by the caller
    return TopK


def gives_nothing() -> None:
    pass


def ignores_clients() -> FedAvg:
    return FedAvg(20)


class OtherOut:
    n_clients = 3

    def run_round(self, update: object, state: object, stream: object) -> object:
        return update, state, stream


class NoRound:
    n_clients = 3

    def run_round(self, update: object) -> object:
        return update


def exits() -> None:
    raise SystemExit(3)


class Stumbles:
    """One whose round fails, in words that settings have too."""

    n_clients = 3
    threshold = 2

    def run_round(
        self,
        update: Any,  # noqa: ARG002 - the compressor's signature
        state: Any,  # noqa: ARG002
        stream: Any,  # noqa: ARG002
        *,
        out: Any = None,  # noqa: ARG002
    ) -> Round:
        yield from ask(Max(1.0))
        raise ValueError("lr is not what I thought")


class Miscalls(Stumbles):
    """One that asks this package for what it cannot give."""

    def run_round(
        self,
        update: Any,  # noqa: ARG002 - the compressor's signature
        state: Any,  # noqa: ARG002
        stream: Any,  # noqa: ARG002
        *,
        out: Any = None,  # noqa: ARG002
    ) -> Round:
        limit = level_limit(bits=1, n_clients=3)
        yield from ask(Max(float(limit)))
        raise AssertionError


class Blot:
    """A part of a mean that cannot be written."""

    def write(self, out: Any) -> None:
        out[len(out)] = 1.0


class Blots(Stumbles):
    """One whose round ends well, but not its mean."""

    def run_round(
        self,
        update: Any,  # noqa: ARG002 - the compressor's signature
        state: Any,
        stream: Any,  # noqa: ARG002
        *,
        out: Any = None,  # noqa: ARG002
    ) -> Round:
        yield from ask(Max(1.0))
        return Outcome(Mean((Blot(),)), state, Facts(0, 0, 0, 0.0, 0.0, 0.0, 0.0))


def own(name: str) -> str:
    return f"{__name__}:{name}"


def make(algorithm: str) -> Any:
    return make_own(algorithm, n_clients=3, dim=100)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", FedAvg(3)),
        ("halved", SwitchML(3, bits=9)),
        ("by_dim", TopK(3, 20)),
        ("by_both", TopK(3, 25)),
        ("by_whatever", TopK(3, 25)),
    ],
)
def test_it_gets_what_it_takes_of_clients_and_entries(
    name: str, expected: object
) -> None:
    require_algorithm(own(name))
    assert make(own(name)) == expected


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        (
            "needs_more",
            "must need no arguments other than n_clients and dim, got missing a "
            "required argument: 'share'",
        ),
        (
            "gives_nothing",
            "must return a compressor, one with run_round, got NoneType",
        ),
        (
            "gives_a_class",
            "must return a compressor, one with run_round, got the class TopK",
        ),
        (
            "ignores_clients",
            "must return a compressor whose n_clients is 3 (clients in a round), "
            "got 20",
        ),
        (
            "NoRound",
            "must return a compressor whose run_round takes (update, state, stream, "
            "*, out), got too many positional arguments",
        ),
        (
            "OtherOut",
            "must return a compressor whose run_round takes (update, state, stream, "
            "*, out), got an unexpected keyword argument 'out'",
        ),
        ("a_number", "must be a class or a function, got int"),
        (
            "missing",
            f"cannot be imported: module {__name__!r} has no attribute 'missing'",
        ),
    ],
)
def test_what_makes_no_compressor_is_refused(name: str, rule: str) -> None:
    with refuses(f"algorithm {own(name)!r} {rule}", ConfigError):
        make(own(name))


@pytest.mark.parametrize("names", ["fediac,,", "fediac,", ",libra", "fediac, ,libra"])
def test_a_name_that_is_missing_between_commas_is_refused(names: str) -> None:
    with refuses(
        f"--algorithms must have a name on both sides of a comma, got {names!r}",
        ConfigError,
    ):
        list_named(names)


def test_what_it_raises_is_told_in_its_own_words() -> None:
    settings = RunSettings(algorithm=own("fails"))
    line = fails.__code__.co_firstlineno + 1
    text = (
        f"algorithm {own('fails')!r} must return a compressor, got ArgumentError: bits "
        "must leave room for 3 clients (at least 3), got 2 "
        f"({Path(__file__).name}, line {line})"
    )
    with refuses(text, ConfigError), named(setting_names()):
        check_algorithm(settings, n_clients=3, dim=100, switch=Switch())


@pytest.mark.parametrize("name", ["", "größe", "a.b", "a:b", "NUL", "com1"])
def test_names_that_some_system_has_no_folder_for_are_refused(name: str) -> None:
    algorithm = f"nowhere:{name}"
    text = (
        f"algorithm {algorithm!r} must have a name after the colon that is good for a "
        "folder on every system (letters, digits and underscores; not con, nul, ...), "
        f"got {name!r}"
    )
    with refuses(text, ConfigError):
        require_algorithm(algorithm)


def test_a_module_that_is_not_there_is_refused() -> None:
    text = "algorithm 'nowhere:make' cannot be imported: No module named 'nowhere'"
    with refuses(text, ConfigError):
        require_algorithm("nowhere:make")


def test_what_a_round_raises_says_whose_and_where() -> None:
    compressor = make(own("Stumbles"))
    assert compressor.threshold == 2
    client = compressor.run_round(np.ones(3), State(), Stream(1, 1, 0))
    next(client)
    with (
        named({"lr": "train.lr"}),
        pytest.raises(AlgorithmError) as caught,
    ):
        client.send((Peak(1.0),))
    assert re.fullmatch(
        r"algorithm '.*:Stumbles' failed: ValueError: lr is not what I thought "
        r"\(test_plugins.py, line \d+\)",
        str(caught.value),
    )


def test_an_argument_of_a_call_in_a_round_is_the_users_own() -> None:
    client = make(own("Miscalls")).run_round(np.ones(3), State(), Stream(1, 1, 0))
    with named({"bits": "fediac.bits"}), pytest.raises(AlgorithmError) as caught:
        next(client)
    assert re.fullmatch(
        r"algorithm '.*:Miscalls' failed: ArgumentError: bits must leave room for 3 "
        r"clients \(at least 3\), got 1 \(test_plugins.py, line \d+\)",
        str(caught.value),
    )


def test_what_a_mean_raises_says_whose_and_where() -> None:
    updates = [np.ones(100, dtype=np.float32)] * 3
    with pytest.raises(AlgorithmError) as caught:
        aggregate(updates, make(own("Blots")), seed=1, round_number=1)
    assert re.fullmatch(
        r"algorithm '.*:Blots' failed: IndexError: .* \(test_plugins.py, line \d+\)",
        str(caught.value),
    )


def test_one_that_exits_does_not_end_the_command() -> None:
    with pytest.raises(AlgorithmError, match="got SystemExit: 3"):
        make(own("exits"))
