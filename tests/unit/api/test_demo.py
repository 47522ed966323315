"""The demo's table in a terminal, while it runs."""

import io
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.live import Live

from fediac.api.demo import LiveTable, conclude, demo_runs, demo_settings
from fediac.runs.records import Round, RunTotals, summarize
from fediac.runs.stored import read_run
from tests.runs import write_run


def test_the_live_table_tells_the_two_runs_of_fediac_apart(tmp_path: Path) -> None:
    stored = read_run(write_run(tmp_path / "run", "fediac", n_rounds=2))
    assert stored is not None
    runs = demo_runs(demo_settings(1))
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    with Live(console=console, auto_refresh=False) as live:
        table = LiveTable(live, runs)
        for name, settings in runs.items():
            table.start(settings, 20, None)
            table.round_done(stored.rounds[0])
            live.refresh()
            assert f"training with {name}: round 1" in shown.getvalue()
    lines = shown.getvalue().splitlines()
    for name in runs:
        assert any(line.lstrip(" │").startswith(f"{name} ") for line in lines)


def ended(mib: float, accuracy: float, tmp_path: Path) -> RunTotals:
    """Return what there is of a run that ended with such a round."""
    stored = read_run(write_run(tmp_path / f"{mib}", "fediac", n_rounds=1))
    assert stored is not None
    last: Round = replace(stored.rounds[0], payload_mib=mib, accuracy=accuracy)
    return summarize([last], 0.9)


def test_the_last_words_compare_the_best_with_another_algorithm(tmp_path: Path) -> None:
    runs = {"fediac-lean": 1.0, "fediac": 2.0, "libra": 10.0, "fedavg": 50.0}
    summaries = {name: ended(mib, 0.91, tmp_path) for name, mib in runs.items()}
    summaries["topk"] = ended(0.5, 0.89, tmp_path)
    assert conclude(summaries) == (
        "fediac-lean needed the least traffic to 90 % accuracy: 1.000 MiB, 90 % less "
        "than libra (10.00 MiB). Not there after the last round: topk."
    )
