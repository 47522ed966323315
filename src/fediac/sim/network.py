"""The network of a round: links, the switch and its memory, the far server."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fediac.core.ledger import PAYLOAD, View
from fediac.defaults import COMPUTE_S
from fediac.errors import ArgumentError, say_count
from fediac.sim.clock import to_ps
from fediac.sim.rates import Uplink, check_n_clients
from fediac.sim.service import FAST_S, Service, deterministic, gaussian

DOWNLOAD_SPEEDUP = 5.0
"""Download rate over the mean upload rate of all clients (paper, Sec. V-A)."""

SERVER_RATE = 83_000.0
SERVER_DELAY_S = 0.02


@dataclass(frozen=True, slots=True)
class Downlink:
    """A client's way back: answers arrive one after another, then are served.

    Attributes:
        rate: Packets a second; None: ``speedup`` times the mean of all uplinks.
        service: What the client does with a packet.
    """

    rate: float | None = None
    speedup: float = DOWNLOAD_SPEEDUP
    service: Service = field(default_factory=lambda: gaussian(FAST_S))

    def __post_init__(self) -> None:
        for name in ("rate", "speedup"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < math.inf:
                raise ArgumentError(name, f"must be finite and above 0, got {value}")


@dataclass(frozen=True, slots=True)
class Server:
    """The far parameter server, behind the switch.

    Attributes:
        service: Its time for a packet.
        delay_s: From the switch to the server, and from there to a client.
    """

    service: Service = field(default_factory=lambda: deterministic(1.0 / SERVER_RATE))
    delay_s: float = SERVER_DELAY_S

    def __post_init__(self) -> None:
        to_ps(self.delay_s, name="delay_s")


@dataclass(frozen=True, slots=True)
class Bounded:
    """Bounded memory: slots for packets, and a window that keeps clients within them.

    A client may send a packet when it has the answer to the one a window before it.

    Attributes:
        n_slots: For packets of a streamed exchange; one number, or one for each kind
            of exchange (tally, sum, max, blocksum).
        window: Packets of a client in flight, at most as many as there are slots;
            None: as many.
        missing: Kind of exchange -> the error that says why it has no slots.
        wide_slots: Bits of a lane up and down -> the slots of a sum with lanes of these
            widths; None: as many as of any other.
    """

    n_slots: int | Mapping[str, int]
    window: int | None = None
    missing: Mapping[str, ArgumentError] = field(default_factory=dict)
    wide_slots: Callable[[int, int], int] | None = None

    def __post_init__(self) -> None:
        slots = self.n_slots
        for count in slots.values() if isinstance(slots, Mapping) else (slots,):
            if count < 1:
                raise ArgumentError("n_slots", f"must be at least 1, got {count}")
        if self.window is not None and self.window < 1:
            raise ArgumentError("window", f"must be at least 1, got {self.window}")

    def window_of(self, kind: str, widths: tuple[int, int] | None = None) -> int:
        """Return how many packets of an exchange a client may have in flight.

        Args:
            kind: What is exchanged.
            widths: Bits of a lane up and down, in a sum whose answers have wider lanes.
        """
        n_slots = self.n_slots
        if widths is not None and self.wide_slots is not None:
            n_slots = self.wide_slots(*widths)
        elif isinstance(n_slots, Mapping):
            if kind not in n_slots:
                rule = f"must have some for a {kind}, got none"
                raise self.missing.get(kind, ArgumentError("n_slots", rule))
            n_slots = n_slots[kind]
        return n_slots if self.window is None else min(self.window, n_slots)


@dataclass(frozen=True, slots=True)
class Network:
    """How fast clients send, and how fast the switch and the server serve.

    Attributes:
        uplinks: One for each client.
        switch: The switch's time for a packet.
        compute_s: Local training before a client sends; one number, or one a client.
        memory: None: the switch caches all packets that wait, as in the paper.
        view: How the ledger's items become packets.
    """

    uplinks: tuple[Uplink, ...]
    switch: Service
    downlink: Downlink = field(default_factory=Downlink)
    server: Server = field(default_factory=Server)
    compute_s: float | tuple[float, ...] = COMPUTE_S
    memory: Bounded | None = None
    view: View = PAYLOAD

    def __post_init__(self) -> None:
        check_n_clients(self.n_clients)
        times = self.compute_s
        if isinstance(times, tuple) and len(times) != self.n_clients:
            raise ArgumentError(
                "compute_s",
                "must have "
                f"{say_count(self.n_clients, 'entry', 'entries')} (clients), "
                f"got {len(times)}",
            )
        for time in times if isinstance(times, tuple) else (times,):
            to_ps(time, name="compute_s")

    @property
    def n_clients(self) -> int:
        """Clients that the network connects; a round may have fewer."""
        return len(self.uplinks)

    @property
    def upload_rate(self) -> float:
        """Packets per second that all clients together send, on average."""
        return sum(uplink.rates.mean for uplink in self.uplinks)

    @property
    def download_rate(self) -> float:
        """Packets per second that each client receives."""
        if self.downlink.rate is not None:
            return self.downlink.rate
        return self.downlink.speedup * self.upload_rate / self.n_clients

    def compute_ps(self, client: int) -> int:
        """Return how long a client trains, in picoseconds."""
        times = self.compute_s
        time = times[client] if isinstance(times, tuple) else times
        return to_ps(time, name="compute_s")
