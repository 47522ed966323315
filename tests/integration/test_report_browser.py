"""The page in a real browser: offline, without errors, on desk, phone and paper."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, Route, sync_playwright

from fediac.number_words import digits, exact_percent
from fediac.report.write import write_report
from tests.runs import edit_rounds, read_rounds, write_comparison, write_run

FIGURES = (
    "cost",
    "accuracy-time",
    "accuracy-mib",
    "phase-bytes",
    "phase-time",
    "chosen",
    "gamma",
    "finish",
)


def find_chromium() -> str:
    """Return Chromium's path; skip where there is none, or fail if there must be."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None and "browser" in os.environ.get("FEDIAC_REQUIRE", "").split(","):
        pytest.fail("FEDIAC_REQUIRE names browser, but chromium is not installed")
    if path is None:
        pytest.skip("browser: chromium is not installed")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_comparison(tmp_path_factory.mktemp("browser") / "runs")


@pytest.fixture(scope="module")
def report(runs: Path) -> Path:
    path = runs.parent / "report.html"
    write_report([runs], output=path, kind=None, target=None)
    return path


@dataclass
class Opened:
    """A page, what it asked of the network, and what it complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture
def open_report(browser: Browser, report: Path) -> Iterator[Open]:
    """Open the report; afterwards it must have fetched and complained nothing.

    What is folded is opened, unless ``unfolds`` is false.
    """
    contexts = []
    every: list[Opened] = []

    def open_page(
        path: Path = report, *, unfolds: bool = True, **settings: Any
    ) -> Opened:
        context = browser.new_context(**settings)
        contexts.append(context)
        opened = Opened(context.new_page())
        every.append(opened)

        def check(route: Route) -> None:
            opened.requests.append(route.request.url)
            is_file = route.request.url == path.as_uri()
            route.continue_() if is_file else route.abort()

        page = opened.page
        page.route("**/*", check)
        page.on("request", lambda request: opened.requests.append(request.url))
        page.on("console", lambda message: opened.complaints.append(message.text))
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.goto(path.as_uri())
        if unfolds:
            for summary in page.locator(".group > summary").all():
                summary.click()
        return opened

    yield open_page
    for opened in every:
        assert set(opened.requests) <= {opened.page.url}
        assert opened.complaints == []
    for context in contexts:
        context.close()


def _data(page: Page) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(page.locator("#report-data").text_content() or "")
    return data


def _plain(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


def _shown_ticks(page: Page, chart: str) -> list[str]:
    return page.locator(f'[data-chart="{chart}"] .tick').all_text_contents()


def test_every_figure_is_seen_and_described(open_report: Open) -> None:
    page = open_report().page
    for name in FIGURES:
        figure = page.locator(f"figure#{name}")
        assert figure.locator("h2, h3").is_visible()
        drawings = figure.locator('svg[role="img"]:visible')
        assert drawings.count() >= 1
        for index in range(drawings.count()):
            drawing = drawings.nth(index)
            box = drawing.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) > 20
            assert re.search(r"\d", drawing.locator("desc").first.text_content() or "")


def test_screen_readers_get_names_with_numbers(open_report: Open) -> None:
    page = open_report().page
    found = page.get_by_role("img", name=re.compile(r"fediac: 69\.8 % after"))
    assert found.count() == 2
    first = page.get_by_role(
        "img", name=re.compile(r"libra: [\d,]+\sMiB, .* and \d+ rounds")
    )
    assert first.count() == 1
    legend = page.get_by_role("group", name="In colour")
    assert legend.get_by_role("button", name="libra").is_visible()


def test_numbers_equal_those_of_rounds_jsonl(open_report: Open, runs: Path) -> None:
    page = open_report().page
    data = _data(page)
    for index, run in enumerate(data["contenders"]):
        rounds = read_rounds(runs / run["label"])
        series = data["charts"]["accuracy-time-slow"]["series"][index]
        assert series["x"] == [each["time_s"]["slow"] for each in rounds]
        assert series["y"] == [each["accuracy"] for each in rounds]
        rows = page.locator(f'#accuracy-mib tbody tr[data-contender="{index}"]')
        texts = [_plain(each) for each in rows.all_text_contents()]
        assert texts == [
            run["label"]
            + str(each["round"])
            + digits(each["payload_mib"])
            + digits(each["wire_mib"])
            + exact_percent(each["accuracy"])
            for each in rounds
        ]


def test_the_verdict_is_the_first_thing(open_report: Open) -> None:
    page = open_report(viewport={"width": 1280, "height": 900}).page
    least = page.locator(".verdicts li").first
    text = _plain(least.text_content())
    assert text.startswith("Least traffic to 63 % ")
    assert " less than libra (" in text
    assert "the best other algorithm, and" in text
    box = page.locator(".verdicts").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 600
    first = page.locator("#target tbody tr").first
    assert "less than libra" in _plain(first.text_content())


def test_the_first_chart_has_everybodys_name_inside_and_apart(
    open_report: Open,
) -> None:
    for width in (1400, 390):
        page = open_report(viewport={"width": width, "height": 900}).page
        names = page.locator('[data-chart="cost-fast"] .point-name')
        shown = sorted(names.all_text_contents())
        assert shown == ["fedavg", "fediac", "libra", "omnireduce", "switchml"]
        boxes = [_corners(each) for each in names.all()]
        for index, box in enumerate(boxes):
            assert box[0] >= 0
            assert box[2] <= width
            assert not any(_overlap(box, other) for other in boxes[:index])


HALO = 4
"""Pixels around a name that are painted in the page's colour."""

