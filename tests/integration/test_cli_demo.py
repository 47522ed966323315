"""list, round, bench, doctor and demo as a user runs them."""

import json
import subprocess
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest

from fediac.api import demo
from fediac.api.demo import demo_runs, demo_settings
from fediac.compressors import CATALOG, FediAC
from fediac.runs.settings import ClientSettings, RunSettings, TrainSettings
from fediac.runs.settings.algorithm_tables import table_type
from tests.integration.command import Command, Result

KEYS = {each.name for each in fields(table_type(FediAC))}

SMALL = ("--dim", "20_000", "--clients", "4")


def test_list_names_every_algorithm_with_one_line(fediac: Command) -> None:
    result = fediac("list")
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines] == [*CATALOG, "module:name"]
    assert all(len(line.split()) > 3 for line in lines)


def test_list_as_json_has_names_and_summaries(fediac: Command) -> None:
    algorithms = fediac.json("list")["algorithms"]
    assert [each["name"] for each in algorithms] == list(CATALOG)


def test_round_shows_every_algorithm_and_a_conclusion(fediac: Command) -> None:
    result = fediac("round", *SMALL)
    assert result.code == 0
    assert all(name in result.out for name in CATALOG)
    assert "times less than SwitchML" in result.out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--dim=1", "--clients=1024"], "times more than SwitchML ("),
        (["--dim=1"], "in this round, as much as SwitchML. What"),
    ],
)
def test_the_conclusion_is_what_the_table_says(
    fediac: Command, options: list[str], text: str
) -> None:
    assert text in " ".join(fediac("round", *options).out.split())


def test_round_bills_the_closed_forms(fediac: Command) -> None:
    document = fediac.json("round", *SMALL)
    rows = {row["algorithm"]: row for row in document["rows"]}
    dim, n_clients = 20_000, 4
    assert rows["fedavg"]["upload_bytes"] == n_clients * dim * 4
    assert rows["switchml"]["upload_bytes"] == n_clients * dim * 12 / 8
    assert rows["switchml"]["download_bytes"] == n_clients * dim * 12 / 8
    assert rows["topk"]["upload_bytes"] == n_clients * 200 * 8
    fediac_row = rows["fediac"]
    levels = fediac_row["chosen"] * fediac_row["bits"]
    assert fediac_row["upload_bytes"] == n_clients * (dim + levels) / 8


def test_round_errors_are_ordered_by_what_is_sent(fediac: Command) -> None:
    rows = {r["algorithm"]: r for r in fediac.json("round", *SMALL)["rows"]}
    assert rows["fedavg"]["relative_error"] < 1e-6
    assert rows["switchml"]["relative_error"] < rows["fediac"]["relative_error"] < 1.0


def test_round_takes_the_algorithms_that_are_named(fediac: Command) -> None:
    names = "topk,examples.own_compressor:RandomK"
    result = fediac("round", *SMALL, "--algorithms", names)
    assert result.code == 0
    assert "RandomK" in result.out
    assert "fediac" not in result.out.lower()
    rows = fediac.json("round", *SMALL, "--algorithms", names)["rows"]
    assert [row["algorithm"] for row in rows] == names.split(",")
    # A twentieth of the entries in lanes of 12 bits, and no index.
    blind = rows[1]
    assert blind["chosen"] == pytest.approx(1000, rel=0.2)
    assert blind["upload_bytes"] == 4 * blind["chosen"] * 12 / 8


def test_round_refuses_algorithms_that_are_not_there(fediac: Command) -> None:
    result = fediac("round", *SMALL, "--algorithms", "fediak")
    message = "unknown algorithm 'fediak'; did you mean 'fediac'?"
    assert result == Result(2, "", f"error: {message}\n")


def test_a_round_that_fails_does_not_keep_others_from_being_shown(
    fediac: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_rounds.py").write_text(
        """
import sys
from dataclasses import dataclass, replace
from fediac import SwitchML
from fediac.core.mean import Mean

@dataclass
class Base:
    n_clients: int

    def inner(self, update, state, stream, out):
        return SwitchML(self.n_clients).run_round(update, state, stream, out=out)

class Exits(Base):
    def run_round(self, update, state, stream, *, out=None):
        yield from ()
        sys.exit(3)

class Silent(Base):
    def run_round(self, update, state, stream, *, out=None):
        yield from self.inner(update, state, stream, out)

class Wild(Base):
    def run_round(self, update, state, stream, *, out=None):
        outcome = yield from self.inner(update, state, stream, out)
        return replace(outcome, mean=Mean((self,)))

    def write(self, out):
        out[:7] = float("nan")
"""
    )
    monkeypatch.chdir(tmp_path)
    failing = "failing_rounds:Exits,failing_rounds:Silent,failing_rounds:Wild"
    names = ("--algorithms", f"{failing},switchml")
    result = fediac("round", *SMALL, *names)
    assert result.code == 1
    assert "switchml" in result.out
    why = {
        "Exits": "algorithm 'failing_rounds:Exits' failed: SystemExit: 3 "
        "(failing_rounds.py, line 17)",
        "Silent": "run_round must return an Outcome, got NoneType",
        "Wild": "algorithm 'failing_rounds:Wild' must return a finite mean, got 7 "
        "entries that are not",
    }
    for name, each in why.items():
        assert f"failed: {name}: {each}\n" in result.out
    document = fediac("round", *SMALL, *names, "--json")
    assert document.code == 1
    failed = json.loads(document.out)["failed"]
    assert failed == {f"failing_rounds:{name}": each for name, each in why.items()}


