"""The report as Markdown and as CSV."""

import csv
import io
from pathlib import Path

import pytest

from fediac.report.contenders import list_contenders
from fediac.report.csv_file import _flatten, render_csv
from fediac.report.markdown import render_markdown, write_table
from fediac.report.page import Report
from fediac.report.reading import read_runs
from fediac.report.summary import summarize
from fediac.report.target import choose_target
from fediac.runs.stored import Run
from tests.runs import read_rounds, write_comparison, write_run


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return read_runs([write_comparison(tmp_path)])[0]


def _markdown(runs: list[Run]) -> str:
    return render_markdown(Report(runs, choose_target(runs, None), [], "1.2.3"))


def test_markdown_has_the_summary_and_whole_tables(runs: list[Run]) -> None:
    text = _markdown(runs)
    words = summarize(list_contenders(runs), choose_target(runs, None))
    assert " ".join(words) in text
    lines = text.splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) > 40
    for index, line in enumerate(lines):
        if line.startswith("| ---"):
            width = line.count("|")
            assert lines[index - 1].count("|") == width
            assert lines[index + 1].count("|") == width
    assert "## Bytes by phase" in text
    assert "## Settings all runs share" in text


def test_markdown_escapes_names(tmp_path: Path) -> None:
    for name in ("a|b", "*c*"):
        write_run(tmp_path / name, "fediac", n_rounds=2)
    text = _markdown(read_runs([tmp_path])[0])
    assert "| a\\|b |" in text
    assert "\\*c\\*" in text


def test_csv_numbers_are_those_of_rounds_jsonl(runs: list[Run]) -> None:
    lines = list(csv.DictReader(io.StringIO(render_csv(runs))))
    rounds = [(run, each) for run in runs for each in read_rounds(run.folder)]
    assert len(lines) == len(rounds)
    for line, (run, each) in zip(lines, rounds, strict=True):
        assert (line["run"], line["algorithm"]) == (run.label, run.algorithm)
        assert int(line["round"]) == each["round"]
        assert float(line["accuracy"]) == each["accuracy"]
        assert float(line["time_s.slow"]) == each["time_s"]["slow"]
        assert float(line["payload_mib"]) == each["payload_mib"]
        phases = each["timing"]["fast"]["phases"]
        for name in {phase["name"] for phase in phases}:
            times = [phase["upload_s"] for phase in phases if phase["name"] == name]
            assert float(line[f"timing.fast.{name}.upload_s"]) == sum(times)
        finish = [float(part) for part in line["timing.fast.finish_s"].split()]
        assert finish == each["timing"]["fast"]["finish_s"]


def test_csv_adds_up_phases_of_one_name() -> None:
    phases = ({"name": "statistics", "upload_s": 0.25},) * 2
    record = {"timing": {"fast": {"phases": phases}}}
    assert _flatten(record) == {"timing.fast.statistics.upload_s": 0.5}


def test_csv_leaves_fields_empty_that_a_run_lacks(runs: list[Run]) -> None:
    lines = list(csv.DictReader(io.StringIO(render_csv(runs))))
    by_run = {line["run"]: line for line in lines}
    assert by_run["fedavg"]["traffic.wire.up.votes"] == ""
    assert by_run["fediac"]["traffic.wire.up.votes"] != ""


def test_columns_of_numbers_are_set_to_the_right() -> None:
    rows = [("a", "1"), ("b", "20")]
    lines = "| --- | ---: |\n| a | 1 |\n| b | 20 |"
    assert write_table(("x", "y"), rows, words=(0,)) == f"| x | y |\n{lines}"
    assert write_table(("x", "y"), []) == "| x | y |\n| --- | --- |"