Corners = tuple[float, float, float, float]


def _corners(place: Locator) -> Corners:
    """Return left, top, right and bottom of a name, without its halo."""
    box = place.bounding_box()
    assert box is not None
    left, top = box["x"] + HALO, box["y"] + HALO
    return left, top, left + box["width"] - 2 * HALO, top + box["height"] - 2 * HALO


def _overlap(one: Corners, other: Corners) -> bool:
    return all(
        one[side] < other[side + 2] and other[side] < one[side + 2] for side in (0, 1)
    )


def test_the_stairs_go_through_those_nobody_beats(open_report: Open) -> None:
    page = open_report().page
    front = page.locator('[data-chart="cost-fast"] .front')
    spot = page.locator('[data-chart="cost-fast"] .point[data-contender="0"] .spot')
    path, x, y = (
        front.get_attribute("d") or "",
        spot.get_attribute("x") or "",
        spot.get_attribute("y") or "",
    )
    # fediac needs the least of both here: one corner, at its place.
    corner = re.fullmatch(r"M([\d.]+) 0H\1V([\d.]+)H1000", path)
    assert corner is not None
    assert float(corner[1]) == pytest.approx(10 * float(x.strip("%")), abs=0.01)
    assert float(corner[2]) == pytest.approx(10 * float(y.strip("%")), abs=0.01)


def test_who_is_not_in_colour_is_faint_or_hidden_and_the_axes_fit(
    open_report: Open,
) -> None:
    page = open_report().page
    key = page.locator(".legend").get_by_role("button", name="fedavg")
    line = page.locator('[data-chart="accuracy-mib-payload"] [data-contender="4"]')
    bars = page.locator('[data-chart="phase-bytes-payload"] [data-contender="4"]')
    charts = [name for name in _data(page)["charts"] if name != "gamma"]
    before = {name: _shown_ticks(page, name) for name in charts}
    assert line.is_visible()
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert line.is_visible()
    assert "faint" in (line.get_attribute("class") or "").split()
    assert not bars.is_visible()
    narrow = "phase-bytes-payload"
    assert _shown_ticks(page, narrow) != before[narrow]
    page.get_by_role("button", name="hidden").click()
    assert not line.is_visible()
    page.get_by_role("button", name="faint").click()
    key.click()
    assert "faint" not in (line.get_attribute("class") or "").split()
    # The script fits axes as Python did, to the letter.
    assert {name: _shown_ticks(page, name) for name in charts} == before


