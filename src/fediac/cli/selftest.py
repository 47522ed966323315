"""selftest: rounds over a bad network on this machine, compared with memory."""

from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.cli.options import count_option, named_options, number_option


def _share(text: str) -> object:
    return number_option(text, metavar="SHARE")


@app.command("selftest")
@named_options(
    *("n_clients", "dim", "n_rounds"),
    *("loss", "reorder", "duplicate", "corrupt"),
    n_kills="chaos",
)
def _selftest(  # noqa: PLR0913 - one parameter for each option
    *,
    clients: Annotated[
        int, count_option("Clients in a round, at most 1024.", at_least=1)
    ] = 8,
    dim: Annotated[
        int, count_option("Entries in an update.", at_least=1, metavar="COUNT")
    ] = 1_000_000,
    rounds: Annotated[int, count_option("Rounds of each algorithm.", at_least=1)] = 3,
    loss: Annotated[float, _share("Datagrams that are lost.")] = 0.05,
    reorder: Annotated[float, _share("Datagrams that others overtake.")] = 0.05,
    duplicate: Annotated[float, _share("Datagrams that arrive twice.")] = 0.02,
    corrupt: Annotated[float, _share("Datagrams that arrive damaged.")] = 0.01,
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="fediac, another that needs no far server, or all."
        ),
    ] = "fediac",
    chaos: Annotated[
        int,
        count_option(
            "How often a client, the coordinator or the switch is killed meanwhile, "
            "and started again."
        ),
    ] = 0,
    attack: Annotated[
        bool,
        typer.Option(
            "--attack",
            help="Send a switch what strangers may: forged, replayed, truncated, "
            "oversized, another job's and random packets, and look into its memory "
            "for what they changed.",
        ),
    ] = False,
    seed: Annotated[int, count_option("Seed for updates and for the network.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Run rounds through a switch over a bad network, here, and check every bit.

    It starts a switch and, before it, a relay that loses, delays, doubles and damages
    datagrams, then a coordinator and clients that run rounds through both. What all of
    them hold in the end is compared with the same rounds in memory. If one bit differs,
    it says which, and the exit code is 1. It needs neither root nor a network, and
    leaves no process.

    Up to 64 clients are a process each, which keeps what it must not forget in the
    folder for temporary files (TMPDIR): about 16 bytes an entry. More clients are all
    in one process, as those of 'fediac run --switch'.

    \b
    --chaos N       kills clients, the coordinator and the switch, N times in all, and
                    starts them again: an update counts in one committed round, or is
                    still in its client's hands, or in its residual
    --attack        the switch's own memory says what strangers changed: nothing

    \b
    In --json
      retransmissions   packets that clients and coordinator sent again
      drops             what the switch dropped, by reason
      accepted          datagrams of strangers that changed something
      rounds_retried    attempts at rounds that were given up, and made again
      longest_wait_s    the longest that a round took, attempts and kills included

    \b
    Examples:
      fediac selftest
      fediac selftest --algorithm all --loss 0.1 --json
      fediac selftest --clients 5 --dim 20000 --chaos 20
      fediac selftest --rounds 1 --attack
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.selftest.command import run_selftest
    from fediac.selftest.settings import SelftestSettings, read_algorithms
    from fediac.selftest.weather import Weather

    settings = SelftestSettings(
        algorithms=read_algorithms(algorithm),
        n_clients=clients,
        dim=dim,
        n_rounds=rounds,
        weather=Weather(loss, reorder, duplicate, corrupt),
        n_kills=chaos,
        attacks=attack,
        seed=seed,
    )
    run_selftest(settings, as_json=as_json)
