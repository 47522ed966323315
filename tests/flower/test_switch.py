"""Rounds over a running switch, with Flower as the control plane."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from flwr.serverapp.strategy import FedAvg

import fediac
from fediac.errors import ArgumentError, ConfigError, SessionError
from fediac.flower import CompressedStrategy, over_switch
from fediac.wire.tag import session_key
from tests.flower.apps import N_CLIENTS, SEED, in_memory, make_app, record_of, start
from tests.flower.local_grid import LocalGrid
from tests.flower.test_rounds import FEDIAC, asks, require_same, round_of
from tests.switches import KEY, RunningSwitch, running_switch


@pytest.fixture
def switch() -> Iterator[RunningSwitch]:
    with running_switch() as running:
        yield running


def run(
    address: str, grid: LocalGrid, algorithm: str = "fediac", **settings: Any
) -> Any:
    grid.is_threaded = True
    strategy = CompressedStrategy(
        FedAvg(fraction_evaluate=0.0), algorithm, seed=SEED, switch=address, **settings
    )
    return strategy.start(grid, record_of(start()), num_rounds=2, timeout=20)


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("fediac", FEDIAC), ("switchml", {}), ("omnireduce", {})],
)
def test_rounds_over_the_switch_are_those_in_memory(
    switch: RunningSwitch, algorithm: str, settings: dict[str, Any]
) -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    result = run(str(switch.endpoint), grid, algorithm, **settings)
    model, _, history = in_memory(algorithm, settings, 2)
    require_same(result.arrays, model)
    for number, each in enumerate(history, start=1):
        metrics = result.train_metrics_clientapp[number]
        assert metrics["fediac-over-switch"] == 1
        assert metrics["fediac-gamma"] == pytest.approx(each.facts.gamma, abs=1e-12)
        assert metrics["fediac-bytes-up"] > 0
    assert {asks(each) for each in grid.sent} == {"train", "switch", "settle"}


def test_without_a_switch_rounds_go_over_messages_and_say_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with running_switch() as gone:
        address = str(gone.endpoint)
        gone.stop()
    monkeypatch.setattr(over_switch, "_PATIENCE_S", 0.2)
    result = run(address, LocalGrid(make_app(), N_CLIENTS), **FEDIAC)
    model, _, _ = in_memory("fediac", FEDIAC, 2)
    require_same(result.arrays, model)
    assert result.train_metrics_clientapp[1]["fediac-over-switch"] == 0
    assert "fediac: round 1 goes over Flower's messages" in caplog.text


def test_a_node_that_dies_in_the_session_does_not_stop_the_others(
    switch: RunningSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(node: int, message: Message) -> str | None:
        is_it = (asks(message), round_of(message), node) == ("switch", 2, 3)
        return "lost" if is_it else None

    monkeypatch.setattr(over_switch, "_SILENCE_S", 1.0)
    monkeypatch.setattr("fediac.flower.server._ROAD_FAILED_S", 0.1)
    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    result = run(str(switch.endpoint), grid, **FEDIAC)
    model, _, _ = in_memory("fediac", FEDIAC, 2, [(2, 2)])
    require_same(result.arrays, model)
    metrics = result.train_metrics_clientapp[2]
    assert (metrics["fediac-members"], metrics["fediac-over-switch"]) == (3, 1)


def test_who_is_too_slow_for_the_switch_takes_part_by_messages_if_needed(
    switch: RunningSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(node: int, message: Message) -> str | None:
        return "lost" if asks(message) == "switch" and node > 2 else None

    monkeypatch.setattr(over_switch, "_SILENCE_S", 1.0)
    monkeypatch.setattr("fediac.flower.server._ROAD_FAILED_S", 0.1)
    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    result = run(str(switch.endpoint), grid, enough=3, **FEDIAC)
    model, _, _ = in_memory("fediac", FEDIAC, 2)
    require_same(result.arrays, model)
    metrics = result.train_metrics_clientapp[2]
    assert (metrics["fediac-members"], metrics["fediac-over-switch"]) == (N_CLIENTS, 0)


def test_floats_go_to_the_server_app_and_not_over_the_switch(
    switch: RunningSwitch, caplog: pytest.LogCaptureFixture
) -> None:
    result = run(str(switch.endpoint), LocalGrid(make_app(), N_CLIENTS), "topk")
    model, _, _ = in_memory("topk", {}, 2)
    require_same(result.arrays, model)
    assert result.train_metrics_clientapp[1]["fediac-over-switch"] == 0
    assert caplog.text.count("topk sends floats to a far server") == 1


@pytest.mark.parametrize(
    ("address", "key_over"),
    [("127.0.0.1:4900", ""), ("[::1]:4900", ""), ("10.1.2.3:4900", "tls")],
)
def test_clients_are_told_the_session_s_key_and_not_the_job_s(
    monkeypatch: pytest.MonkeyPatch, address: str, key_over: str
) -> None:
    settings = over_switch.RoadSettings(address, key_over=key_over)
    own = session_key(KEY, 5)
    assert "key" not in over_switch.Road(settings, job=1).told(own)
    monkeypatch.setenv("FEDIAC_KEY", KEY.hex())
    assert over_switch.Road(settings, job=1).told(own)["key"] == own


def test_a_key_is_told_over_tls_or_on_the_loopback_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    monkeypatch.setenv("FEDIAC_KEY", KEY.hex())
    with pytest.raises(ConfigError) as caught:
        run("10.1.2.3:4900", grid, **FEDIAC)
    assert str(caught.value) == (
        "switch 10.1.2.3:4900 has a key, and clients are told a key for each session "
        "over Flower's connections: these must be TLS, and key_over must say so with "
        "'tls'"
    )
    assert not grid.sent  # before anybody was asked or told anything


def test_members_cannot_open_or_close_sessions_with_what_they_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def fault(_node: int, message: Message) -> str | None:
        values = message.content.config_records["fediac"]
        if values["ask"] == "switch":
            told.append(dict(values))
        assert KEY.hex() not in str(values)
        assert KEY not in values.values()
        return None

    path = tmp_path / "switch.key"
    path.write_text(KEY.hex())
    path.chmod(0o600)
    monkeypatch.setenv("FEDIAC_KEY", KEY.hex())
    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    with running_switch("--key-file", str(path)) as switch:
        result = run(str(switch.endpoint), grid, **FEDIAC)
        key, job = told[-1]["key"], told[-1]["job"]
        with (
            fediac.Coordinator(told[-1]["switch"], job=job, key=key) as coordinator,
            pytest.raises(SessionError) as caught,
        ):
            coordinator.open(N_CLIENTS)
    assert "the switch has another key for this job" in str(caught.value)
    model, _, _ = in_memory("fediac", FEDIAC, 2)
    require_same(result.arrays, model)
    assert result.train_metrics_clientapp[2]["fediac-over-switch"] == 1
    assert len({each["key"] for each in told}) == 2  # one for each session


def test_another_word_for_tls_is_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        CompressedStrategy(FedAvg(), switch="10.1.2.3:4900", key_over="yes")
    assert str(caught.value) == (
        "key_over must be 'tls', if Flower's connections are, or empty, got 'yes'"
    )


def test_clients_that_cannot_reach_the_switch_take_part_by_messages(
    switch: RunningSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise SessionError("no answer from the switch")

    monkeypatch.setattr("fediac.flower.mod.SwitchClient", unreachable)
    monkeypatch.setattr(over_switch, "_SILENCE_S", 1.0)
    result = run(str(switch.endpoint), LocalGrid(make_app(), N_CLIENTS), **FEDIAC)
    model, _, _ = in_memory("fediac", FEDIAC, 2)
    require_same(result.arrays, model)
    metrics = result.train_metrics_clientapp[2]
    assert (metrics["fediac-members"], metrics["fediac-over-switch"]) == (N_CLIENTS, 0)