def test_the_axis_of_time_is_logarithmic_until_asked(open_report: Open) -> None:
    page = open_report().page
    name = "accuracy-time-fast"
    marks = page.locator(f'[data-chart="{name}"] [data-contender="0"] .marker')

    def gaps() -> list[float]:
        """Return how far apart neighbouring markers are, which are evenly in time."""
        places = [
            float((each.get_attribute("x") or "").strip("%")) for each in marks.all()
        ]
        return [b - a for a, b in pairwise(places[:-1])]

    logarithmic = gaps()
    assert logarithmic == sorted(logarithmic, reverse=True)
    assert logarithmic[0] > 3 * logarithmic[-1]
    page.get_by_role("button", name="linear").click()
    assert _shown_ticks(page, name)[0] == "0"
    linear = gaps()
    assert max(linear) < 1.2 * min(linear)
    page.get_by_role("button", name="log", exact=True).click()
    assert gaps() == pytest.approx(logarithmic)


def test_tables_are_sorted_by_any_column_and_back(open_report: Open) -> None:
    page = open_report().page
    rows = page.locator("#target tbody tr")
    heading = page.locator("#target thead th").filter(has_text="seconds, slow")

    def seconds() -> list[float]:
        cells = rows.locator("td:nth-child(4)").all_text_contents()
        return [float(each.replace(",", "")) for each in cells if each != "\u2013"]

    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert seconds() == sorted(seconds())
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert seconds() == sorted(seconds(), reverse=True)
    # Who never got there is last either way.
    assert _plain(rows.last.locator("th").text_content()) == "topk"
    page.locator("#target thead th").first.get_by_role("button").click()
    names = [_plain(each) for each in rows.locator("th").all_text_contents()]
    assert names == sorted(names)
    assert page.locator("#target [aria-sort]").count() == 1


def test_the_first_column_stays_and_traffic_and_seconds_are_seen_on_a_phone(
    open_report: Open,
) -> None:
    page = open_report(viewport={"width": 390, "height": 844}).page
    for place in (1, 2, 3):
        box = page.locator(f"#target thead th:nth-child({place})").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
    heading = page.locator("#target thead th:nth-child(2)")
    assert _plain(heading.text_content()) == "MiB"
    page.locator("#target .scroll").evaluate("each => { each.scrollLeft = 200; }")
    box = page.locator("#target tbody th").first.bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= 20
    moved = heading.bounding_box()
    assert moved is not None
    assert moved["x"] < box["x"] + box["width"]


def test_all_runs_can_be_hidden(open_report: Open) -> None:
    page = open_report().page
    keys = page.locator("[data-toggle]")
    for index in range(keys.count()):
        keys.nth(index).click()
    page.get_by_role("button", name="hidden").click()
    assert page.locator("figure .series:visible").count() == 0
    page.locator('[data-chart="accuracy-time-fast"]').hover()
    keys.first.click()
    assert page.locator("figure .series:visible").count() > 0


def test_switch_and_view_are_chosen_for_all_charts(open_report: Open) -> None:
    page = open_report().page

    def visible() -> set[str | None]:
        plots = page.locator(".plot:visible").all()
        return {plot.get_attribute("data-chart") for plot in plots}

    assert "accuracy-time-fast" in visible()
    assert "accuracy-time-slow" not in visible()
    page.get_by_role("button", name="slow", exact=True).click()
    page.get_by_role("button", name="wire", exact=True).click()
    assert visible() == {
        "cost-slow",
        "accuracy-time-slow",
        "accuracy-mib-wire",
        "phase-bytes-wire",
        "phase-time-slow",
        "chosen",
        "gamma",
        "finish-slow",
    }


