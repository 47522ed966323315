"""``fediac simulate``: how long rounds take on a given network, without training."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from fediac.compressors.forecast import Expected, doubts_of, tally_threshold
from fediac.compressors.settings import show_settings
from fediac.console import count, open_console, say_written, write_json
from fediac.core.ledger import Ledger
from fediac.errors import ArgumentError
from fediac.number_words import mib
from fediac.plan.expected_traffic import ExpectedRound, expected_ledger
from fediac.plan.networks import (
    NetworkDescription,
    describe_network,
    make_network,
)
from fediac.plan.pictures import check_plot
from fediac.plan.plots import plot_round
from fediac.sim import RoundTiming, simulate_round
from fediac.transports import WIRE

MAX_ROUNDS = 100_000
"""All rounds are kept in memory; more is taken for a typing error."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """Simulated rounds, one after another, and their settings.

    Attributes:
        payload_mib: What all clients send and get in a round, without headers.
        wire_mib: The same as real packets with all headers.
    """

    setting: ExpectedRound
    network: NetworkDescription
    seed: int
    rounds: tuple[RoundTiming, ...]
    payload_mib: float
    wire_mib: float

    @property
    def longest(self) -> RoundTiming:
        """The round that took longest, which names the bottleneck."""
        return max(self.rounds, key=lambda each: each.round_s)


def simulate(
    setting: ExpectedRound, network: NetworkDescription, *, n_rounds: int, seed: int
) -> Simulation:
    """Return ``n_rounds`` rounds, each beginning when the one before ends."""
    if n_rounds < 1:
        raise ArgumentError("n_rounds", f"must be at least 1, got {n_rounds}")
    if n_rounds > MAX_ROUNDS:
        raise ArgumentError(
            "n_rounds",
            f"must be at most {MAX_ROUNDS:,} (all are kept in memory), got {n_rounds}",
        )
    links = make_network(
        network,
        n_clients=setting.n_clients,
        threshold=tally_threshold(setting.compressor),
        seed=seed,
    )
    rounds: list[RoundTiming] = []
    start_s = 0.0
    ledger = Ledger()
    console = Console(stderr=True)
    for number in track(
        range(1, n_rounds + 1),
        description="simulating",
        console=console,
        transient=True,
        disable=n_rounds < 2 or not console.is_terminal,
    ):
        ledger = expected_ledger(setting, round_number=number)
        timing = simulate_round(
            ledger, links, seed=seed, round_number=number, start_s=start_s
        )
        rounds.append(timing)
        start_s += timing.round_s
    return Simulation(
        setting=setting,
        network=network,
        seed=seed,
        rounds=tuple(rounds),
        payload_mib=ledger.traffic().payload_mib,
        wire_mib=ledger.traffic(WIRE).mib,
    )


def run_simulate(
    setting: ExpectedRound,
    network: NetworkDescription,
    *,
    n_rounds: int,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Time rounds, print the result, and draw the longest one if asked.

    Args:
        setting: What is sent.
        network: Over what.
        n_rounds: How many rounds.
        seed: Seed for traces, links and servers.
        plot: Where to put the picture.
        as_json: Print one JSON document instead of text.
    """
    if plot is not None:
        check_plot(plot)
    simulation = simulate(setting, network, n_rounds=n_rounds, seed=seed)
    if plot is not None:
        plot_round(simulation.longest, path=plot, title=_title(simulation))
        say_written(plot)
    if as_json:
        write_json(_document(simulation))
    else:
        _show(simulation)


def _title(simulation: Simulation) -> str:
    setting = simulation.setting
    return (
        f"{setting.algorithm}, {count(setting.dim, 'parameter')}, "
        f"{count(setting.n_clients, 'client')}, {describe_network(simulation.network)}"
    )


