"""The demo's table in a terminal, while it runs."""

import io
from pathlib import Path

from rich.console import Console
from rich.live import Live

from fediac.api.demo import LiveTable, demo_runs, demo_settings
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
