"""What is committed under results/ is what its runs say."""

import json
import re
import shutil
from pathlib import Path

import pytest

from fediac.experiments.paper import sweeps, tables
from fediac.experiments.paper.inventory import list_stored, render_inventory
from fediac.experiments.paper.plan import Product, Scope
from fediac.experiments.paper.products import make_product
from fediac.experiments.paper.stored import read_stored
from fediac.experiments.report.reading import read_runs

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
FOLDERS = (RESULTS, RESULTS / "digits")


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(("name", "switch"), [("table1", "fast"), ("table2", "slow")])
def test_tables_come_from_the_runs(folder: Path, name: str, switch: str) -> None:
    rows = tables.list_rows(read_stored(folder), switch)
    assert rows
    page = tables.render_markdown(tables.make_blocks(rows), switch)
    assert (folder / f"{name}.md").read_text() == page
    stored = json.loads((folder / f"{name}.json").read_text())
    assert stored == tables.as_documents(rows)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_sweep_comes_from_the_runs(folder: Path) -> None:
    found = sweeps.list_candidates(read_stored(folder))
    assert found
    assert (folder / "sweeps.md").read_text() == sweeps.render_markdown(found)
    stored = json.loads((folder / "sweeps.json").read_text())
    assert stored == sweeps.as_documents(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_run_is_listed(folder: Path) -> None:
    rows = list_stored(folder)
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
            Scope(only=("digits-iid", "digits-noniid"), until_s=3.0),
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
    shutil.copytree(folder / "runs", tmp_path / "runs")
    make_product(product, scope, tmp_path)
    # Not the picture itself: its bytes depend on the release of Matplotlib.
    for ending in ("json", "md"):
        name = f"{product}.{ending}"
        assert (tmp_path / name).read_text() == (folder / name).read_text()


def test_stored_runs_can_be_reported() -> None:
    folders = sorted(path.parent for path in RESULTS.glob("runs/*/*/*/rounds.jsonl"))
    found, _ = read_runs(folders)
    assert len(found) == len(read_stored(RESULTS))


def test_the_readme_has_the_numbers_of_the_table() -> None:
    names = {
        "FediAC, the paper's width": "fediac-bound",
        "FediAC, width tuned by the clients": "fediac",
        "libra": "libra",
        "SwitchML": "switchml",
        "FedAvg": "fedavg",
        "OmniReduce": "omnireduce",
    }
    columns = ("cifar10-iid", "cifar10-noniid", "cifar100-iid", "cifar100-noniid")
    stored = json.loads((RESULTS / "table1.json").read_text())
    found = {(row["scenario"], row["algorithm"]): row for row in stored}
    text = (ROOT / "README.md").read_text()
    for label, name in names.items():
        line = re.search(rf"^\| {re.escape(label)} \| (.+) \|$", text, re.M)
        assert line is not None, label
        for cell, scenario in zip(line[1].split(" | "), columns, strict=True):
            row = found.get((scenario, name))
            if row is None:
                assert cell == "not run"
                continue
            mib, rounds = re.findall(r"[\d,]+", cell)
            assert int(mib.replace(",", "")) == round(row["payload_mib"])
            assert int(rounds) == row["rounds"]
