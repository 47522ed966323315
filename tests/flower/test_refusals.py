"""What does not fit is refused at the start, with both values."""

import subprocess
import sys
import textwrap
from typing import Any

import pytest
from flwr.serverapp.strategy import FedAvg

from fediac.errors import ConfigError
from fediac.flower import CompressedStrategy, CompressMod, server_messages
from fediac.flower import mod as mod_module
from tests.flower.apps import make_app, record_of, start
from tests.flower.local_grid import LocalGrid


def refusal(mod: Any, algorithm: Any = "fediac", **settings: Any) -> Any:
    strategy = CompressedStrategy(FedAvg(), algorithm, **settings)
    with pytest.raises(ConfigError) as caught:
        strategy.start(LocalGrid(make_app(mod)), record_of(start()), num_rounds=1)
    return str(caught.value)


def test_another_setting_is_refused_with_both_values() -> None:
    assert refusal(CompressMod("fediac", threshold=3), threshold=2) == (
        "node 1 refuses: fediac.threshold is 2 on the server but 3 on this client"
    )


def test_another_algorithm_is_refused_with_both_names() -> None:
    assert refusal(CompressMod("topk")) == (
        "node 1 refuses: algorithm is 'fediac' on the server but 'topk' on this client"
    )


def test_a_default_is_the_same_setting_as_its_value() -> None:
    grid = LocalGrid(make_app(CompressMod("fediac", threshold="15%")))
    result = CompressedStrategy(FedAvg()).start(grid, record_of(start()), num_rounds=1)
    assert result.train_metrics_clientapp[1]["fediac-members"] == 4


def test_code_that_the_server_names_is_not_imported_by_a_client() -> None:
    algorithm = "examples.own_compressor:RandomK"
    assert refusal(CompressMod(), algorithm) == (
        f"node 1 refuses: algorithm '{algorithm}' of the server is code, which a "
        f"client must name itself: CompressMod('{algorithm}')"
    )


def test_a_server_of_another_version_is_refused_with_both(monkeypatch: Any) -> None:
    monkeypatch.setattr(server_messages, "VERSION", 0)
    assert refusal(CompressMod()) == (
        "node 1 refuses: the server speaks version 0 of fediac.flower's messages, this "
        "client version 2: install the same fediac on both"
    )


def test_a_client_of_another_version_is_refused_with_both(monkeypatch: Any) -> None:
    monkeypatch.setattr(mod_module, "VERSION", 0)
    assert refusal(CompressMod()) == (
        "node 1 speaks version 0 of fediac.flower's messages, the server version 2: "
        "install the same fediac on both"
    )


def test_a_client_without_the_mod_is_named() -> Any:
    def no_mod(message: Any, context: Any, call_next: Any) -> Any:
        return call_next(message, context)

    assert refusal(no_mod) == (
        "node 1 replies without fediac.flower: its ClientApp must have compress_mod "
        "among its mods"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"treshold": 3},
            "fediac has no setting 'treshold'; did you mean 'threshold'?",
        ),
        ({"preset": "leen"}, "fediac has no preset 'leen'; did you mean 'lean'?"),
        ({"algorithm": "fediak"}, "unknown algorithm 'fediak'; did you mean 'fediac'?"),
    ],
)
def test_unknown_settings_are_refused_with_the_nearest(
    settings: Any, message: Any
) -> None:
    with pytest.raises(ConfigError) as caught:
        CompressedStrategy(FedAvg(), **settings)
    assert str(caught.value) == message


def test_settings_come_from_an_apps_config() -> None:
    config = {"lr": 0.1, "fediac.algorithm": "topk", "fediac.n_sent": "2%"}
    strategy = CompressedStrategy.from_config(FedAvg(), config)
    grid = LocalGrid(make_app())
    result = strategy.start(grid, record_of(start()), num_rounds=1)
    assert result.train_metrics_clientapp[1]["fediac-chosen"] == 13


def run(code: Any) -> Any:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_without_flwr_the_error_says_what_to_install() -> None:
    done = run(
        """
        import sys
        sys.modules["flwr"] = None
        import importlib.util
        importlib.util.find_spec = lambda name, package=None: None
        import fediac.flower
        """
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: fediac.flower needs flwr, which is not installed: "
        "pip install 'fediac[flower]'"
    )


def test_a_version_of_flwr_that_was_not_tried_is_named() -> None:
    done = run(
        """
        import importlib.metadata as metadata
        own = metadata.version
        metadata.version = lambda name: "1.77.0" if name == "flwr" else own(name)
        import fediac.flower
        """
    )
    assert done.returncode == 0
    expected = "fediac.flower was tried with flwr 1.41 and 1.42, not with 1.77.0"
    assert expected in done.stderr
