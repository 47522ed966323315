"""What is committed under results/ is what its runs say."""

import json
import re
import shutil
from dataclasses import replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree

import pytest

from fediac.compressors import Compressor, FediAC
from fediac.compressors.forecast import measured_of
from fediac.number_words import NOTHING, digits
from fediac.paper import sweeps, tables
from fediac.paper.figures.names import plain_name
from fediac.paper.inventory import list_stored, render_inventory
from fediac.paper.plan import Product, Scope
from fediac.paper.products import make_product
from fediac.paper.scenarios import find_scenario
from fediac.paper.stored import read_stored
from fediac.paper.targets import Row, find_target, make_row
from fediac.paper.theory.product import list_missing, make_theory
from fediac.plan.expected_traffic import ExpectedRound, expected_ledger
from fediac.report.reading import read_runs
from fediac.runs.algorithm import make_compressor
from fediac.runs.records import Round
from fediac.runs.stored import Run
from tests.unit.paper.figures.pictures import smallest_text

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
FOLDERS = (RESULTS, RESULTS / "digits")


@cache
def stored_in(folder: Path) -> tuple[Run, ...]:
    """Return the runs of a folder, which are read once."""
    return tuple(read_stored(folder))


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(("name", "switch"), [("table1", "fast"), ("table2", "slow")])
def test_tables_come_from_the_runs(folder: Path, name: str, switch: str) -> None:
    runs = stored_in(folder)
    rows = tables.list_rows(runs, switch)
    assert rows
    blocks = tables.make_blocks(rows, tables.list_tried(runs, switch))
    page = tables.render_markdown(blocks, switch)
    assert (folder / f"{name}.md").read_text() == page
    stored = json.loads((folder / f"{name}.json").read_text())
    assert stored == tables.as_documents(rows)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_picture_of_table_one_shows_it(folder: Path) -> None:
    shown = json.loads((folder / "fig-traffic.json").read_text())
    assert shown == json.loads((folder / "table1.json").read_text())
    picture = (folder / "fig-traffic.svg").read_text()
    assert all(f">{plain_name(row['algorithm'])}<" in picture for row in shown)


