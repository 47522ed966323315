"""simulate and motivation: how long rounds take."""

from pathlib import Path
from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.cli.options import RESNET18, RESNET18_S, named_options, path_parser
from fediac.core.shares import parse_count, parse_number, parse_share

_Clients = Annotated[
    str, typer.Option(metavar="N", help="Clients in a round, at most 1024.")
]
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
_Compute = Annotated[
    str, typer.Option(metavar="SECONDS", help="Local training of every client.")
]
_Seed = Annotated[
    str, typer.Option(metavar="N", help="Seed for traces, links and servers.")
]
_Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Draw a picture: .png, .pdf or .svg.",
        parser=path_parser("--plot", "a file"),
    ),
]


@app.command("simulate")
def _simulate(  # noqa: PLR0913 - one parameter for each option
    *,
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="See 'fediac list'; or your own module:name."
        ),
    ] = "fediac",
    overrides: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the algorithm, as n_votes=1% or bits=8; 'fediac list "
            "settings' shows all. May be repeated.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    dim: Annotated[
        str, typer.Option(metavar="COUNT", help="Entries in an update.")
    ] = RESNET18,
    clients: _Clients = "20",
    chosen: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Entries that clients agree on: fediac's gia.  [default: what its "
            "votes and threshold let expect]",
        ),
    ] = None,
    switch: _Switch = "fast",
    rates: _RatesOption = ["paper"],  # noqa: B006 - typer copies it
    memory: Annotated[
        str,
        typer.Option(
            metavar="BYTES",
            help="Bytes of registers: a number, or unbounded (as in the paper).",
        ),
    ] = "unbounded",
    compute: _Compute = RESNET18_S,
    rounds: Annotated[
        str,
        typer.Option(metavar="N", help="Rounds, one after another; at most 100,000."),
    ] = "1",
    seed: _Seed = "1",
    plot: _Plot = None,
    as_json: AsJson = False,
) -> None:
    """Time rounds on a network, packet by packet, without training.

    Clients send packets of 1,500 bytes as Poisson processes that follow real traces;
    the switch serves them first come, first served; answers go down as soon as they
    are complete. What a client would choose is taken to be spread evenly: blocks, hot
    entries and unions are expected values. Real clients agree more, so a real round of
    libra may take a third of what is said here.

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
      fediac simulate --dim 1e9 --chosen 5% --set bits=10 --switch slow
      fediac simulate --algorithm libra --set n_sent=0.1% --rounds 10 --plot round.png
      fediac simulate --memory 1e6 --rates up-1.csv --rates up-2.csv --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.defaults import REGISTER_BYTES
    from fediac.plan.expected_traffic import ExpectedRound, check_clients
    from fediac.plan.networks import NetworkSetting, parse_memory
    from fediac.plan.simulate import run_simulate
    from fediac.runs.algorithm import make_named

    with named_options(
        *("dim", "n_clients", "n_chosen", "switch", "rates", "memory", "compute_s"),
        *("n_rounds",),
        register_bytes="memory",
    ):
        n_entries = parse_count(dim, name="dim", at_least=1)
        n_clients = parse_count(clients, name="n_clients", at_least=1)
        check_clients(n_clients)
        register_bytes = parse_memory(memory, name="--memory")
        setting = ExpectedRound(
            algorithm=algorithm,
            compressor=make_named(
                algorithm, overrides, n_clients=n_clients, dim=n_entries
            ),
            dim=n_entries,
            n_chosen=_share(chosen, of=n_entries, name="n_chosen"),
            register_bytes=register_bytes or REGISTER_BYTES,
        )
        network = NetworkSetting(
            switch,
            tuple(rates),
            register_bytes,
            parse_number(compute, name="compute_s"),
        )
        run_simulate(
            setting,
            network,
            n_rounds=parse_count(rounds, name="n_rounds", at_least=1),
            seed=parse_count(seed, name="--seed"),
            plot=plot,
            as_json=as_json,
        )


def _share(text: str | None, *, of: int, name: str) -> int | None:
    return None if text is None else parse_share(text, of=of, name=name)


@app.command("motivation")
def _motivation(  # noqa: PLR0913 - one parameter for each option
    *,
    clients: _Clients = "20",
    switch: _Switch = "fast",
    rates: _RatesOption = ["paper"],  # noqa: B006 - typer copies it
    compute: _Compute = RESNET18_S,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Entries of the models: 1e5,1e7,1e9.  [default: 1e5 to 1e9]",
        ),
    ] = None,
    seed: _Seed = "1",
    plot: _Plot = None,
    as_json: AsJson = False,
) -> None:
    """Time a round of every algorithm, for models up to 10^9 entries.

    Every packet is simulated, so the largest models take a few seconds each. Settings
    are every algorithm's defaults: the best that the paper found.

    \b
    Examples:
      fediac motivation --plot motivation.png
      fediac motivation --sizes 1e6,1e8 --switch slow --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.plan.motivation import SIZES, run_motivation
    from fediac.plan.networks import NetworkSetting

    with named_options("n_clients", "switch", "rates", "compute_s"):
        dims = list(SIZES)
        if sizes is not None:
            dims = [
                parse_count(each, name="--sizes", at_least=1)
                for each in sizes.split(",")
            ]
        compute_s = parse_number(compute, name="compute_s")
        run_motivation(
            NetworkSetting(switch, tuple(rates), None, compute_s),
            n_clients=parse_count(clients, name="n_clients", at_least=1),
            seed=parse_count(seed, name="--seed"),
            plot=plot,
            as_json=as_json,
            sizes=dims,
        )
