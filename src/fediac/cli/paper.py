"""paper: the tables and figures of the paper, from runs that anyone can repeat."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.cli.options import counts_option, folder_option, number_option

# Help must not wait for what these are in `fediac.paper`; a test compares them.
PRODUCTS = (
    *("table1", "table2", "fig-traffic", "fig-accuracy", "fig-noniid", "fig-scale"),
    *("sweeps", "fig-theory", "pages", "runs"),
)
SCENARIOS = (
    *("cifar10-iid", "cifar10-noniid", "cifar100-iid", "cifar100-noniid", "femnist"),
    *("unipen62", "digits", "digits-iid", "digits-noniid"),
)


@app.command("paper")
def _paper(  # noqa: PLR0913 - one parameter for each option
    *,
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT",
            help=f"One or more of {'|'.join(PRODUCTS)}.",
            show_default=False,
        ),
    ],
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Run on a small scale, with the digits in the package: seconds on a "
            "CPU.",
        ),
    ] = False,
    only: Annotated[
        list[str],
        typer.Option(
            metavar="SCENARIO",
            help=f"One of {', '.join(SCENARIOS)}. May be repeated.  "
            "[default: the paper's]",
        ),
    ] = [],  # noqa: B006 - typer copies it
    entrants: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Run only these: names that --dry-run shows, such as fediac-tuned or "
            "libra.  [default: all]",
        ),
    ] = None,
    seeds: Annotated[Sequence[int], counts_option("Seeds to run: 1,2,3 or 1-3.")] = (
        1,
    ),
    until: Annotated[
        float | None,
        number_option(
            "Simulated seconds that a figure's runs last.  [default: the paper's 500, "
            "or 1 with --quick]",
            metavar="SECONDS",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        folder_option(
            "Where results go.  [default: results, or runs/paper-quick with --quick]"
        ),
    ] = None,
    data: Annotated[
        Path | None,
        folder_option(
            "Where data sets are.  [default: $FEDIAC_DATA or ~/.cache/fediac]"
        ),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch CIFAR if it is missing.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(metavar="auto|cpu|cuda", help="Where to train.  [default: auto]"),
    ] = None,
    keep_models: Annotated[
        bool,
        typer.Option(
            "--keep-models",
            help="Keep models and checkpoints (1 GB per CIFAR run), so that runs can "
            "be continued for longer.",
        ),
    ] = False,
    allow_other_kernels: Annotated[
        bool,
        typer.Option(
            "--allow-other-kernels",
            help="Continue interrupted runs even with other kernels, another processor "
            "or another PyTorch. The last bits of the results change, and the report "
            "says so.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Say which runs are needed, and how many rounds."
        ),
    ] = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Run nothing; use only stored runs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce tables and figures of the paper.

    Does the runs that are not stored in DIR yet. Then writes tables of all stored runs,
    and figures of the scenarios and seeds asked for. Complete runs are kept in
    DIR/runs/SCENARIO.zip, others in DIR/runs/SCENARIO/ENTRANT/seedK, so a later command
    continues where an earlier one stopped, and tables and figures share runs.

    \b
    table1, table2   rounds, payload and simulated time to the target accuracy, with
                     the fast and the slow switch, beside the paper's values
    fig-traffic      table1 as a picture: a dot with each algorithm's payload
    fig-accuracy     accuracy over 500 simulated seconds, with FediAC's best votes
    fig-noniid       final accuracy against beta, for FediAC and libra
    fig-scale        final accuracy against the threshold, for 20 to 50 clients
    sweeps           payload to the target for each algorithm's settings
    fig-theory       what the theory predicts for real rounds of fediac-tuned, and
                     what happens
    pages            a page for each scenario, as 'fediac report' writes it, with
                     all seeds of table1
    runs             the list of all stored runs: what they cost and who made them

    \b
    fediac           as in 'fediac run': bits = "bound", the smallest above the bound
    fediac-tuned     bits = "tuned": the width that needs the fewest bytes for the
                     same progress

    \b
    Examples:
      fediac paper table1 --quick
      fediac paper table1 table2 fig-accuracy --only cifar10-iid --download
      fediac paper table1 --only cifar10-iid --entrants fediac,switchml --seeds 1-3
      fediac paper fig-scale --dry-run
      fediac paper fig-noniid --only digits-noniid --until 8 --out runs/digits
      fediac paper table1 fig-accuracy --no-run --out results
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.paper.arguments import make_request, parse_scope
    from fediac.paper.command import paper_command

    paper_command(
        make_request(
            what,
            parse_scope(only, entrants, seeds, until_s=until, is_quick=quick),
            out=out,
            data=data,
            device=device,
            keeps_models=keep_models,
            allows_other_kernels=allow_other_kernels,
            may_download=download,
            may_run=not no_run,
            is_dry=dry_run,
            as_json=as_json,
        )
    )
