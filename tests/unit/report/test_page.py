"""The page as text: whole, self-contained, escaped, and true to rounds.jsonl."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fediac.report.figures import figure
from fediac.report.page import Report, render_page
from fediac.report.reading import read_runs
from fediac.report.target import choose_target
from tests.runs import (
    edit_rounds,
    give_metric,
    read_rounds,
    write_comparison,
    write_run,
)

Field = Callable[[dict[str, Any]], float]

NO_END = {"meta", "link", "input"}
FIGURES = {
    "cost",
    "accuracy-time",
    "accuracy-mib",
    "phase-bytes",
    "phase-time",
    "chosen",
    "gamma",
    "finish",
}


class Reader(HTMLParser):
    """Collects elements, and fails where they do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in NO_END:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def make_page(*paths: Path, target: float | None = None) -> str:
    runs, left_out = read_runs(paths)
    return render_page(Report(runs, choose_target(runs, target), left_out, "1.2.3"))


def parse(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'id="report-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_comparison(tmp_path_factory.mktemp("runs") / "all")


@pytest.fixture(scope="module")
def page(comparison: Path) -> str:
    return make_page(comparison)


def test_elements_nest_and_names_are_unique(page: str) -> None:
    names = [a["id"] for _, a in parse(page).elements if "id" in a]
    assert len(names) == len(set(names))


def test_nothing_points_outside_the_page(page: str, comparison: Path) -> None:
    for _, attributes in parse(page).elements:
        assert "src" not in attributes
        link = attributes.get("href")
        assert link is None or link.startswith(("#marker-", "data:,"))
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert str(comparison.parent) not in page
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; img-src data:"
    )
    assert f'http-equiv="Content-Security-Policy" content="{policy}"' in page


def test_a_metric_of_ones_own_has_its_name(tmp_path: Path) -> None:
    for name in ("fediac", "fedavg"):
        give_metric(write_run(tmp_path / name, name), "my_task.f1")
    page = make_page(tmp_path)
    for text in (
        "Traffic and simulated time to 63\u00a0% f1",
        ">f1 against simulated time<",
        ">f1 against traffic<",
        'class="name">f1</text>',
        ">best f1<",
        "<dt>f1</dt>",
    ):
        assert text in page
    # Names that the page's script has, and no reader.
    words = re.sub(r"accuracy-(time|mib)", "", page)
    assert "accuracy" not in words.lower()


def test_other_metrics_are_all_named(tmp_path: Path) -> None:
    write_run(tmp_path / "fediac", "fediac")
    give_metric(write_run(tmp_path / "fedavg", "fedavg"), "my_task.f1")
    assert ">accuracy / f1<" in make_page(tmp_path)


def test_every_figure_has_a_title_drawings_and_a_table(page: str) -> None:
    elements = parse(page).elements
    found = {a["id"] for tag, a in elements if tag == "figure"}
    assert found == FIGURES
    # The first one's numbers are the table below it.
    assert page.count("<summary>Data table</summary>") == len(FIGURES) - 1


def test_what_few_ask_for_is_folded(page: str) -> None:
    folded = re.findall(
        r'<details class="group" id="(\w+)">(.*?)</details>\n(?=<)', page, re.DOTALL
    )
    assert [name for name, _ in folded] == ["rounds", "phases", "clients"]
    assert "open" not in {name for _, a in parse(page).elements for name in a}


def test_those_not_in_colour_are_folded_into_the_legend(tmp_path: Path) -> None:
    for name in ("lean", "other"):
        write_run(tmp_path / name, "fediac", n_rounds=20)
    edit_rounds(tmp_path / "other", _double)
    write_run(tmp_path / "libra", "libra", n_rounds=20)
    page = make_page(tmp_path)
    assert "<summary>1 other setting</summary>" in page
    pressed = re.findall(r'data-toggle="(\d)" aria-pressed="(\w+)"', page)
    assert pressed == [("0", "true"), ("2", "true"), ("1", "false")]
    faint = {
        a["data-contender"]
        for _, a in parse(page).elements
        if "faint" in (a.get("class") or "").split()
    }
    assert faint == {"1"}


def _double(rounds: list[dict[str, Any]]) -> None:
    for each in rounds:
        each["payload_mib"] *= 2.0


