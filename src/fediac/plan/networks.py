"""Networks as users describe them: switches and rates in words and numbers."""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fediac.core.ledger import PAYLOAD
from fediac.defaults import COMPUTE_S
from fediac.errors import ArgumentError, TraceError, say_count
from fediac.sim import (
    Bounded,
    Network,
    Rates,
    Service,
    Uplink,
    constant_uplinks,
    load_trace,
    paper_switch,
    paper_uplinks,
    shipped_traces,
    switch_of_rate,
    trace_uplinks,
    uniform_uplinks,
)
from fediac.sim.rates import MAX_PACKETS, PAPER_RATES
from fediac.switch.registers import Layout
from fediac.wire.header import Kind

_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:e\+?[0-9]+)?)"
_ONE = re.compile(_NUMBER, re.IGNORECASE)
_RANGE = re.compile(f"{_NUMBER}-{_NUMBER}", re.IGNORECASE)

_SLOWEST_SWITCH = 0.04
"""Packets per second; below, a packet would take longer than a service may."""

_FASTEST_SWITCH = 1e12
"""Packets per second: one packet per tick of the clock, which counts picoseconds."""


@dataclass(frozen=True, slots=True)
class NetworkDescription:
    """A network in words.

    Attributes:
        switch: ``fast``, ``slow``, or packets a second.
        rates: ``paper``, ``nyumets``, ``uniform``, a rate, a range of rates, or files.
        register_bytes: Memory of the switch; None: unbounded.
        compute_s: Local training of every client.
    """

    switch: str = "fast"
    rates: tuple[str, ...] = ("paper",)
    register_bytes: int | None = None
    compute_s: float = COMPUTE_S


def make_network(
    setting: NetworkDescription, *, n_clients: int, threshold: int, seed: int
) -> Network:
    """Return the network that a setting describes.

    Args:
        setting: In words.
        n_clients: Clients that it connects.
        threshold: Votes an entry needs, which decides how long a slot is.
        seed: Seed for rates and for the clients' places in their traces.
    """
    memory = None
    if setting.register_bytes is not None:
        memory = bounded_memory(setting.register_bytes, n_clients, threshold)
    return Network(
        uplinks=make_uplinks(setting.rates, n_clients, seed=seed),
        switch=parse_switch(setting.switch),
        compute_s=setting.compute_s,
        memory=memory,
    )


def describe_network(setting: NetworkDescription) -> str:
    """Return the network in words, for titles."""
    switch = f"{setting.switch} switch"
    if setting.switch not in ("fast", "slow"):
        switch = f"switch of {setting.switch} packets/s"
    n_bytes = setting.register_bytes
    memory = "" if n_bytes is None else f", {n_bytes:,} bytes of memory"
    return f"{switch}{memory}, rates {', '.join(setting.rates)}"


def parse_switch(text: str) -> Service:
    """Return the switch for ``fast``, ``slow`` or a number of packets per second."""
    written = text.strip()
    if _ONE.fullmatch(written.removeprefix("-")):
        if float(written) < _SLOWEST_SWITCH:
            raise ArgumentError(
                "switch",
                f"must be at least {_SLOWEST_SWITCH} packets per second, got {text}",
            )
        if float(written) > _FASTEST_SWITCH:
            raise ArgumentError(
                "switch",
                f"must be at most {_FASTEST_SWITCH:,.0f} packets per second (one "
                f"per tick of the clock), got {text}",
            )
        return switch_of_rate(float(written))
    if written not in ("fast", "slow"):
        raise ArgumentError(
            "switch", f"must be fast, slow or packets per second, got {text!r}"
        )
    return paper_switch(written)


def make_uplinks(
    rates: Sequence[str], n_clients: int, *, seed: int
) -> tuple[Uplink, ...]:
    """Return one uplink per client; see `NetworkDescription`.

    Several entries must all be files; client i takes file i mod n.
    """
    written = [each.strip() for each in rates]
    if len(written) == 1:
        found = _named_rates(written[0], n_clients, seed)
        if found is not None:
            return found
    for text in written:
        if not _is_file(text):
            raise ArgumentError(
                "rates", f"must all be files where there are several, got {text!r}"
            )
    if not written:
        raise ArgumentError("rates", "must name at least one rate or file, got none")
    traces = [_load_trace(each) for each in written]
    return trace_uplinks(n_clients, traces, seed=seed)


