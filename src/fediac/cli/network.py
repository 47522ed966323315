"""simulate and motivation: how long rounds take."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.cli.options import (
    count_option,
    file_option,
    memory_option,
    named_options,
    number_option,
    share_option,
    sizes_option,
)
from fediac.core.shares import parse_share
from fediac.defaults import REGISTER_BYTES, RESNET18_DIM, RESNET18_S

_Clients = Annotated[int, count_option("Clients in a round, at most 1024.", at_least=1)]
_Switch = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="fast or slow (the paper's), or packets per second: 1e6."
    ),
]
_RatesOption = Annotated[
    list[str],
    typer.Option(
        metavar="RATES",
        help="How many packets per second clients send: paper (traces clipped to "
        "200-2800), nyumets (the same traces, not clipped), uniform, 700, 200-2800, or "
        "a trace file. Repeat the option for several files.",
    ),
]
_Compute = Annotated[
    float,
    number_option(
        "How long each client trains in a round; by default the paper's time for "
        "ResNet-18.",
        metavar="SECONDS",
    ),
]
_Seed = Annotated[int, count_option("Seed for traces, links and servers.")]
_Plot = Annotated[Path | None, file_option("Draw a picture: .png, .pdf or .svg.")]


@app.command("simulate")
@named_options(
    *("dim", "n_clients", "n_chosen", "switch", "rates", "compute_s", "n_rounds"),
    register_bytes="memory",
)
def _simulate(  # noqa: PLR0913 - one parameter for each option
    *,
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A name from 'fediac list', or module:name for your own.",
        ),
    ] = "fediac",
    overrides: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the algorithm, such as n_votes=1% or bits=8; 'fediac "
            "list settings' shows all. May be repeated.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    dim: Annotated[
        int, count_option("Entries in an update.", at_least=1, metavar="COUNT")
    ] = RESNET18_DIM,
    clients: _Clients = 20,
    chosen: Annotated[
        str | None,
        share_option(
            "How many entries clients agree on (fediac's gia).  [default: as many as "
            "expected from its votes and threshold]"
        ),
    ] = None,
    switch: _Switch = "fast",
    rates: _RatesOption = ["paper"],  # noqa: B006 - typer copies it
    memory: Annotated[
        int | None,
        memory_option(
            "The switch's registers: bytes, or unbounded.  [default: unbounded, as in "
            "the paper]"
        ),
    ] = None,
    compute: _Compute = RESNET18_S,
    weighted: Annotated[
        bool,
        typer.Option(
            "--weighted",
            help="Clients count by their examples, whose number is added first.",
        ),
    ] = False,
    rounds: Annotated[
        int,
        count_option("Rounds, one after another; at most 100,000.", at_least=1),
    ] = 1,
    seed: _Seed = 1,
    plot: _Plot = None,
    as_json: AsJson = False,
) -> None:
    """Time rounds on a network, packet by packet, without training.

    Clients send packets of 1,500 bytes as Poisson processes whose rates follow real
    traces. The switch serves packets in the order in which they arrive, and sends an
    answer as soon as it is complete. The entries that a client chooses are assumed to
    be spread evenly, so blocks, hot entries and unions are expected values. Real
    clients agree more: a real round of libra may take a third of the time shown here.

    \b
    upload s        from the moment the last client could begin until the switch
                    (or the remote server) has all packets of the phase
    download s      from then until the last client has all answers
    bottleneck      what limits the longest round: a client's uplink, the switch,
                    the server, the downlinks or local training
    --plot          waiting packets, switch utilization, slots in use, and when each
                    client finishes, in the longest round

    \b
    Examples:
      fediac simulate --algorithm switchml --rates 200 --clients 1
      fediac simulate --dim 1e9 --chosen 5% --set bits=10 --switch slow
      fediac simulate --algorithm libra --set n_sent=0.1% --rounds 10 --plot round.png
      fediac simulate --memory 1e6 --rates up-1.csv --rates up-2.csv --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.plan.expected_traffic import ExpectedRound, check_clients
    from fediac.plan.networks import NetworkDescription
    from fediac.plan.simulate import run_simulate
    from fediac.runs.algorithm import make_named

    check_clients(clients)
    n_chosen = None
    if chosen is not None:
        n_chosen = parse_share(chosen, of=dim, name="n_chosen")
    run_simulate(
        ExpectedRound(
            algorithm=algorithm,
            compressor=make_named(algorithm, overrides, n_clients=clients, dim=dim),
            dim=dim,
            n_chosen=n_chosen,
            register_bytes=memory or REGISTER_BYTES,
            is_weighted=weighted,
        ),
        NetworkDescription(switch, tuple(rates), memory, compute),
        n_rounds=rounds,
        seed=seed,
        plot=plot,
        as_json=as_json,
    )


@app.command("motivation")
@named_options("n_clients", "switch", "rates", "compute_s")
def _motivation(  # noqa: PLR0913 - one parameter for each option
    *,
    clients: _Clients = 20,
    switch: _Switch = "fast",
    rates: _RatesOption = ["paper"],  # noqa: B006 - typer copies it
    compute: _Compute = RESNET18_S,
    sizes: Annotated[
        Sequence[int] | None,
        sizes_option(
            "Sizes of the models, in entries: 1e5,1e7,1e9.  [default: 1e5 to 1e9]"
        ),
    ] = None,
    seed: _Seed = 1,
    plot: _Plot = None,
    as_json: AsJson = False,
) -> None:
    """Time a round of every algorithm, for models up to 10^9 entries.

    Every packet is simulated, so the largest models take a few seconds each. All
    algorithms run with their defaults, the best settings that the paper found.

    \b
    Examples:
      fediac motivation --plot motivation.png
      fediac motivation --sizes 1e6,1e8 --switch slow --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.plan.motivation import SIZES, run_motivation
    from fediac.plan.networks import NetworkDescription

    run_motivation(
        NetworkDescription(switch, tuple(rates), None, compute),
        n_clients=clients,
        seed=seed,
        plot=plot,
        as_json=as_json,
        sizes=SIZES if sizes is None else sizes,
    )