def _document(simulation: Simulation) -> dict[str, Any]:
    setting, network = simulation.setting, simulation.network
    return {
        "algorithm": setting.algorithm,
        "dim": setting.dim,
        "n_clients": setting.n_clients,
        "weighted": setting.is_weighted,
        "settings": show_settings(setting.compressor),
        "exchanges": [
            _exchange_document(each) for step in setting.steps for each in step
        ],
        "switch": network.switch,
        "rates": list(network.rates),
        "memory": network.register_bytes,
        "compute_s": network.compute_s,
        "seed": simulation.seed,
        "rounds": [_round_document(each) for each in simulation.rounds],
        "payload_mib": simulation.payload_mib,
        "wire_mib": simulation.wire_mib,
        "measured_percent": setting.measured,
        "bottleneck": simulation.longest.bottleneck,
    }


def _exchange_document(expected: Expected) -> dict[str, Any]:
    """Return what one client sends and receives in an exchange."""
    bits_up, bits_down = expected.widths
    return {
        "phase": expected.phase,
        "kind": expected.kind.__name__.lower(),
        "items_up": expected.up,
        "items_down": expected.down,
        "bits_up": bits_up,
        "bits_down": bits_down,
    }


def _round_document(timing: RoundTiming) -> dict[str, Any]:
    return {
        "round_s": timing.round_s,
        "phases": [asdict(each) for each in timing.phases],
        "shares_s": timing.shares,
        "demands": timing.demands,
        "clients": [asdict(each) for each in timing.clients],
        "slowest_client": timing.slowest_client,
        "switch": asdict(timing.switch),
        "server": None if timing.server is None else asdict(timing.server),
        "max_waiting": timing.max_waiting,
        "max_open_slots": timing.max_open_slots,
        "is_overloaded": timing.is_overloaded,
        "bottleneck": timing.bottleneck,
    }


def _show(simulation: Simulation) -> None:
    console = open_console()
    rounds = simulation.rounds
    console.print(_title(simulation))
    console.print()
    console.print(_phase_table(rounds))
    console.print()
    times = [each.round_s for each in rounds]
    if len(rounds) > 1:
        console.print(
            f"{len(rounds)} rounds take {sum(times):,.3f} s: "
            f"{min(times):,.3f} to {max(times):,.3f} s each."
        )
    longest = simulation.longest
    console.print(
        f"A round sends {mib(simulation.payload_mib)} of payload, "
        f"{mib(simulation.wire_mib)} on the wire, all clients, up and down."
    )
    measured = simulation.setting.measured
    if measured is not None:
        least, most = measured
        console.print(
            "That is for choices spread evenly: real rounds of 20 clients took "
            f"{least} to {most} % of such a payload."
        )
    setting = simulation.setting
    for doubt in doubts_of(setting.compressor, setting.dim):
        console.print(f"Note: {doubt}.")
    console.print(_queue_sentence(longest))
    console.print(f"Bottleneck: {longest.bottleneck}.")


def _queue_sentence(timing: RoundTiming) -> str:
    switch = timing.switch
    return (
        f"The switch served {count(switch.n_packets, 'packet')} and worked "
        f"{100.0 * switch.utilization:.3g} % of the time; a packet waited "
        f"{_microseconds(switch.mean_wait_s)} on average and "
        f"{_microseconds(switch.max_wait_s)} at most; at most "
        f"{count(timing.max_waiting, 'packet')} waited and "
        f"{count(timing.max_open_slots, 'slot')} stood open at a time."
    )


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:,.4g} us"


def _phase_table(rounds: Sequence[RoundTiming]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("phase", no_wrap=True)
    for header in ("upload s", "download s"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_row("local compute", f"{fmean(t.shares['compute'] for t in rounds):,.3f}")
    for place, phase in enumerate(rounds[0].phases):
        up = fmean(timing.phases[place].upload_s for timing in rounds)
        down = fmean(timing.phases[place].download_s for timing in rounds)
        table.add_row(phase.name, f"{up:,.3f}", f"{down:,.3f}")
    mean = fmean(timing.round_s for timing in rounds)
    table.add_row("whole round", f"{mean:,.3f}")
    return table
