import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fediac.errors import ConfigError, DatasetError, RunError
from fediac.paper import running, stored
from fediac.paper.arguments import make_request, parse_scope
from fediac.paper.command import Request, paper_command
from fediac.paper.plan import PlannedRun, Product, Scope, Until, make_plan
from fediac.paper.stored import put_away
from fediac.runs.stored import Run, read_run
from tests.support import refuses
from tests.unit.paper.test_stored import store


def ask(*what: str, out: Path, **changes: Any) -> Request:
    scope = changes.pop("scope", Scope())
    return make_request(list(what), scope, out=out, **changes)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Labels of the runs that would have been made; all of libra's fail."""
    labels: list[str] = []

    def run_plan(plan: list[PlannedRun], *_: Any) -> list[str]:
        labels.extend(run.label for run in plan)
        return [f"{run.label}: no" for run in plan if run.entrant.name == "libra"]

    monkeypatch.setattr(running, "run_plan", run_plan)
    return labels


def test_what_is_typed_becomes_a_request(tmp_path: Path) -> None:
    scope = parse_scope(
        ["digits", "digits"], "libra, fediac,", [1, 2, 3], is_quick=False
    )
    assert scope == Scope(("digits",), ("libra", "fediac"), (1, 2, 3))
    request = make_request(["table2", "table1", "table2"], scope, out=tmp_path)
    assert request.products == (Product.TABLE2, Product.TABLE1)
    assert make_request(["table1"], scope).out == Path("results")
    quick = parse_scope([], None, [1], is_quick=True)
    assert make_request(["table1"], quick).out == Path("runs/paper-quick")


def test_a_time_is_given_to_figures_in_place_of_the_papers() -> None:
    scope = parse_scope(["digits-iid"], None, [1], until_s=6.0)
    (run, *_) = make_plan([Product.FIG_SCALE], scope)
    assert run.untils == (Until(simulated_s=6.0),)
    for wrong in (0.0, -1.0, math.inf, math.nan):
        message = f"--until must be finite and above 0, got {wrong:g}"
        with refuses(message, ConfigError):
            parse_scope([], None, [1], until_s=wrong)


def test_a_time_is_refused_where_nothing_has_one() -> None:
    message = (
        "--until must be given with one of fig-accuracy, fig-noniid, fig-scale, got 30 "
        "with table1, sweeps"
    )
    with refuses(message, ConfigError):
        make_request(["table1", "sweeps"], Scope(until_s=30.0))
    quick = Scope(until_s=30.0, is_quick=True)
    assert make_request(["table1", "fig-noniid"], quick).scope == quick
    (run, *_) = make_plan([Product.FIG_NONIID], quick)
    assert run.untils == (Until(simulated_s=30.0),)


def test_an_unknown_product_is_refused() -> None:
    with refuses("unknown product 'sweep'; did you mean 'sweeps'?", ConfigError):
        make_request(["sweep"], Scope())


def test_scenarios_without_data_are_left_out_unless_they_are_named(
    tmp_path: Path, planned: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "unipen62_by_writer.npz").touch()
    store(tmp_path, "cifar10-iid", "switchml")
    scope = Scope(entrants=("fediac",))
    paper_command(ask("table1", out=tmp_path, data=data, scope=scope))
    assert planned == ["unipen62 fedavg seed 1", "unipen62 fediac seed 1"]
    *notes, lack = capsys.readouterr().err.splitlines()
    assert lack == "table1 lacks cifar10-iid fediac seed 1: not stored"
    assert len(notes) == 5
    assert notes[2] == (
        f"left out: femnist: needs {data / 'femnist' / 'train'}; give the folder that "
        "has it with --data"
    )
    paper_command(ask("table1", out=tmp_path, data=data, scope=scope, as_json=True))
    document = json.loads(capsys.readouterr().out)
    assert [f"left out: {each}" for each in document["left_out"]] == notes
    assert document["notes"] == [lack]
    named = ask("table1", out=tmp_path, data=data, scope=Scope(only=("femnist",)))
    with pytest.raises(DatasetError):
        paper_command(named)


