"""simulate and motivation: how long rounds take."""

from pathlib import Path
from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.cli.options import RESNET18, named_options, path_parser
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
        str, typer.Option(metavar="NAME", help="See 'fediac list'.")
    ] = "fediac",
    dim: Annotated[
        str, typer.Option(metavar="COUNT", help="Entries in an update.")
    ] = RESNET18,
    clients: _Clients = "20",
    chosen: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Entries one client sends: fediac's gia, or k of the k largest. "
            "[default: omnireduce 5%, libra and topk 1%, fediac by its threshold]",
        ),
    ] = None,
    bits: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Width of a level: fediac, switchml.  [default: 12]"
        ),
    ] = None,
    lanes: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="Widths of lanes: same up and down, dense (as few bits up as a "
            "client's levels need) or words (of 4, 8, 16, 32 bits): fediac, switchml.  "
            "[default: same]",
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Votes an entry needs: fediac. Without --chosen it decides how many "
            "of 5% votes agree.  [default: 3]",
        ),
    ] = None,
    entries_per_vote: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Neighbouring entries that share a vote: fediac.  [default: 1]",
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
    compute: _Compute = "2",
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
      fediac simulate --dim 1e9 --chosen 5% --bits 10 --switch slow
      fediac simulate --algorithm libra --rounds 10 --plot round.png
      fediac simulate --memory 1e6 --rates up-1.csv --rates up-2.csv --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.plan.expected_traffic import PAPER_BITS, ExpectedRound
    from fediac.plan.networks import NetworkSetting, parse_memory
    from fediac.plan.simulate import refuse_unused, run_simulate
    from fediac.switch.pipeline import DEFAULT_REGISTER_BYTES

    with named_options(
        *("dim", "chosen", "bits", "lanes", "threshold", "switch", "rates", "memory"),
        "rounds",
        n_clients="clients",
        compute_s="compute",
        entries_per_vote="entries-per-vote",
        register_bytes="memory",
    ):
        given = {
            "chosen": chosen,
            "bits": bits,
            "lanes": lanes,
            "threshold": threshold,
            "entries_per_vote": entries_per_vote,
        }
        refuse_unused(algorithm, [name for name in given if given[name] is not None])
        n_entries = parse_count(dim, name="dim", at_least=1)
        n_clients = parse_count(clients, name="n_clients", at_least=1)
        register_bytes = parse_memory(memory, name="--memory")
        setting = ExpectedRound(
            algorithm=algorithm,
            dim=n_entries,
            n_clients=n_clients,
            n_chosen=_share(chosen, of=n_entries, name="chosen"),
            bits=PAPER_BITS if bits is None else parse_count(bits, name="bits"),
            threshold=_share(threshold, of=n_clients, name="threshold"),
            entries_per_vote=1
            if entries_per_vote is None
            else parse_count(entries_per_vote, name="entries_per_vote"),
            register_bytes=register_bytes or DEFAULT_REGISTER_BYTES,
            lanes="same" if lanes is None else lanes,  # type: ignore[arg-type] # checked
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
            n_rounds=parse_count(rounds, name="rounds", at_least=1),
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
    compute: _Compute = "2",
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
    are the paper's best for each algorithm, at 12 bits.

    \b
    Examples:
      fediac motivation --plot motivation.png
      fediac motivation --sizes 1e6,1e8 --switch slow --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.plan.motivation import SIZES, run_motivation
    from fediac.plan.networks import NetworkSetting

    with named_options("switch", "rates", n_clients="clients", compute_s="compute"):
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
