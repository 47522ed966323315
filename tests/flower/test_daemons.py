"""The example app for real: under ``flwr run``, in simulation and with SuperNodes."""

import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from examples.flower import run_local

FOLDER = Path(run_local.__file__).parent
N_SIMULATED = 20


def rows(page: Path) -> list[list[str]]:
    """Return the cells of a page's table of rounds."""
    body = page.read_text().split("<tbody>")[1].split("</tbody>")[0]
    return [
        [cell.split("</td>")[0] for cell in row.split("<td>")[1:]]
        for row in body.split("<tr>")[1:]
    ]


def test_flwr_run_simulates_twenty_nodes(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "num-server-rounds": 2,
        "min-nodes": N_SIMULATED,
        "page": str(tmp_path / "page.html"),
    }
    with ExitStack() as stack:
        run_local.start_superlink(stack, tmp_path, "--simulation")
        command = run_local.flwr_run(
            tmp_path,
            config,
            "--federation-config",
            f"num-supernodes={N_SIMULATED}",
        )
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=run_local.environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    # That is so even if the simulation failed.
    assert (tmp_path / "page.html").exists(), done.stdout + done.stderr
    first, second = rows(tmp_path / "page.html")
    assert (first[0], second[0]) == ("1", "2")
    assert (second[2], second[3]) == (str(N_SIMULATED), "0")
    assert float(second[1]) > 0.6


def test_the_page_of_an_earlier_run_hides_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> list[str]:
        """Return a command that exits with 0, as ``flwr run`` does in any case."""
        return [sys.executable, "-c", ""]

    monkeypatch.setattr(run_local, "start_superlink", lambda *_: 1)
    monkeypatch.setattr(run_local, "start_switch", lambda *_: "127.0.0.1:1")
    monkeypatch.setattr(run_local, "supernode", nothing)
    monkeypatch.setattr(run_local, "flwr_run", nothing)
    (tmp_path / "report.html").touch()
    assert run_local.run(tmp_path, 1) == 1


def test_a_deployment_loses_a_node_gets_it_back_and_leaves_a_page(
    tmp_path: Path,
) -> None:
    command = [sys.executable, str(FOLDER / "run_local.py")]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path), "--rounds", "4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = process.communicate(timeout=600)
    except BaseException:
        process.send_signal(signal.SIGINT)  # it stops what it has started
        process.communicate(timeout=60)
        raise
    assert process.returncode == 0, said
    assert "run_local: kill SuperNode 3" in said
    assert "run_local: SuperNode 3 comes back" in said
    rounds = rows(tmp_path / "report.html")
    n_members, n_lost, is_over_switch = (
        [each[i] for each in rounds] for i in (2, 3, -1)
    )
    assert is_over_switch == ["yes"] * 4
    assert set(n_members) <= {"3", "4"}
    assert "1" in n_lost  # Flower knows only after a minute that a node is gone
    journal = tmp_path / "server" / "journal"
    assert journal.read_bytes().startswith(b"fediac journal 1")
    assert json.loads((tmp_path / "server" / "job").read_text()) > 0
    assert list((tmp_path / "node3").glob("*/holdings"))