def test_keys_read_values_out(open_report: Open, runs: Path) -> None:
    page = open_report().page
    plot = page.locator('[data-chart="accuracy-time-fast"]')
    readout = plot.locator(".readout")
    assert not readout.is_visible()
    plot.focus()
    page.keyboard.press("End")
    text = _plain(readout.text_content())
    for name in ("fediac", "fedavg", "topk"):
        last = read_rounds(runs / name)[-1]
        assert f"{name}round {last['round']}" in text
        assert exact_percent(last["accuracy"]) in text
    page.keyboard.press("Home")
    assert "fedavg\u2013" in _plain(readout.text_content())
    page.keyboard.press("Escape")
    assert not readout.is_visible()


def test_pointer_reads_the_round_below_it(open_report: Open, runs: Path) -> None:
    page = open_report().page
    plot = page.locator('[data-chart="gamma"]')
    plot.scroll_into_view_if_needed()
    plot.locator("svg.chart").hover(position={"x": 2, "y": 100})
    text = _plain(plot.locator(".readout").text_content())
    first = read_rounds(runs / "fediac")[0]
    assert text.startswith("round 1")
    assert f"fediac{digits(first['gamma'])}" in text
    page.mouse.move(0, 0)
    assert not plot.locator(".readout").is_visible()


def test_the_readout_is_sorted_and_stays_inside(open_report: Open) -> None:
    for width in (1400, 390):
        page = open_report(viewport={"width": width, "height": 900}).page
        plot = page.locator('[data-chart="accuracy-mib-payload"]')
        plot.scroll_into_view_if_needed()
        chart = plot.locator("svg.chart").bounding_box()
        assert chart is not None
        for share in (0.02, 0.5, 0.98):
            page.mouse.move(
                chart["x"] + share * chart["width"], chart["y"] + chart["height"] / 2
            )
            box = plot.locator(".readout").bounding_box()
            outer = plot.bounding_box()
            assert box is not None
            assert outer is not None
            assert outer["x"] <= box["x"] + 0.5
            assert box["x"] + box["width"] <= outer["x"] + outer["width"] + 0.5
            assert outer["y"] <= box["y"] + 0.5
            values = [
                float(each.split("\u00a0")[0])
                for each in plot.locator(".readout em").all_text_contents()
                if each != "\u2013"
            ]
            assert values == sorted(values, reverse=True)


def test_points_are_read_out_by_pointer_and_keys(open_report: Open, runs: Path) -> None:
    page = open_report().page
    plot = page.locator('[data-chart="cost-fast"]')
    plot.scroll_into_view_if_needed()
    hit = next(r for r in read_rounds(runs / "libra") if r["accuracy"] >= 0.63)
    said = f"libra{digits(hit['payload_mib'])} MiB{digits(hit['time_s']['fast'])} s"
    box = plot.locator('[data-contender="3"] .marker').bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert _plain(plot.locator(".readout").text_content()).startswith(said)
    page.mouse.move(0, 0)
    assert not plot.locator(".readout").is_visible()
    plot.focus()
    page.keyboard.press("End")
    assert "fedavg" in _plain(plot.locator(".readout").text_content())


def test_value_above_the_axis_is_read_out_at_its_edge(
    browser: Browser, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "run", "switchml", n_rounds=4)
    edit_rounds(folder, lambda rounds: rounds[0].update(gamma=12.0))
    path = tmp_path / "report.html"
    write_report([folder], output=path, kind=None, target=None)
    page = browser.new_page()
    page.goto(path.as_uri())
    page.locator("#rounds > summary").click()
    plot = page.locator('[data-chart="gamma"]')
    plot.focus()
    page.keyboard.press("Home")
    assert "switchml12.00" in _plain(plot.locator(".readout").text_content())
    assert plot.locator(".cursor circle").get_attribute("cy") == "0%"
    key = page.locator(".legend").get_by_role("button", name="switchml")
    key.click()
    key.click()
    assert plot.locator("use.marker").first.get_attribute("y") == "0%"
    page.close()


