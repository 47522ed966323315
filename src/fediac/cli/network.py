"""simulate and motivation: how long rounds take."""

from pathlib import Path
from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.experiments.expected import PAPER_BITS, ExpectedRound
from fediac.experiments.motivation import run_motivation
from fediac.experiments.networks import NetworkSetting, parse_memory
from fediac.experiments.shares import parse_count, parse_share
from fediac.experiments.simulate import run_simulate
from fediac.experiments.synthetic import RESNET18_DIM

_Clients = Annotated[int, typer.Option(help="Clients in a round.")]
_Switch = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="fast, slow (the paper's), or packets a second as 1e6."
    ),
]
_RatesOption = Annotated[
    list[str],
    typer.Option(
        metavar="RATES",
        help="Packets a second that clients send: paper (traces clipped to 200-2800), "
        "nyumets (the traces as they are), uniform, 700, 200-2800, or a file. "
        "Give the option again for more files.",
    ),
]
_Compute = Annotated[float, typer.Option(help="Seconds of local training.")]
_Seed = Annotated[int, typer.Option(min=0, help="Of traces, links and servers.")]
_Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw a picture: .png, .pdf or .svg."),
]


@app.command("simulate")
def _simulate(  # noqa: PLR0913 - one parameter for each option
    *,
    algorithm: Annotated[
        str, typer.Option(metavar="NAME", help="See 'fediac list'.")
    ] = "fediac",
    dim: Annotated[
        str, typer.Option(metavar="COUNT", help="Entries in an update.")
    ] = str(RESNET18_DIM),
    clients: _Clients = 20,
    chosen: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Entries one client sends: fediac's gia, or k of the k largest. "
            "[default: omnireduce 5%, libra and topk 1%, fediac by its threshold]",
        ),
    ] = None,
    bits: Annotated[
        int, typer.Option(help="Width of a level: fediac, switchml.")
    ] = PAPER_BITS,
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Votes an entry needs: fediac. Without --chosen it decides how many "
            "of 5% votes agree.  [default: 3]",
        ),
    ] = None,
    switch: _Switch = "fast",
    rates: _RatesOption = ["paper"],  # noqa: B006 - typer copies it
    memory: Annotated[
        str,
        typer.Option(
            metavar="BYTES",
            help="Of the switch's registers: a number, or unbounded (as in the paper).",
        ),
    ] = "unbounded",
    compute: _Compute = 2.0,
    rounds: Annotated[int, typer.Option(help="Rounds, one after another.")] = 1,
    seed: _Seed = 1,
    plot: _Plot = None,
    as_json: AsJson = False,
) -> None:
    """Time rounds on a network, packet by packet, without training.

    Clients send packets of 1,500 bytes as Poisson processes that follow real traces;
    the switch serves them first come, first served; answers go down as soon as they
    are complete. What a client would choose is taken to be spread evenly: blocks, hot
    entries and unions are expected values.

    \b
    upload s        from when the last client could begin until the switch (or
                    the far server) had all packets of the phase
    download s      from then until the last client had all answers
    bottleneck      what the longest round needs most of: a client's uplink, the
                    switch, the server, downlinks or local compute
    --plot          packets waiting, switch utilization, slots in use, and each
                    client's finish, in the longest round

    \b
    Examples:
      fediac simulate --algorithm switchml --rates 200 --clients 1
      fediac simulate --dim 1e9 --chosen 5% --bits 10 --switch slow
      fediac simulate --algorithm libra --rounds 10 --plot round.png
      fediac simulate --memory 1e6 --rates up-1.csv --rates up-2.csv --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    n_entries = parse_count(dim, name="dim")
    setting = ExpectedRound(
        algorithm=algorithm,
        dim=n_entries,
        n_clients=clients,
        n_chosen=(
            None if chosen is None else parse_share(chosen, of=n_entries, name="chosen")
        ),
        bits=bits,
        threshold=(
            None
            if threshold is None
            else parse_share(threshold, of=clients, name="threshold")
        ),
    )
    network = NetworkSetting(switch, tuple(rates), parse_memory(memory), compute)
    run_simulate(
        setting, network, n_rounds=rounds, seed=seed, plot=plot, as_json=as_json
    )


@app.command("motivation")
def _motivation(  # noqa: PLR0913 - one parameter for each option
    *,
    clients: _Clients = 20,
    switch: _Switch = "fast",
    rates: _RatesOption = ["paper"],  # noqa: B006 - typer copies it
    compute: _Compute = 2.0,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Entries of the models: 1e5,1e7,1e9.  [default: 1e5 to 1e9]",
        ),
    ] = None,
    seed: _Seed = 1,
    plot: _Plot = None,
    as_json: AsJson = False,
) -> None:
    """Time a round of every algorithm for models from 10^5 to 10^9 parameters.

    Every packet is simulated, so the largest models take a few seconds each. Settings
    are the paper's best for each algorithm, at 12 bits.

    \b
    Examples:
      fediac motivation --plot motivation.png
      fediac motivation --sizes 1e6,1e8 --switch slow --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    network = NetworkSetting(switch, tuple(rates), None, compute)
    options: dict[str, list[int]] = {}
    if sizes is not None:
        parts = sizes.split(",")
        options["sizes"] = [parse_count(part, name="sizes") for part in parts]
    run_motivation(
        network, n_clients=clients, seed=seed, plot=plot, as_json=as_json, **options
    )
