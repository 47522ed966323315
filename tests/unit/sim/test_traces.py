"""Traces: files in, rates out, and one clear line for what is no trace."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import pytest

from fediac.errors import TraceError
from fediac.sim import load_trace, paper_uplinks, shipped_traces
from tests.support import refuses


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_mahimahi_lines_are_counted_by_second(tmp_path: Path) -> None:
    path = write(tmp_path / "some.up", "0\n0\n999\n1000\n3500\n\n")
    assert load_trace(path).per_second.tolist() == [3.0, 1.0, 1000 / 1500]


@pytest.mark.parametrize(
    ("times", "rates"),
    [
        ([1], [1000.0]),
        (range(1, 101), [1000.0]),
        (range(1, 3001), [999.0, 1000.0, 1001.0]),
        (range(1, 2501), [999.0, 1501 * 1000 / 1500]),
        ([0, 1000], [2.0]),
    ],
)
def test_a_mahimahi_trace_starts_again_after_its_last_line(
    tmp_path: Path, times: Sequence[int], rates: list[float]
) -> None:
    text = "".join(f"{time}\n" for time in times)
    assert load_trace(write(tmp_path / "some.up", text)).per_second.tolist() == rates


@pytest.mark.parametrize("header", ["", "packets_s\n", "Packets_S\n"])
def test_a_csv_file_holds_packets_a_second(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "rates.csv", header + "200\n0\n 2.5 \n\n1e3\n")
    assert load_trace(path).per_second.tolist() == [200.0, 0.0, 2.5, 1000.0]


def test_a_csv_file_may_hold_mbit_a_second(tmp_path: Path) -> None:
    path = write(tmp_path / "rates.csv", "mbit_s\n12\n6\n")
    assert load_trace(path).per_second.tolist() == pytest.approx([1000.0, 500.0])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.up", "", "file is empty"),
        ("a.csv", " \n\n", "file is empty"),
        ("a.up", "5\n4\n", "line 2: times must not decrease, got 4 after 5"),
        ("a.up", "5\n-4\n", "line 2: time must be whole milliseconds, got '-4'"),
        ("a.up", "1.5\n", "line 1: time must be whole milliseconds, got '1.5'"),
        (
            "a.up",
            "99999999999\n",
            "times must be below 10000000 s, got 99999999999 ms at the end",
        ),
        ("a.csv", "3\n-4\n", "line 2: rate must be finite and at least 0, got -4"),
        (
            "a.csv",
            "mbit_s\n3\nnan\n",
            "line 3: rate must be finite and at least 0, got nan",
        ),
        ("a.csv", "inf\n", "line 1: rate must be finite and at least 0, got inf"),
        (
            "a.csv",
            "kbit\n3\n",
            "line 1: rate must be a number (a header packets_s or mbit_s), got 'kbit'",
        ),
        ("a.csv", "0\n0.0\n", "rates must not all be 0: nothing would ever be sent"),
        ("a.csv", "mbit_s\n", "rates must be a list of at least 1 number"),
    ],
)
def test_what_is_no_trace_is_refused(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = write(tmp_path / name, text)
    with refuses(f"{path}: {message}", TraceError):
        load_trace(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.up: no such file or directory$"):
        load_trace(tmp_path / "none.up")
    (tmp_path / "bytes.up").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match=r"bytes\.up: not a text file$"):
        load_trace(tmp_path / "bytes.up")


def test_shipped_traces_are_those_of_subways_and_buses() -> None:
    traces = shipped_traces()
    assert len(traces) == 14
    assert all(name.startswith(("Subway", "Bus")) for name in traces)
    # Read off the recordings: mean packets a second, length in seconds.
    assert traces["SubwayDTrain_d1"].mean == pytest.approx(968.4, abs=0.05)
    assert traces["SubwayDTrain_d1"].n_seconds == 2999


def test_shipped_traces_come_with_their_attribution() -> None:
    text = (resources.files("fediac.sim") / "data" / "ATTRIBUTION.md").read_text()
    for words in ("NYU-METS", "ODbL", "DbCL", "Mei", "PAM 2019"):
        assert words in text


def test_the_papers_uplinks_stay_between_200_and_2800_packets_a_second() -> None:
    uplinks = paper_uplinks(20, seed=1)
    for uplink in uplinks:
        assert uplink.rates.per_second.min() >= 200.0
        assert uplink.rates.per_second.max() <= 2800.0
    assert uplinks[0].rates.n_seconds == uplinks[14].rates.n_seconds
