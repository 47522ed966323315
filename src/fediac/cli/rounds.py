"""list, round, bench and doctor: the algorithms and this machine."""

from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.cli.options import algorithms_option, count_option, named_options
from fediac.defaults import RESNET18_DIM
from fediac.errors import ConfigError


@app.command("list")
def _list(
    *,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="algorithms, or settings for every key of a run's TOML file.",
        ),
    ] = "algorithms",
    as_json: AsJson = False,
) -> None:
    """List the algorithms, or all settings of a run.

    \b
    Examples:
      fediac list
      fediac list settings
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    if what == "algorithms":
        from fediac.plan.list_algorithms import list_algorithms

        list_algorithms(as_json=as_json)
    elif what == "settings":
        from fediac.runs.settings.listing import list_settings

        list_settings(as_json=as_json)
    else:
        raise ConfigError(f"WHAT must be algorithms or settings, got {what!r}")


@app.command("round")
@named_options("dim", "n_clients")
def _round(
    *,
    dim: Annotated[
        int, count_option("Entries in an update.", at_least=1, metavar="COUNT")
    ] = RESNET18_DIM,
    clients: Annotated[
        int, count_option("Clients in the round, at most 1024.", at_least=1)
    ] = 20,
    algorithms: Annotated[str | None, algorithms_option()] = None,
    seed: Annotated[int, count_option("Seed for updates and algorithms.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Aggregate made-up updates with several algorithms, on one switch.

    The updates have power-law magnitudes like those of ResNet-18, and clients agree on
    most of the large entries. The table shows what each algorithm sends, what it needs
    of the switch, and how close to the mean it gets in a single round.

    \b
    up, down        payload of all clients; 1 MiB is 2^20 bytes
    wire            the same, as real packets with all headers
    aggregations    slots that the switch completed
    register        the most switch memory in use at any time
    relative error  distance from the exact mean; what is missing stays in
                    the clients' residuals and is sent in later rounds
    round           simulated time on the paper's links with its fast switch,
                    without local training
    real            time it took here, for all clients and the switch

    \b
    Examples:
      fediac round
      fediac round --dim 1e6 --clients 50
      fediac round --dim 1e6 --algorithms fediac,my_file:Mine
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.plan.one_round import run_one_round
    from fediac.plugins import list_named

    run_one_round(
        list_named(algorithms), dim=dim, n_clients=clients, seed=seed, as_json=as_json
    )


@app.command("bench")
def _bench(
    *,
    dim: Annotated[
        int, count_option("Entries in the vector.", at_least=1, metavar="COUNT")
    ] = RESNET18_DIM,
    as_json: AsJson = False,
) -> None:
    """Measure every kernel against a memcpy of the same vector.

    Times differ between machines and between runs; the ratio to a memcpy differs much
    less. Caches are flushed before each repeat, because a real round finds them cold.
    """
    from fediac.plan.bench import run_bench

    run_bench(dim=dim, as_json=as_json)


@app.command("doctor")
def _doctor(*, as_json: AsJson = False) -> None:
    """Say what this machine has, and what installing the rest would bring."""
    from fediac.plan.doctor import run_doctor

    run_doctor(as_json=as_json)
