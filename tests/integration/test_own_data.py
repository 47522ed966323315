"""Own data on the command line, as a newcomer has them: five lines and a report."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.integration.command import Command

SETTINGS = """\
data = { name = "mine.npz", partition = "client" }
model = { name = "mlp" }
clients = { n_clients = 3, weights = "examples" }
train = { steps = 2, batch_size = 8 }
stop = { rounds = 2 }
"""


def test_a_table_is_compared_and_reported_on(
    fediac: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((90, 4))
    owners = np.repeat(["a", "b", "c"], [60, 20, 10])
    np.savez("mine.npz", x=x, y=x[:, 0], client=owners)
    bad = fediac("compare", "mine.toml", "--algorithms=fediac,fedavg")
    assert (bad.code, "mine.toml" in bad.err) == (2, True)
    Path("mine.toml").write_text(SETTINGS)
    bad = fediac("compare", "mine.toml", "--algorithms=fediac,fedavg")
    assert "for regression there is fediac.Experiment" in bad.err
    np.savez("mine.npz", x=x, y=x[:, 0] > 0, client=owners)
    result = fediac("compare", "mine.toml", "--algorithms=fediac,fedavg")
    assert (result.code, result.err) == (0, "")
    assert "client partition: 72 of 72 examples, 8 to 48 a client" in result.out
    # Small numbers have digits that say something.
    assert " 0.0 " not in result.out
    assert "0.00 " not in result.out
    done = fediac("report", "runs/mine-compared", "-o", "page.html", "--json")
    assert {each["label"] for each in json.loads(done.out)["runs"]} == {
        "fediac",
        "fedavg",
    }
    assert Path("page.html").stat().st_size > 10_000
