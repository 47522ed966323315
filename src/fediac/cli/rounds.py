"""list, round, bench and doctor: the algorithms and this machine."""

from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.experiments.algorithms import list_algorithms
from fediac.experiments.bench import run_bench
from fediac.experiments.doctor import run_doctor
from fediac.experiments.one_round import run_one_round
from fediac.experiments.shares import parse_count
from fediac.experiments.synthetic import RESNET18_DIM


@app.command("list")
def _list(*, as_json: AsJson = False) -> None:
    """Name the algorithms, with one line each."""
    list_algorithms(as_json=as_json)


@app.command("round")
def _round(
    *,
    dim: Annotated[
        str, typer.Option(metavar="COUNT", help="Entries in an update.")
    ] = str(RESNET18_DIM),
    clients: Annotated[int, typer.Option(min=1, help="Clients in the round.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of updates and algorithms.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Aggregate made-up updates with every algorithm, through one switch.

    The updates have power-law magnitudes like those of ResNet-18; clients agree on
    most of the large entries. The table shows what each algorithm sends, what it asks
    of the switch, and how near the mean it gets in a single round.

    \b
    up, down        payload of all clients; 1 MiB is 2^20 bytes
    wire            the same as real packets with all headers
    aggregations    slots the switch completed
    register        the most of its memory that was in use at a time
    relative error  distance from the exact mean; what is missing stays in
                    the clients' residuals and is sent in later rounds

    \b
    Examples:
      fediac round
      fediac round --dim 1e6 --clients 50
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    run_one_round(
        dim=parse_count(dim, name="dim"), n_clients=clients, seed=seed, as_json=as_json
    )


@app.command("bench")
def _bench(
    *,
    dim: Annotated[
        str, typer.Option(metavar="COUNT", help="Entries in the vector.")
    ] = str(RESNET18_DIM),
    as_json: AsJson = False,
) -> None:
    """Measure every kernel against a memcpy of the same vector, in one run.

    Times differ between machines and between runs; the ratio to a memcpy much less.
    Caches are flushed before each repeat, since a real round finds them cold.
    """
    run_bench(dim=parse_count(dim, name="dim"), as_json=as_json)


@app.command("doctor")
def _doctor(*, as_json: AsJson = False) -> None:
    """Say what this machine has, and what each missing piece would bring."""
    run_doctor(as_json=as_json)