@pytest.mark.parametrize("folder", FOLDERS)
def test_pages_have_the_means_of_table_one(folder: Path) -> None:
    rows = json.loads((folder / "table1.json").read_text())
    scenarios = {row["scenario"] for row in rows}
    for scenario in scenarios:
        page = (folder / f"report-{scenario}.html").read_text()
        table = page[page.index('<section id="target"') :].partition("</section>")[0]
        shown = {
            re.sub("<.*?>", "", cells[0]).strip(): re.sub(r"\s*<.*", "", cells[1])
            for cells in re.findall(
                r'<th scope="row">(.*?)</th><td class="n">(.*?)</td>', table, re.DOTALL
            )
        }
        by_entrant: dict[str, list[float | None]] = {}
        for row in rows:
            if row["scenario"] == scenario:
                own = by_entrant.setdefault(row["algorithm"], [])
                own.append(row["payload_mib"])
        assert shown == {
            name: NOTHING if None in own else digits(fmean(filter(None, own)))
            for name, own in by_entrant.items()
        }


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_sweep_comes_from_the_runs(folder: Path) -> None:
    found = sweeps.list_candidates(stored_in(folder))
    assert found
    assert (folder / "sweeps.md").read_text() == sweeps.render_markdown(found)
    stored = json.loads((folder / "sweeps.json").read_text())
    assert stored == sweeps.as_documents(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_run_is_listed(folder: Path) -> None:
    rows = list_stored(stored_in(folder))
    assert rows
    assert (folder / "runs.md").read_text() == render_inventory(rows)
    assert all(row["machine"] and row["commit"] for row in rows)


@pytest.mark.parametrize(
    ("product", "folder", "scope"),
    [
        (Product.FIG_ACCURACY, RESULTS, Scope()),
        (
            Product.FIG_SCALE,
            RESULTS / "digits",
            Scope(only=("digits-iid", "digits-noniid"), seeds=(1, 2, 3), until_s=3.0),
        ),
        (
            Product.FIG_NONIID,
            RESULTS / "digits",
            Scope(only=("digits-noniid",), seeds=(1, 2, 3), until_s=3.0),
        ),
    ],
)
def test_figures_come_from_the_runs(
    tmp_path: Path, product: Product, folder: Path, scope: Scope
) -> None:
    make_product(product, scope, stored_in(folder), tmp_path)
    # Not the picture itself: its bytes depend on the release of Matplotlib.
    for ending in ("json", "md"):
        name = f"{product}.{ending}"
        assert (tmp_path / name).read_text() == (folder / name).read_text()


@pytest.mark.parametrize("scenario", ["cifar10-iid", "unipen62"])
def test_theory_is_drawn_from_what_is_stored(scenario: str, tmp_path: Path) -> None:
    scope = Scope(only=(scenario,))
    assert list_missing(scope, RESULTS) == []
    shutil.copytree(RESULTS / "theory", tmp_path / "theory")
    _, page = make_theory(scope, tmp_path).files
    assert page.read_text() == (RESULTS / page.name).read_text()


@pytest.mark.parametrize(
    "page", sorted(RESULTS.rglob("report-*.html")), ids=attrgetter("stem")
)
def test_a_page_shows_everybody_in_the_table(page: Path) -> None:
    name = page.stem.partition("-")[2]
    rows = json.loads((page.parent / "table1.json").read_text())
    text = page.read_text()
    for entrant in {row["algorithm"] for row in rows if row["scenario"] == name}:
        assert f'<th scope="row">{entrant}</th>' in text


@pytest.mark.parametrize(
    "picture", sorted(RESULTS.rglob("fig-*.svg")), ids=attrgetter("stem")
)
def test_a_picture_can_be_read_on_paper(picture: Path) -> None:
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    inches = float(root.attrib["width"].removesuffix("pt")) / 72.0
    assert smallest_text(root) * min(7.0 / inches, 1.0) >= 7.0


def test_stored_runs_can_be_reported() -> None:
    found = [read_runs([archive])[0] for archive in RESULTS.glob("runs/*.zip")]
    assert sum(map(len, found)) == len(stored_in(RESULTS))


CIFAR_ROWS = {
    "FediAC, 16 parameters a vote, k = 1 %, 8 bits": "fediac-shared-k1-bits8",
    "FediAC, 16 parameters a vote, k = 2 %": "fediac-shared-k2",
    "FediAC, 16 parameters a vote, k = 5 %, residuals fade": (
        "fediac-shared-k5-a3-fade0.1"
    ),
    "FediAC, votes for the largest": "fediac-topk",
    "FediAC, the paper's width": "fediac",
    "FediAC, width tuned by the clients": "fediac-tuned",
    "libra": "libra",
    "libra, k = 0.1 %": "libra-k0.1",
    "SwitchML": "switchml",
    "FedAvg": "fedavg",
    "OmniReduce": "omnireduce",
}
"""Row of docs/results.md -> entrant; of a family, whichever got to the target."""

README_ROWS = {
    "FediAC, 16 parameters a vote, k = 2 %": "fediac-shared-k2",
    "FediAC, the paper's votes and width": "fediac",
    "libra, k = 0.1 %": "libra-k0.1",
    "libra": "libra",
    "SwitchML": "switchml",
    "FedAvg": "fedavg",
}
"""Row of the README -> entrant; of a family, whichever got to the target."""

DIGITS_ROWS = {
    "FediAC, the preset lean": "fediac-lean",
    "FediAC, 16 parameters a vote, k = 0.5 %": "fediac-shared-k0.5",
    "libra, k = 0.05 %, narrow pairs": "libra-k0.05-bits8-narrow",
    "FediAC, 16 parameters a vote, k = 2 %": "fediac-shared-k2",
    "libra, k = 0.1 %": "libra-k0.1",
    "libra, k = 1 %, narrow pairs": "libra-k1-bits8-narrow",
    "FediAC, the paper's votes and width": "fediac",
    "libra": "libra",
    "SwitchML, 7 bits": "switchml-bits7",
    "FedAvg": "fedavg",
}


TIME_ROWS = {
    "FediAC, the paper's votes, width tuned": "fediac-tuned",
    "FediAC, the paper's votes and width": "fediac",
    "FediAC, votes for the largest entries": "fediac-topk",
    "FediAC, shared by 16 of them, k = 2 %": "fediac-shared-k2",
    "FediAC, shared, k = 5 %, residuals fade": "fediac-shared-k5-a3-fade0.1",
    "FediAC, shared, k = 10 %, a = 8": "fediac-shared-k10-a8",
    "libra": "libra",
    "libra with k = 0.1 %": "libra-k0.1",
    "SwitchML": "switchml",
    "FedAvg": "fedavg",
    "OmniReduce": "omnireduce",
}
"""Row of docs/reproduction.md -> entrant; of a family, the one in Table I."""


def find_cells(label: str, n_columns: int, text: str) -> list[str]:
    """Return a row's cells in the first table with it and so many columns.

    Args:
        label: The row's first cell.
        n_columns: How many others there are.
        text: A page, or a part of it.
    """
    lines = re.findall(rf"^\| {re.escape(label)} \| (.+) \|$", text, re.M)
    rows: list[list[str]] = [line.split(" | ") for line in lines]
    return next(row for row in rows if len(row) == n_columns)


@pytest.fixture(scope="module")
def tried() -> list[Row]:
    """Every run of the five scenarios, in Table I or not."""
    return tables.list_tried(stored_in(RESULTS), "fast")


def rows_of(name: str, scenario: str, tried: list[Row]) -> list[Row]:
    """Return the rows of an entrant, or of whoever of a family is cheapest."""
    inside = [row for row in tried if row.scenario == scenario]
    exact = [row for row in inside if row.algorithm == name]
    family = [row for row in inside if re.fullmatch(rf"{name}-a\d", row.algorithm)]
    least = min((row.payload_mib for row in family if row.payload_mib), default=None)
    return exact or [row for row in family if row.payload_mib == least]


def say_means(rows: list[Row], form: str) -> str:
    """Return the means over seeds, marked by how many; or that none got there."""
    if not rows:
        return "not run"
    if not any(row.reached for row in rows):
        return f"not {'in' if rows[0].gave_up else 'yet in'} {rows[0].rounds}"
    assert all(row.reached for row in rows)
    keys = ("spent_mib", "spent_s", "rounds")
    means = {key: fmean(getattr(row, key) for row in rows) for key in keys}
    return form.format(**means) + {1: "", 2: " ‡", 3: " †"}[len(rows)]


CIFAR = ("cifar10-iid", "cifar10-noniid", "cifar100-iid", "cifar100-noniid")


@pytest.mark.parametrize("label", README_ROWS)
def test_the_readme_has_the_numbers_of_its_runs(label: str, tried: list[Row]) -> None:
    text = (ROOT / "README.md").read_text()
    for cell, scenario in zip(find_cells(label, 4, text), CIFAR, strict=True):
        rows = rows_of(README_ROWS[label], scenario, tried)
        assert cell == say_means(rows, "{spent_mib:,.0f} MiB, {spent_s:,.1f} s")


@pytest.mark.parametrize("label", CIFAR_ROWS)
def test_the_results_have_the_numbers_of_cifar(label: str, tried: list[Row]) -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    for cell, scenario in zip(find_cells(label, 4, text), CIFAR, strict=True):
        rows = rows_of(CIFAR_ROWS[label], scenario, tried)
        assert cell == say_means(rows, "{spent_mib:,.0f} MiB in {rounds:.3g}")


@pytest.mark.parametrize("label", TIME_ROWS)
def test_the_reproduction_has_the_times_of_its_runs(
    label: str, tried: list[Row]
) -> None:
    text = (ROOT / "docs" / "reproduction.md").read_text()
    section = text[text.index("## Time to the target") :]
    columns = (
        "cifar10-iid",
        "cifar10-noniid",
        "unipen62",
        "cifar100-iid",
        "cifar100-noniid",
    )
    for cell, scenario in zip(find_cells(label, 5, section), columns, strict=True):
        rows = rows_of(TIME_ROWS[label], scenario, tried)
        assert cell == say_means(rows, "{spent_s:,.1f}")


@pytest.mark.parametrize("label", DIGITS_ROWS)
def test_the_results_have_the_numbers_of_digits(label: str) -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    runs = stored_in(RESULTS / "digits")
    for cell, name in zip(
        find_cells(label, 2, text), ("digits-iid", "digits-noniid"), strict=True
    ):
        rows = [
            make_row(run, find_scenario(name), target, "fast")
            for run in runs
            if (run.scenario, run.entrant) == (name, DIGITS_ROWS[label])
            and (target := find_target(find_scenario(name), run.seed, runs))
        ]
        assert len(rows) == 3
        assert all(row.reached for row in rows)
        mib, seconds = (
            fmean(getattr(row, key) for row in rows) for key in ("spent_mib", "spent_s")
        )
        assert cell == f"{mib:.1f} MiB, {seconds:.1f} s"


def test_what_real_rounds_take_of_the_expected_payload_is_what_is_said() -> None:
    found: dict[str, tuple[list[float], tuple[int, int]]] = {}
    for run in stored_in(RESULTS):
        compressor = _compressor(run)
        said = measured_of(compressor)
        if run.seed != 1 or said is None:
            continue
        shares, _ = found.setdefault(run.settings.algorithm, ([], said))
        expected = {
            bits: _expected(run, compressor, bits)
            for bits in {record.bits for record in run.rounds}
        }
        shares += [
            100 * _payload(record) / expected[record.bits] for record in run.rounds
        ]
    assert found.keys() == {"fediac", "omnireduce", "libra"}
    for shares, said in found.values():
        assert (round(min(shares)), round(max(shares))) == said


def _compressor(run: Run) -> Compressor:
    return make_compressor(
        run.settings,
        n_clients=run.settings.clients.n_clients,
        dim=find_scenario(run.scenario).paper.dim,
    )


def _payload(record: Round) -> float:
    """All bytes of a round but those of statistics, of which theory says nothing."""
    sides = (record.traffic.payload.up, record.traffic.payload.down)
    counted = (n for side in sides for name, n in side.items() if name != "statistics")
    return float(sum(counted))


def _expected(run: Run, compressor: Compressor, bits: int) -> float:
    if isinstance(compressor, FediAC):
        compressor = replace(compressor, bits=bits)
    dim = find_scenario(run.scenario).paper.dim
    setting = ExpectedRound(run.settings.algorithm, compressor, dim)
    return expected_ledger(setting).traffic().payload_bits / 8
