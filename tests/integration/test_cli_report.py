"""The report command as a user runs it."""

import csv
from pathlib import Path

import pytest

from tests.integration.command import Command, Result
from tests.runs import read_rounds, write_comparison, write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return write_comparison(tmp_path / "runs", ["fediac", "libra", "topk"])


def test_page_is_written_where_it_was_asked_for(
    fediac: Command, runs: Path, tmp_path: Path
) -> None:
    path = tmp_path / "comparison.html"
    result = fediac("report", runs, "-o", path)
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith(f"{path}: 3 runs, ")
    assert path.read_text().startswith("<!doctype html>\n<html")


def test_page_is_report_html_unless_told_otherwise(
    fediac: Command, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fediac("report", runs / "fediac").code == 0
    assert fediac("report", runs, "--format", "csv").code == 0
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    with (tmp_path / "report.csv").open(newline="") as lines:
        assert {line["run"] for line in csv.DictReader(lines)} == {
            "fediac",
            "libra",
            "topk",
        }


def test_format_follows_the_files_name(
    fediac: Command, runs: Path, tmp_path: Path
) -> None:
    path = tmp_path / "report.md"
    assert fediac("report", runs, "-o", path).code == 0
    assert path.read_text().startswith("# 3 algorithms: made-up, test-cnn\n")


def test_dash_writes_to_standard_output(fediac: Command, runs: Path) -> None:
    result = fediac("report", runs, "--format", "md", "-o", "-", "--target", "60%")
    assert (result.code, result.err) == (0, "")
    assert "\n## Traffic and simulated time to 60 % accuracy\n" in result.out


def test_notes_are_told_on_standard_error(fediac: Command, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "half", "libra", n_rounds=3, has_summary=False)
    result = fediac("report", folder, "-o", tmp_path / "r.html")
    assert result.code == 0
    assert result.err.splitlines()[1] == (
        "note: libra: no summary.json: it is still running or was interrupted; what "
        "it finished is shown: 3 rounds."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nowhere: no such folder"),
        (
            ("runs", "--target", "63"),
            '--target must be above 0 and at most 1, or a share such as "95%", got '
            "'63'",
        ),
        (
            ("runs", "-o", "no/such/report.html"),
            "no/such/report.html: cannot be written (No such file or directory)",
        ),
        (("runs", "-o", "runs"), "runs: cannot be written (Is a directory)"),
        (
            ("runs", "-o", "page.pdf"),
            "page.pdf: a report must end in .html or .md or .csv; or say which with "
            "--format",
        ),
    ],
)
@pytest.mark.usefixtures("runs")
def test_mistakes_are_one_line_and_exit_code_2(
    fediac: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = fediac("report", *arguments)
    assert (result.code, result.out, result.err) == (2, "", f"error: {message}\n")


def test_damaged_line_is_named(fediac: Command, runs: Path) -> None:
    path = runs / "libra" / "rounds.jsonl"
    lines = path.read_text().splitlines()
    lines[4] = lines[4][:-20]
    path.write_text("\n".join(lines) + "\n")
    result = fediac("report", runs, "-o", "-")
    assert result.code == 2
    assert result.err.startswith(f"error: {path}:5: not JSON (")
    assert result.err.count("\n") == 1


def test_json_has_the_reports_numbers_and_says_where_it_is(
    fediac: Command, runs: Path, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    document = fediac.json("report", runs, "-o", path)
    assert path.exists()
    assert document["output"] == str(path)
    assert document["notes"] == []
    assert document["target"]["accuracy"] == 0.63
    least, *_ = document["verdicts"]
    assert (least["title"], least["label"]) == ("Least traffic to 63 %", "fediac")
    ours, libra, topk = document["runs"]
    hit = next(r for r in read_rounds(runs / "fediac") if r["accuracy"] >= 0.63)
    assert ours["at_target"]["payload_mib"]["mean"] == hit["payload_mib"]
    assert ours["at_target"]["time_s"]["slow"]["high"] == hit["time_s"]["slow"]
    assert ours["at_target"]["rounds"]["low"] == hit["round"]
    spent = libra["at_target"]["payload_mib"]["mean"]
    assert least["than"] == [
        {
            "label": "libra",
            "algorithm": "libra",
            "saving": 1.0 - hit["payload_mib"] / spent,
        }
    ]
    assert topk["at_target"]["reached"] is False
    assert topk["at_target"]["payload_mib"] is None
    last = read_rounds(runs / "topk")[-1]
    assert topk["end"]["accuracy"]["mean"] == last["accuracy"]
    assert topk["folders"] == [(runs / "topk").as_posix()]


def test_json_has_seeds_and_their_range(fediac: Command, tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / f"seed{seed}", "libra", seed=seed, n_rounds=10 + seed)
    document = fediac.json("report", tmp_path, "-o", tmp_path / "page.html")
    (run,) = document["runs"]
    assert run["seeds"] == [1, 2]
    assert run["end"]["rounds"] == {"mean": 11.5, "low": 11, "high": 12}
    assert run["at_target"]["seeds_reached"] == []
    assert document["verdicts"] == []


def test_json_and_the_report_cannot_both_be_standard_output(
    fediac: Command, runs: Path
) -> None:
    result = fediac("report", runs, "-o", "-", "--json")
    message = "--json says where the report is: give -o a file, not -"
    assert result == Result(2, "", f"error: {message}\n")


@pytest.mark.parametrize("name", ["rounds.jsonl", "config.toml", "summary.json"])
def test_a_report_never_takes_the_place_of_a_runs_file(
    fediac: Command, runs: Path, name: str
) -> None:
    path = runs / "fediac" / name
    before = path.read_bytes() if path.exists() else None
    result = fediac("report", runs, "--format", "csv", "-o", path)
    assert result.code == 2
    message = "a report must not take the name of a run's file"
    assert result.err == f"error: {path}: {message}\n"
    assert (path.read_bytes() if path.exists() else None) == before