def test_failed_runs_are_named_after_what_could_be_shown(
    tmp_path: Path, planned: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path, "digits", "fedavg")
    request = ask("table1", out=tmp_path, scope=Scope(is_quick=True), as_json=True)
    with pytest.raises(SystemExit) as caught:
        paper_command(request)
    assert caught.value.code == 1
    assert len(planned) == 6
    document = json.loads(capsys.readouterr().out)
    assert document["failed"] == ["digits libra seed 1: no"]
    assert document["left_out"] == []
    assert [row["algorithm"] for row in document["table1"]] == ["fedavg"]


@pytest.mark.usefixtures("planned")
def test_tables_are_of_everything_stored_and_show_what_was_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path, "cifar10-iid", "switchml", n_rounds=20)
    store(tmp_path, "cifar100-iid", "fediac", n_rounds=20)
    scope = Scope(only=("cifar100-iid",))
    paper_command(ask("table1", out=tmp_path, scope=scope, may_run=False, as_json=True))
    shown = json.loads(capsys.readouterr().out)["table1"]
    assert [row["scenario"] for row in shown] == ["cifar100-iid"]
    written = json.loads((tmp_path / "table1.json").read_text())
    assert [row["scenario"] for row in written] == ["cifar10-iid", "cifar100-iid"]
    names = {"runs", "table1.json", "table1.md"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_a_page_is_of_the_scenario_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path, "cifar10-iid", "switchml", n_rounds=20)
    store(tmp_path, "cifar100-iid", "fediac", n_rounds=20)
    scope = Scope(only=("cifar100-iid",))
    paper_command(ask("pages", out=tmp_path, scope=scope, may_run=False))
    page = tmp_path / "report-cifar100-iid.html"
    assert capsys.readouterr().out.split() == ["wrote", str(page)]
    assert "<svg" in page.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"runs", page.name}
    scope = Scope(only=("cifar100-noniid",))
    message = (
        f"{tmp_path}: holds no run that pages could show; its runs are of cifar10-iid, "
        "cifar100-iid (see --only)"
    )
    with refuses(message, RunError):
        paper_command(ask("pages", out=tmp_path, scope=scope, may_run=False))


def test_the_list_of_runs_is_of_everything_stored_and_runs_nothing(
    tmp_path: Path, planned: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path, "cifar10-iid", "switchml", n_rounds=20)
    paper_command(ask("runs", out=tmp_path, as_json=True))
    assert planned == []
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert (row["entrant"], row["rounds"]) == ("switchml", 20)
    assert "| cifar10-iid | switchml | 1 | 20 |" in (tmp_path / "runs.md").read_text()


def test_every_stored_run_is_read_once_where_nothing_may_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for entrant in ("switchml", "libra", "fediac"):
        store(tmp_path, "cifar10-iid", entrant)
    put_away(tmp_path, ("cifar10-iid", "libra", 1))
    read: list[str] = []

    def count_and_read(place: Any) -> Run | None:
        read.append(str(place))
        return read_run(place)

    monkeypatch.setattr(stored, "read_run", count_and_read)
    paper_command(ask("table1", "sweeps", "runs", out=tmp_path, may_run=False))
    assert len(read) == len(set(read)) == 3


@pytest.mark.parametrize(
    ("product", "entrant"),
    [
        ("table1", "libra"),
        ("table1", "libra-k0.1"),
        ("sweeps", "fedavg"),
        ("fig-scale", "fediac-n30-a5"),
    ],
)
def test_a_stored_run_with_other_settings_is_not_shown_beside_others(
    tmp_path: Path, product: str, entrant: str
) -> None:
    store(tmp_path, "cifar10-iid", "fediac")
    folder = store(tmp_path, "cifar10-iid", entrant)
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("batch_size = 50", "batch_size = 64"))
    request = ask(product, out=tmp_path, may_run=False)
    with refuses(
        f"{folder}: train.batch_size of the stored run is 64, that of scenario "
        "cifar10-iid is 50; move it away, or give another --out",
        RunError,
    ):
        paper_command(request)
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}


