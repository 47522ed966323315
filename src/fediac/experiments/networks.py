"""Networks as people write them: switches, rates and memory in words and numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fediac.core.ledger import PAYLOAD
from fediac.experiments.shares import parse_count
from fediac.sim import (
    Bounded,
    Network,
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
from fediac.sim.rates import PAPER_RATES
from fediac.switch.registers import Layout
from fediac.wire.header import Kind

_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)"
_ONE = re.compile(_NUMBER, re.IGNORECASE)
_RANGE = re.compile(f"{_NUMBER}-{_NUMBER}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NetworkSetting:
    """A network in words.

    Attributes:
        switch: ``fast``, ``slow``, or packets a second.
        rates: ``paper``, ``nyumets``, ``uniform``, a rate, a range of rates, or files.
        memory: Bytes of the switch's registers; None: unbounded.
        compute_s: Local training of every client.
    """

    switch: str = "fast"
    rates: tuple[str, ...] = ("paper",)
    memory: int | None = None
    compute_s: float = 0.0


def make_network(
    setting: NetworkSetting, *, n_clients: int, threshold: int, seed: int
) -> Network:
    """Return the network that is meant.

    Args:
        setting: In words.
        n_clients: Clients that it connects.
        threshold: Votes an entry needs, which decides how long a slot is.
        seed: Of rates and of the clients' places in their traces.
    """
    memory = None
    if setting.memory is not None:
        memory = _bounded(setting.memory, n_clients, threshold)
    return Network(
        uplinks=parse_rates(setting.rates, n_clients, seed=seed),
        switch=parse_switch(setting.switch),
        compute_s=setting.compute_s,
        memory=memory,
    )


def describe_network(setting: NetworkSetting) -> str:
    """Return the network in words, for titles."""
    switch = f"{setting.switch} switch"
    if setting.switch not in ("fast", "slow"):
        switch = f"switch of {setting.switch} packets/s"
    memory = "" if setting.memory is None else f", {setting.memory:,} bytes of memory"
    return f"{switch}{memory}, rates {', '.join(setting.rates)}"


def parse_switch(text: str) -> Service:
    """Return the switch: ``fast``, ``slow`` or its packets a second."""
    written = text.strip()
    if _ONE.fullmatch(written):
        if not float(written):
            raise ValueError(f"switch must be above 0 packets a second, got {text}")
        return switch_of_rate(float(written))
    if written not in ("fast", "slow"):
        raise ValueError(f"switch must be fast, slow or packets a second, got {text!r}")
    return paper_switch(written)


def parse_rates(
    rates: Sequence[str], n_clients: int, *, seed: int
) -> tuple[Uplink, ...]:
    """Return one uplink a client; see `NetworkSetting`.

    Several entries must all be files; client i takes file i mod n.
    """
    written = [each.strip() for each in rates]
    if len(written) == 1:
        found = _named_rates(written[0], n_clients, seed)
        if found is not None:
            return found
    traces = [load_trace(Path(each)) for each in written]
    return trace_uplinks(n_clients, traces, seed=seed)


def parse_memory(text: str, *, name: str = "memory") -> int | None:
    """Return the bytes of a switch's registers, None for ``unbounded``."""
    if text.strip() == "unbounded":
        return None
    return parse_count(text, name=name)


def _named_rates(text: str, n_clients: int, seed: int) -> tuple[Uplink, ...] | None:
    if text == "paper":
        return paper_uplinks(n_clients, seed=seed)
    if text == "nyumets":
        traces = list(shipped_traces().values())
        return trace_uplinks(n_clients, traces, seed=seed)
    if text == "uniform":
        return uniform_uplinks(n_clients, *PAPER_RATES, seed=seed)
    if text.startswith("-") or text.lower() in ("nan", "inf"):
        raise ValueError(f"rates must be finite and at least 0, got {text}")
    if _ONE.fullmatch(text):
        return constant_uplinks(n_clients, float(text))
    both = _RANGE.fullmatch(text)
    if both:
        return uniform_uplinks(n_clients, float(both[1]), float(both[2]), seed=seed)
    if not Path(text).exists():
        raise ValueError(
            "rates must be paper, nyumets, uniform, packets a second such as 700 or "
            f"200-2800, or a file, got {text!r}"
        )
    return None


def _bounded(register_bytes: int, n_clients: int, threshold: int) -> Bounded:
    """Return the slots that clients may fill ahead of the answers they have.

    Half of a streamed exchange's slots keep the answers of the last window for who lost
    them; block sums need two thirds, see ``fediac.switch.blocks``.
    """
    layout = Layout(n_clients, PAYLOAD.payload_bytes, register_bytes)
    windows = {
        "max": 1,
        "tally": layout.n_slots(Kind.TALLY, threshold) // 2,
        "sum": layout.n_slots(Kind.SUM) // 2,
        "blocksum": (layout.n_slots(Kind.BLOCK_SUM) + 1) // 3,
    }
    return Bounded({kind: window for kind, window in windows.items() if window})