def test_a_round_takes_as_long_as_simulated_without_its_updates(
    fediac: Command,
) -> None:
    # A dense round's packets do not depend on what is in the updates.
    rows = fediac.json("round", *SMALL, "--algorithms", "switchml,fedavg")["rows"]
    for row in rows:
        setting = ("--algorithm", row["algorithm"], "--compute", "0", *SMALL)
        (expected,) = fediac.json("simulate", *setting)["rounds"]
        assert row["round_s"] == expected["round_s"]


def test_bench_prints_a_ratio_for_every_kernel(fediac: Command) -> None:
    document = fediac.json("bench", "--dim", "50_000")
    assert document["memcpy_ns_per_entry"] > 0
    assert document["kernels"]
    for kernel in document["kernels"]:
        ratio = kernel["ns_per_entry"] / document["memcpy_ns_per_entry"]
        assert kernel["ratio_to_memcpy"] == pytest.approx(ratio)


def test_doctor_names_the_kernels_and_torch(fediac: Command) -> None:
    document = fediac.json("doctor")
    names = {finding["name"] for finding in document["findings"]}
    assert {"native kernels", "torch", "CUDA", "chromium"} <= names
    assert "brings" in fediac("doctor").out


def small_demo(n_rounds: int) -> RunSettings:
    """The demo's settings, but a few steps of a few clients."""
    return replace(
        demo_settings(n_rounds),
        clients=ClientSettings(n_clients=4),
        train=TrainSettings(steps=2, device="cpu"),
    )


def test_demo_ends_with_a_report_a_summary_and_a_conclusion(
    fediac: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "demo_settings", small_demo)
    folder = tmp_path / "demo"
    result = fediac("demo", "--rounds", "1", "--out", folder)
    assert result.code == 0
    assert "No algorithm reached 90 % in these rounds." in result.out
    summary = json.loads((folder / "summary.json").read_text())
    expected = ["fediac", "fediac-lean", *list(CATALOG)[1:]]
    assert [each["algorithm"] for each in summary["algorithms"]] == expected
    for each in summary["algorithms"]:
        names = {"accuracy", "rounds", "time_s", "payload_mib", "target"}
        assert names <= set(each)
    page = (folder / "report.html").read_text()
    assert "<svg" in page
    assert all(f'<th scope="row">{name}</th>' in page for name in expected)


def test_the_demos_lean_run_is_the_preset() -> None:
    runs = demo_runs(demo_settings(3))
    table = runs["fediac-lean"].of("fediac")
    assert asdict(table) == {
        key: value for key, value in asdict(FediAC.lean(20)).items() if key in KEYS
    }
    others = {each for name, each in runs.items() if name != "fediac-lean"}
    assert {each.of("fediac") for each in others} == {table_type(FediAC)()}


def test_demo_leaves_a_folder_alone_that_is_not_its_own(
    fediac: Command, tmp_path: Path
) -> None:
    (tmp_path / "thesis").mkdir()
    result = fediac("demo", "--out", tmp_path)
    message = "contains something that is not a demo's; give another --out"
    assert result == Result(2, "", f"error: {tmp_path}: {message}\n")
    assert (tmp_path / "thesis").exists()


def test_demo_leaves_a_comparison_alone(fediac: Command, tmp_path: Path) -> None:
    """Which has folders of the same names."""
    (tmp_path / "summary.json").write_text("{}")
    (tmp_path / "fediac").mkdir()
    assert fediac("demo", "--out", tmp_path).code == 2
    assert (tmp_path / "fediac").exists()


def test_a_demo_makes_its_own_folder_anew(
    fediac: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "demo_settings", small_demo)
    for rounds in ("2", "1"):
        assert fediac("demo", "--rounds", rounds, "--out", tmp_path / "demo").code == 0
    lines = (tmp_path / "demo" / "fediac" / "rounds.jsonl").read_text().splitlines()
    assert len(lines) == 1


def test_a_demo_may_be_made_where_one_stands(
    fediac: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "demo_settings", small_demo)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert fediac("demo", "--rounds", "1", "--out", ".").code == 0
    assert (tmp_path / "report.html").exists()


def test_installed_command_starts() -> None:
    code = "from fediac.cli import main; main(['list'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "fediac" in done.stdout