def test_what_could_not_be_shown_is_found_before_anything_runs(
    tmp_path: Path, planned: list[str]
) -> None:
    folder = store(tmp_path, "cifar10-iid", "libra")
    (folder / "rounds.jsonl").write_text("{}\n")
    request = ask("table1", out=tmp_path, scope=Scope(is_quick=True))
    with refuses(
        f"{folder / 'rounds.jsonl'}:1: object missing required field round", RunError
    ):
        paper_command(request)
    assert planned == []


def test_a_damaged_measurement_is_found_before_anything_is_written(
    tmp_path: Path,
) -> None:
    store(tmp_path, "digits", "fedavg")
    path = tmp_path / "theory" / "digits" / "seed1.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    request = ask("table1", "fig-theory", out=tmp_path, scope=Scope(is_quick=True))
    with pytest.raises(RunError, match=f"^{re.escape(str(path))}: "):
        paper_command(replace(request, may_run=False))
    assert {each.name for each in tmp_path.iterdir()} == {"runs", "theory"}


def test_a_folder_that_is_not_there_is_not_made_to_be_shown(tmp_path: Path) -> None:
    out = tmp_path / "results"
    with refuses(f"{out}: there is no such folder of results", RunError):
        paper_command(ask("table1", out=out, may_run=False))
    assert not out.exists()


def test_what_can_be_made_is_made_and_the_rest_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path, "cifar10-iid", "switchml", n_rounds=20)
    request = ask("table1", "fig-noniid", out=tmp_path, may_run=False)
    with pytest.raises(SystemExit) as caught:
        paper_command(request)
    assert caught.value.code == 1
    shown = capsys.readouterr().out
    assert "switchml" in shown
    why = (
        f"{tmp_path}: holds no run that fig-noniid could show; its runs are of "
        "cifar10-iid (see --only)"
    )
    assert shown.splitlines()[-1] == f"failed: fig-noniid: {why}"


def test_runs_that_failed_are_named_where_nothing_can_be_shown(
    tmp_path: Path, planned: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    request = ask("table1", out=tmp_path, scope=Scope(is_quick=True))
    with pytest.raises(SystemExit) as caught:
        paper_command(request)
    assert caught.value.code == 1
    assert len(planned) == 6
    assert capsys.readouterr().out.splitlines() == [
        "failed: digits libra seed 1: no",
        f"failed: table1: {tmp_path}: holds no run that table1 could show",
    ]


def test_data_are_needed_only_for_what_is_to_be_run(
    tmp_path: Path, planned: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path, "cifar10-iid", "switchml", n_rounds=100)
    scope = Scope(only=("cifar10-iid",), entrants=("switchml",))
    request = ask("table1", out=tmp_path, data=tmp_path / "none", scope=scope)
    paper_command(request)
    assert planned == ["cifar10-iid switchml seed 1"]
    paper_command(replace(request, is_dry=True))
    shown = capsys.readouterr()
    assert "missing" not in shown.out
    assert shown.err == ""


def test_a_request_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "results"
    scope = Scope(only=("cifar10-iid",))
    request = ask("table1", "fig-accuracy", out=out, data=tmp_path, scope=scope)
    with pytest.raises(DatasetError, match=r"^cifar10-iid: needs "):
        paper_command(request)
    assert not out.exists()


def test_what_was_written_before_survives_an_empty_request(tmp_path: Path) -> None:
    store(tmp_path, "cifar10-iid", "switchml", n_rounds=20)
    paper_command(ask("table1", "sweeps", out=tmp_path, may_run=False, as_json=True))
    before = (tmp_path / "table1.md").read_text()
    scope = Scope(only=("cifar100-iid",))
    for product in ("table1", "sweeps", "fig-accuracy"):
        request = ask(product, out=tmp_path, scope=scope, may_run=False)
        message = (
            f"{tmp_path}: holds no run that {product} could show; its runs are of "
            "cifar10-iid (see --only)"
        )
        with refuses(message, RunError):
            paper_command(request)
    assert (tmp_path / "table1.md").read_text() == before


def test_a_seed_without_a_target_is_said_to_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2):
        store(tmp_path, "digits-iid", "fediac", seed)
    store(tmp_path, "digits-iid", "fedavg", 2, n_rounds=20)
    scope = Scope(only=("digits-iid",), seeds=(2,), entrants=("fediac",))
    request = ask("table1", out=tmp_path, scope=scope, may_run=False)
    paper_command(request)
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        "left out: digits-iid seed 1, whose target is not known before fedavg has had "
        "20 rounds"
    ]
    assert "fediac" in told.out
    shutil.rmtree(tmp_path / "runs" / "digits-iid" / "fedavg")
    with pytest.raises(RunError, match="left out: digits-iid seed 1, whose target"):
        paper_command(request)


