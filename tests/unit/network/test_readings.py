import io
import json
from pathlib import Path

import pytest

from fediac.network.metrics import metrics_of
from fediac.network.readings import Reading, read_plane, read_report
from fediac.network.switch_command import Speaker
from fediac.switch.control import ControlPlane, Limits
from fediac.switch.counters import REASONS
from fediac.switch.keys import Keyring
from fediac.wire.status import N_REASONS, Report

READING = Reading(
    uptime_s=61.0,
    packets_in=2_000_000,
    packets_out=2_000_100,
    packets_per_s=123_456.7,
    unsent=1,
    n_jobs=2,
    max_jobs=4,
    n_members=18,
    register_bytes=1 << 20,
    used_bytes=1 << 18,
    drops={"tag": 3, "stale": 1000},
    overrun=5,
)


def test_a_reading_is_a_line() -> None:
    assert READING.line() == (
        "123,457 packets/s, 2 of 4 jobs, 0.2500 of 1.000 MiB of registers, 1 not sent, "
        "5 found the receive buffer full, dropped: stale 1,000, tag 3"
    )


def test_a_live_line_is_no_longer_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = []
    for columns in (40, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        terminal = Terminal()
        Speaker(terminal, as_json=False).show(READING)
        shown.append(terminal.getvalue().removeprefix("\r\x1b[2K"))
    assert shown == ["123,457 packets/s, 2 of 4 jobs, 0.2500…", READING.line()]
    assert len(shown[0]) == 39


def test_a_rate_is_that_since_the_last_reading() -> None:
    plane = ControlPlane(Limits(register_bytes=1 << 16), Keyring(), bytes(16))
    plane.traffic.started_us = 5_000_000
    first = read_plane(plane, 5_000_000, None)
    assert (first.uptime_s, first.packets_per_s) == (0.0, 0.0)
    plane.traffic.packets_in = 300
    second = read_plane(plane, 7_000_000, first)
    assert (second.uptime_s, second.packets_per_s) == (2.0, 150.0)
    plane.traffic.packets_in = 400
    assert read_plane(plane, 7_500_000, second).packets_per_s == 200.0


def test_a_report_is_read_with_its_reasons() -> None:
    drops = (7, *[0] * (N_REASONS - 2), 9)
    reading = read_report(Report(1, 2000, 30, 40, 5, 6, 7, 8, 9, 10, drops))
    assert reading.drops == {"foreign": 7, "address": 9}
    assert (reading.uptime_s, reading.packets_per_s) == (2.0, 15.0)
    assert (reading.n_jobs, reading.max_jobs, reading.n_members) == (6, 7, 8)
    assert (reading.register_bytes, reading.used_bytes) == (9, 10)


def test_prometheus_gets_every_reason_even_those_that_never_occurred() -> None:
    kind, text = metrics_of(READING)
    lines = text.decode().splitlines()
    assert kind.startswith("text/plain")
    assert 'fediac_dropped_total{reason="tag"} 3.0' in lines
    assert 'fediac_dropped_total{reason="busy"} 0.0' in lines
    assert "fediac_packets_in_total 2e+06" in lines
    assert "fediac_overrun_total 5.0" in lines
    assert "fediac_used_register_bytes 262144.0" in lines


def test_a_reading_of_drops_is_json() -> None:
    plane = ControlPlane(Limits(register_bytes=1 << 16), Keyring(), bytes(16))
    plane.receive([(b"anybody", b"nothing")], 0)
    document = json.loads(json.dumps(read_plane(plane, 1, None).document()))
    assert document["drops"] == {"foreign": 1}


def test_the_guide_says_what_every_reason_and_metric_is() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "switch.md").read_text("utf-8")
    assert [each for each in REASONS if f"| `{each}` |" not in guide] == []
    shown = metrics_of(READING)[1].decode().splitlines()
    names = {line.split()[2] for line in shown if line.startswith("# TYPE")}
    assert [name for name in sorted(names) if f"`{name}" not in guide] == []