def test_slider_shows_clients_of_another_round(open_report: Open, runs: Path) -> None:
    page = open_report().page
    figure = page.locator("#finish")
    total = figure.locator('[data-contender="0"] .total').first
    rounds = read_rounds(runs / "fediac")
    for key, index in (("Home", 0), ("End", -1)):
        figure.locator('input[type="range"]').first.press(key)
        slowest = max(rounds[index]["timing"]["fast"]["finish_s"])
        assert _plain(total.text_content()) == f"slowest {digits(slowest)} s"
        words = figure.locator('[data-contender="0"] desc').first.text_content()
        assert f"slowest {digits(slowest)} s" in _plain(words)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_readers_scheme(open_report: Open, scheme: str) -> None:
    page = open_report(color_scheme=scheme).page
    back, ink = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor,"
        " getComputedStyle(document.body).color]"
    )
    assert (_brightness(back) > _brightness(ink)) == (scheme == "light")
    assert abs(_brightness(back) - _brightness(ink)) > 500


def _brightness(colour: str) -> int:
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3])


@pytest.mark.parametrize("has_tables", [False, True])
def test_phone_never_scrolls_sideways(open_report: Open, *, has_tables: bool) -> None:
    page = open_report(viewport={"width": 380, "height": 800}, has_touch=True).page
    if has_tables:
        page.evaluate(
            "document.querySelectorAll('details').forEach(d => d.open = true)"
        )
    page.locator('[data-chart="accuracy-time-fast"]').tap()
    assert page.locator('[data-chart="accuracy-time-fast"] .readout').is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 380
    plots = page.locator(".plot:visible").all()
    assert all((plot.bounding_box() or {"width": 0})["width"] <= 348 for plot in plots)


def test_text_is_not_shrunk_on_a_phone(open_report: Open) -> None:
    page = open_report(viewport={"width": 380, "height": 800}).page
    box = page.locator('[data-chart="accuracy-time-fast"] .tick').first.bounding_box()
    assert box is not None
    assert box["height"] >= 12


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_no_fault(open_report: Open, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900}
    page = open_report(viewport=size, color_scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.locator('[data-chart="cost-fast"]').press("Home")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_where_nobody_reached_the_target(
    open_report: Open, runs: Path, tmp_path: Path, scheme: str
) -> None:
    path = tmp_path / "report.html"
    write_report([runs], output=path, kind=None, target="99.99%")
    page = open_report(path, color_scheme=scheme).page
    assert "reached 99.99" in (page.locator(".summary.alone").text_content() or "")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_axe_knows_a_fault(open_report: Open) -> None:
    page = open_report().page
    page.evaluate("document.body.append(document.createElement('button'))")
    names = [each["id"] for each in Axe().run(page).response["violations"]]
    assert "button-name" in names


def test_page_prints(open_report: Open) -> None:
    page = open_report(color_scheme="dark").page
    document = page.pdf(format="A4")
    assert document.startswith(b"%PDF-")
    assert len(document) > 20_000
    page.emulate_media(media="print")
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert _brightness(back) == 3 * 255
    assert page.locator(".choice:visible, details:visible").count() == 0
    assert page.locator(".legend").is_visible()


def test_page_is_whole_without_scripts(open_report: Open) -> None:
    page = open_report(java_script_enabled=False).page
    assert page.locator(".plot:visible").count() == 14
    assert page.locator(".choice:visible").count() == 0
    assert page.locator("#accuracy-time details summary").is_visible()


def test_report_of_one_unfinished_run_opens(open_report: Open, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "libra", n_rounds=1, has_summary=False)
    path = tmp_path / "one.html"
    write_report([folder], output=path, kind=None, target=None)
    page = open_report(path).page
    assert "no summary.json" in _plain(page.locator(".cautions").text_content())
    page.locator(".legend").get_by_role("button", name="libra").click()