def _named_rates(text: str, n_clients: int, seed: int) -> tuple[Uplink, ...] | None:
    if text == "paper":
        return paper_uplinks(n_clients, seed=seed)
    if text == "nyumets":
        traces = list(shipped_traces().values())
        return trace_uplinks(n_clients, traces, seed=seed)
    if text == "uniform":
        return uniform_uplinks(n_clients, *PAPER_RATES, seed=seed)
    found = _written_rates(text, n_clients, seed)
    if found is None and not _is_file(text):
        raise ArgumentError(
            "rates",
            "must be paper, nyumets, uniform, packets per second such as 700 or "
            f"200-2800, or a file, got {text!r}",
        )
    return found


def _written_rates(text: str, n_clients: int, seed: int) -> tuple[Uplink, ...] | None:
    """Return uplinks with one rate or a range of rates; None if it is neither."""
    both = _RANGE.fullmatch(text)
    if both:
        lowest, highest = float(both[1]), float(both[2])
        if not 0.0 < lowest <= highest <= MAX_PACKETS:
            raise ArgumentError(
                "rates",
                f"must be a range with 0 < lowest <= highest <= {MAX_PACKETS}, "
                f"got {text!r}",
            )
        return uniform_uplinks(n_clients, lowest, highest, seed=seed)
    is_number = _ONE.fullmatch(text) is not None
    if is_number and 0.0 < float(text) < math.inf:
        return constant_uplinks(n_clients, float(text))
    if is_number or text.startswith("-") or text.lower() in ("nan", "inf"):
        raise ArgumentError("rates", f"must be finite and above 0, got {text}")
    return None


def _is_file(text: str) -> bool:
    """Return whether this can be read: a file, or a pipe such as <(...)."""
    return os.path.exists(text) and not os.path.isdir(text)


def _load_trace(text: str) -> Rates:
    try:
        return load_trace(Path(text))
    except TraceError as error:
        rule = f"must be a trace of packets, got {error}"
        raise ArgumentError("rates", rule) from error


def bounded_memory(register_bytes: int, n_clients: int, threshold: int) -> Bounded:
    """Return how many slots clients may fill before they have the answers.

    Half of a streamed exchange's slots keep the answers of the last window for who lost
    them; block sums need two thirds, see ``fediac.switch.blocks``.

    Args:
        register_bytes: Memory of the switch.
        n_clients: Clients that it serves.
        threshold: Votes an entry needs, which decides how long a slot of a tally is.
    """
    layout = Layout(n_clients, PAYLOAD.payload_bytes, register_bytes)
    windows = {
        "max": 1,
        "tally": layout.n_slots(Kind.TALLY, threshold) // 2,
        "sum": layout.n_slots(Kind.SUM) // 2,
        "blocksum": (layout.n_slots(Kind.BLOCK_SUM) + 1) // 3,
    }
    kinds = {"tally": Kind.TALLY, "sum": Kind.SUM, "blocksum": Kind.BLOCK_SUM}
    missing = {
        name: _too_small(layout, name, layout.least_bytes(kind, 2, threshold))
        for name, kind in kinds.items()
    }
    slots = {kind: window for kind, window in windows.items() if window}
    return Bounded(slots, missing=missing, wide_slots=partial(_wide_window, layout))


def _wide_window(layout: Layout, bits_up: int, bits_down: int) -> int:
    widths = bits_up, bits_down
    window = layout.n_slots(Kind.SUM, widths=widths) // 2
    if not window:
        least = layout.least_bytes(Kind.SUM, 2, widths=widths)
        raise _too_small(layout, "sum", least)
    return window


def _too_small(layout: Layout, name: str, least: int) -> ArgumentError:
    clients = say_count(layout.n_clients, "client")
    return ArgumentError(
        "register_bytes",
        f"must be at least {least} for a {name} from {clients}, "
        f"got {layout.register_bytes}",
    )
