"""The page in a real browser: offline, without errors, on desk, phone and paper."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

from fediac.number_words import digits, exact_percent
from fediac.report.write import write_report
from tests.runs import edit_rounds, read_rounds, write_comparison, write_run

FIGURES = (
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
    """Open the report; afterwards it must have fetched and complained nothing."""
    contexts = []
    every: list[Opened] = []

    def open_page(path: Path = report, **settings: Any) -> Opened:
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
        assert figure.locator("h3").is_visible()
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
    assert page.get_by_role("button", name="libra").is_visible()


def test_numbers_equal_those_of_rounds_jsonl(open_report: Open, runs: Path) -> None:
    page = open_report().page
    data = _data(page)
    for index, run in enumerate(data["runs"]):
        rounds = read_rounds(runs / run["label"])
        series = data["charts"]["accuracy-time-slow"]["series"][index]
        assert series["x"] == [each["time_s"]["slow"] for each in rounds]
        assert series["y"] == [each["accuracy"] for each in rounds]
        rows = page.locator(f'#accuracy-mib tbody tr[data-run="{index}"]')
        texts = [_plain(each) for each in rows.all_text_contents()]
        assert texts == [
            run["label"]
            + str(each["round"])
            + digits(each["payload_mib"])
            + digits(each["wire_mib"])
            + exact_percent(each["accuracy"])
            for each in rounds
        ]


def test_summary_is_the_first_thing_and_names_the_winner(open_report: Open) -> None:
    page = open_report(viewport={"width": 1280, "height": 900}).page
    summary = page.locator("#summary")
    assert _plain(summary.text_content()).startswith(
        "fediac reached 63 % accuracy with the least traffic: "
    )
    box = summary.bounding_box()
    assert box is not None
    assert box["y"] < 400
    first = page.locator("#target tbody tr").first
    assert "less than libra" in _plain(first.text_content())


def test_legend_hides_a_run_everywhere_and_fits_the_axes(open_report: Open) -> None:
    page = open_report().page
    key = page.get_by_role("button", name="fedavg")
    line = page.locator('[data-chart="accuracy-mib-payload"] .series[data-run="4"]')
    bars = page.locator('[data-chart="phase-bytes-payload"] .series[data-run="4"]')
    charts = [name for name in _data(page)["charts"] if name != "gamma"]
    before = {name: _shown_ticks(page, name) for name in charts}
    assert line.is_visible()
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert not line.is_visible()
    assert not bars.is_visible()
    narrow = "phase-bytes-payload"
    assert _shown_ticks(page, narrow) != before[narrow]
    key.click()
    assert line.is_visible()
    # The script fits axes as Python did, to the letter.
    assert {name: _shown_ticks(page, name) for name in charts} == before


def test_all_runs_can_be_hidden(open_report: Open) -> None:
    page = open_report().page
    keys = page.locator("[data-toggle]")
    for index in range(keys.count()):
        keys.nth(index).click()
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


def test_value_above_the_axis_is_read_out_at_its_edge(
    browser: Browser, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "run", "switchml", n_rounds=4)
    edit_rounds(folder, lambda rounds: rounds[0].update(gamma=12.0))
    path = tmp_path / "report.html"
    write_report([folder], output=path, kind=None, target=None)
    page = browser.new_page()
    page.goto(path.as_uri())
    plot = page.locator('[data-chart="gamma"]')
    plot.focus()
    page.keyboard.press("Home")
    assert "switchml12.00" in _plain(plot.locator(".readout").text_content())
    assert plot.locator(".cursor circle").get_attribute("cy") == "0%"
    key = page.get_by_role("button", name="switchml")
    key.click()
    key.click()
    assert plot.locator("use.marker").first.get_attribute("y") == "0%"
    page.close()


def test_slider_shows_clients_of_another_round(open_report: Open, runs: Path) -> None:
    page = open_report().page
    figure = page.locator("#finish")
    total = figure.locator('[data-run="0"] .total').first
    rounds = read_rounds(runs / "fediac")
    for key, index in (("Home", 0), ("End", -1)):
        figure.locator('input[type="range"]').first.press(key)
        slowest = max(rounds[index]["timing"]["fast"]["finish_s"])
        assert _plain(total.text_content()) == f"slowest {digits(slowest)} s"
        words = figure.locator('[data-run="0"] desc').first.text_content()
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
    assert page.locator(".plot:visible").count() == 12
    assert page.locator(".choice:visible").count() == 0
    assert page.locator("#accuracy-time details summary").is_visible()


def test_report_of_one_unfinished_run_opens(open_report: Open, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "libra", n_rounds=1, has_summary=False)
    path = tmp_path / "one.html"
    write_report([folder], output=path, kind=None, target=None)
    page = open_report(path).page
    assert "no summary.json" in _plain(page.locator(".cautions").text_content())
    page.get_by_role("button", name="libra").click()