def test_a_figure_has_the_seeds_that_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, n_rounds in ((1, 4), (2, 2)):
        store(tmp_path, "cifar10-iid", "fediac", seed, n_rounds=n_rounds)
    for seeds, n_points in (((1,), 4), ((1, 2), 2)):
        scope = Scope(only=("cifar10-iid",), seeds=seeds)
        request = ask("fig-accuracy", out=tmp_path, scope=scope, may_run=False)
        paper_command(replace(request, as_json=True))
        row = json.loads(capsys.readouterr().out)["fig-accuracy"][0]
        assert row["seeds"] == list(seeds)
        assert len(row["points"]) == n_points


def test_a_figure_says_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path, "cifar10-iid", "fediac")
    scope = Scope(("cifar10-iid",), entrants=("fediac", "libra"))
    request = ask("fig-accuracy", out=tmp_path, scope=scope, may_run=False)
    paper_command(request)
    told = "fig-accuracy lacks cifar10-iid libra seed 1: not stored\n"
    assert capsys.readouterr().err == told
    paper_command(replace(request, scope=replace(scope, entrants=())))
    assert capsys.readouterr().err == (
        "fig-accuracy lacks cifar10-iid fediac-tuned seed 1, cifar10-iid switchml seed "
        "1, cifar10-iid libra seed 1, cifar10-iid omnireduce seed 1 and 1 more: not "
        "stored\n"
    )


def test_a_figure_that_shows_less_than_before_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2, 3):
        store(tmp_path, "cifar10-iid", "fediac", seed)
    scope = Scope(("cifar10-iid",), entrants=("fediac",), seeds=(1, 2, 3))
    request = ask("fig-accuracy", out=tmp_path, scope=scope, may_run=False)
    paper_command(request)
    assert capsys.readouterr().err == ""
    paper_command(replace(request, scope=replace(scope, seeds=(2,))))
    assert capsys.readouterr().err.splitlines() == [
        f"fig-accuracy no longer shows cifar10-iid seed {seed}, which was not asked for"
        for seed in (1, 3)
    ]
    (tmp_path / "fig-accuracy.json").write_text("[1]")
    paper_command(request)
    assert capsys.readouterr().err == ""


def test_the_accuracy_figure_is_of_everything_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for scenario in ("cifar10-iid", "cifar100-iid"):
        store(tmp_path, scenario, "fediac")
    scope = Scope(only=("cifar100-iid",))
    request = ask("fig-accuracy", out=tmp_path, scope=scope, may_run=False)
    paper_command(replace(request, as_json=True))
    document = json.loads(capsys.readouterr().out)
    assert {row["scenario"] for row in document["fig-accuracy"]} == {"cifar100-iid"}
    assert str(tmp_path / "fig-accuracy.json") in document["files"]
    drawn = json.loads((tmp_path / "fig-accuracy.json").read_text())
    assert {row["scenario"] for row in drawn} == {"cifar10-iid", "cifar100-iid"}
    page = (tmp_path / "fig-accuracy.md").read_text()
    assert "One seed each." in page