def test_switches_that_agree_are_drawn_once(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fediac", n_rounds=20)

    def agree(rounds: list[dict[str, Any]]) -> None:
        for each in rounds:
            each["time_s"]["slow"] = each["time_s"]["fast"]

    edit_rounds(tmp_path / "a", agree)
    page = make_page(tmp_path)
    assert "agree within half a percent" in page
    assert 'data-choice="switch"' not in page
    charts = data_of(page)["charts"]
    times = [name for name in charts if name.startswith("accuracy-time")]
    assert times == ["accuracy-time-fast-and-slow"]


def test_every_drawing_names_its_text_alternative(page: str) -> None:
    elements = parse(page).elements
    names = {a["id"] for _, a in elements if "id" in a}
    drawings = [a for tag, a in elements if tag == "svg" and a.get("role") == "img"]
    assert drawings
    for each in drawings:
        assert set((each["aria-labelledby"] or "").split()) <= names
    for description in re.findall(r"<desc[^>]*>(.*?)</desc>", page):
        assert re.search(r"\d", description)


def test_lines_are_the_numbers_of_rounds_jsonl(page: str, comparison: Path) -> None:
    data = data_of(page)
    fields: dict[str, tuple[Field, Field]] = {
        "accuracy-time-fast": (lambda r: r["time_s"]["fast"], lambda r: r["accuracy"]),
        "accuracy-time-slow": (lambda r: r["time_s"]["slow"], lambda r: r["accuracy"]),
        "accuracy-mib-payload": (lambda r: r["payload_mib"], lambda r: r["accuracy"]),
        "accuracy-mib-wire": (lambda r: r["wire_mib"], lambda r: r["accuracy"]),
        "chosen": (lambda r: r["round"], lambda r: r["chosen"]),
        "gamma": (lambda r: r["round"], lambda r: r["gamma"]),
    }
    labels = [each["label"] for each in data["contenders"]]
    for name, (x, y) in fields.items():
        for series in data["charts"][name]["series"]:
            rounds = read_rounds(comparison / labels[series["contender"]])
            assert series["x"] == [x(each) for each in rounds]
            assert series["y"] == [y(each) for each in rounds]
            assert series["rounds"] == [each["round"] for each in rounds]


def test_gamma_of_1_is_what_the_proof_needs_and_no_limit_of_training(page: str) -> None:
    assert ">the proof of convergence needs less</text>" in page
    assert (
        "needs it below 1; runs above 1 can train well too. Near or above 1 is usual "
        "with few votes and alone no reason to worry:"
    ) in " ".join(page.split())


def test_bytes_by_phase_add_up_to_the_runs_total(page: str, comparison: Path) -> None:
    rounds = read_rounds(comparison / "fediac")
    for direction in ("up", "down"):
        for phase in ("votes", "levels", "statistics"):
            total = sum(r["traffic"]["payload"][direction][phase] for r in rounds)
            row = f"<td>{phase}</td><td>{direction}</td>"
            assert f'{row}<td class="n">{total:,}</td>' in page


def test_the_last_line_tells_runs_in_folders_of_one_name_apart(tmp_path: Path) -> None:
    for name in ("fediac", "libra"):
        write_run(tmp_path / name / "seed1", name)
    page = make_page(tmp_path / "fediac" / "seed1", tmp_path / "libra" / "seed1")
    assert " from the rounds.jsonl of: fediac, libra.</p></footer>" in page


def test_same_runs_give_the_same_bytes(page: str, comparison: Path) -> None:
    assert make_page(comparison) == page


def test_names_are_escaped(tmp_path: Path) -> None:
    names = ("\"c'", "<script>alert(1)", "a & b")
    for name in names:
        write_run(tmp_path / name, "fediac", n_rounds=2)
    page = make_page(tmp_path)
    parse(page)
    assert "<script>alert" not in page
    for written in ("&#34;c&#39;", "&lt;script&gt;alert(1)", "a &amp; b"):
        assert f'<th scope="row">{written}</th>' in page
    assert [each["label"] for each in data_of(page)["contenders"]] == sorted(names)


def test_a_number_and_its_unit_stay_on_one_line(tmp_path: Path) -> None:
    for name in ("5 MiB of 3 senders", "other"):
        write_run(tmp_path / name, "fediac", n_rounds=2)
    page = make_page(tmp_path)
    assert '<th scope="row">5\u00a0MiB of 3 senders</th>' in page
    assert not re.search(r">[^<]*[0-9] (%|MiB)", page[: page.index("<script")])


def test_long_runs_are_thinned_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure, "MAX_SHOWN", 10)
    folder = write_run(tmp_path / "a", "fediac", n_rounds=95)
    page = make_page(folder)
    (series,) = data_of(page)["charts"]["accuracy-time-fast"]["series"]
    rounds = read_rounds(folder)
    reached = next(r["round"] for r in rounds if r["accuracy"] >= 0.63)
    assert {1, reached, 95} <= set(series["rounds"])
    assert len(series["rounds"]) <= 14
    assert "Long runs show a part of their rounds" in page
    assert "Long runs" not in make_page(write_run(tmp_path / "b", "fediac", n_rounds=5))


def test_one_round_of_one_run_gives_a_page(tmp_path: Path) -> None:
    page = make_page(write_run(tmp_path / "a", "topk", n_rounds=1))
    assert {a["id"] for tag, a in parse(page).elements if tag == "figure"} == (
        FIGURES - {"cost"}
    )


def test_runs_timed_with_unlike_switches_share_the_charts(tmp_path: Path) -> None:
    write_comparison(tmp_path, ["fediac", "topk"])

    def drop(rounds: list[dict[str, Any]]) -> None:
        for each in rounds:
            for name in ("time_s", "round_s", "timing"):
                del each[name]["slow"]

    edit_rounds(tmp_path / "topk", drop)
    charts = data_of(make_page(tmp_path))["charts"]
    assert len(charts["accuracy-time-fast"]["series"]) == 2
    assert len(charts["accuracy-time-slow"]["series"]) == 1


def test_each_seed_has_a_line_of_its_contender(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        write_run(tmp_path / str(seed), "fediac", n_rounds=seed + 1, seed=seed)
    page = make_page(tmp_path)
    parse(page)
    series = data_of(page)["charts"]["accuracy-time-fast"]["series"]
    assert [each["contender"] for each in series] == [0, 0, 0]
    assert [len(each["x"]) for each in series] == [2, 3, 4]
    assert "<td>3</td><td" not in page
    assert '<th scope="row">fediac</th><td class="n">3</td><td class="n">4</td>' in page


def test_more_settings_than_dashes_make_a_page(tmp_path: Path) -> None:
    for number in range(12):
        write_run(tmp_path / f"run{number:02}", "fediac", n_rounds=2)
    parse(make_page(tmp_path))


def test_empty_rounds_of_nothing_chosen_are_drawn(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=3)

    def nothing(rounds: list[dict[str, Any]]) -> None:
        rounds[1]["chosen"] = 0
        rounds[1]["timing"]["fast"]["finish_s"] = []

    edit_rounds(folder, nothing)
    parse(make_page(folder))
