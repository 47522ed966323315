"""The switch's page in a real browser, and what Prometheus reads."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, sync_playwright

from fediac.wire.header import Kind
from tests.integration.test_report_browser import find_chromium
from tests.switches import ASKED, joined, running_switch, votes


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


def get(url: str) -> tuple[str, str]:
    """Return the type and the text of what is there."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_the_page_follows_a_switch_and_says_when_it_is_gone(browser: Browser) -> None:
    page = browser.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    with running_switch("--http", "0") as switch:
        url = f"http://{switch.first['page']}/"
        page.goto(url)
        page.get_by_text("none has a session").wait_for()
        assert page.locator("#no-drops").is_visible()
        with joined(switch.endpoint) as members:
            page.get_by_text("3 of 3").wait_for()
            row = page.locator("#job-rows tr")
            cells = row.locator("td").all_text_contents()
            assert cells[:4] == ["7", "0x0000000000000064", "3 of 3", "0"]
            assert page.locator("#jobs").text_content() == "1 of 4"
            members.peers[0].send(votes(ASKED, 0, 1))
            assert members.peers[0].ask(votes(ASKED, 0, 1)).kind == Kind.WAIT
            page.get_by_text("duplicate").wait_for()
            assert not page.locator("#no-drops").is_visible()
        assert {each.removeprefix(url) for each in requests} == {"", "reading.json"}
        assert complaints == []
        switch.stop()
        page.get_by_text("the switch does not answer").wait_for()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_no_fault(browser: Browser, width: int, scheme: Any) -> None:
    size: Any = {"width": width, "height": 900}
    page = browser.new_page(viewport=size, color_scheme=scheme)
    with running_switch("--http", "0") as switch:
        page.goto(f"http://{switch.first['page']}/")
        page.get_by_text("none has a session").wait_for()
        found = [Axe().run(page)]
        with joined(switch.endpoint) as members:
            members.peers[0].send(votes(ASKED, 0, 1))
            members.peers[0].ask(votes(ASKED, 0, 1))
            page.get_by_text("duplicate").wait_for()
            page.get_by_text("3 of 3").wait_for()
            found.append(Axe().run(page))
        assert page.evaluate("document.documentElement.scrollWidth") == width
        switch.stop()
        page.get_by_text("the switch does not answer").wait_for()
    found.append(Axe().run(page))
    page.close()
    for each in found:
        assert each.violations_count == 0, each.generate_report()


def test_metrics_and_reading_are_there_and_nothing_else() -> None:
    with running_switch("--http", "0") as switch, joined(switch.endpoint):
        base = f"http://{switch.first['page']}"
        while (reading := json.loads(get(f"{base}/reading.json")[1]))["n_jobs"] == 0:
            pass
        kind, text = get(f"{base}/metrics")
        assert reading["n_members"] <= 3
        assert kind.startswith("text/plain")
        assert "fediac_jobs 1.0" in text.splitlines()
        for path in ("/etc/passwd", "/../status_page.html", "/metrics/"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                get(base + path)


def test_the_page_is_on_loopback_unless_told_otherwise() -> None:
    with running_switch("--http", "0", "--insecure", listen="0.0.0.0:0") as switch:
        assert switch.first["page"].startswith("127.0.0.1:")
    with running_switch("--http", "[::1]:0") as switch:
        kind, text = get(f"http://{switch.first['page']}/")
        assert kind == "text/html; charset=utf-8"
        assert "fediac switch" in text
