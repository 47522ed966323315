"""How long exchanges take over bad networks, in virtual time: on any machine the same.

    python -m benchmarks.bench_recovery [--clients 8] [--packets 600]

Members and a switch are the real ones; the network between them is made up: a delay
each way, the faults of the self-test's relay and, where it says so, an uplink for each
client that passes so many packets a millisecond and holds a few. The times are those of
one exchange, after all have joined, beside the same without faults: the ratio is what
recovery costs. Packets are those of a member for each that it has to send or to hear.
"""

import argparse
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fediac.core.exchange import BlockSum, Exchange, Sum
from fediac.selftest.weather import Faults, Weather
from fediac.sessions.member import Member, Seat
from fediac.sessions.opening import Opening
from fediac.switch.control import ControlPlane, Limits
from fediac.switch.keys import Keyring
from fediac.wire.control import Open
from fediac.wire.header import PAYLOAD_BYTES
from fediac.wire.tag import session_key

SESSION, HOME = 1, b"home"
REGISTER_BYTES = 1 << 20
LONGEST_US = 600_000_000


@dataclass(frozen=True)
class Path:
    """The way between a member and the switch.

    Attributes:
        weather: What happens to packets, each way.
        delay_us: How long they take, each way.
        per_ms: Packets of 1,500 bytes that an uplink passes in a millisecond; 0: any.
        held: Packets that wait before it at most; others are lost.
    """

    weather: Weather = field(default_factory=Weather)
    delay_us: int = 250
    per_ms: float = 0.0
    held: int = 64


class World:
    """A switch, its members, and what is on its way between them."""

    def __init__(self, n_clients: int, path: Path, seed: int) -> None:
        self.path, self.now_us = path, 0
        self.faults = Faults(Weather(), seed)
        self.n_carried = self.n_held_back = 0
        self._flights: list[tuple[int, int, bytes, bytes, bool]] = []
        self._n_flights = 0
        self._free_us: dict[bytes, float] = {}
        limits = Limits(2 * REGISTER_BYTES, max_jobs=2)
        self._switch = ControlPlane(limits, Keyring(), bytes(16))
        self._open(n_clients)
        self.members = {b"%d" % i: self._member(i, n_clients) for i in range(n_clients)}
        self.members[b"observer"] = self._member(n_clients, n_clients)
        self.run(lambda: all(each.is_in for each in self.members.values()))

    def _open(self, n_clients: int) -> None:
        asked = Open(
            SESSION,
            job=1,
            epoch=1,
            n_clients=n_clients,
            n_observers=1,
            payload_bytes=PAYLOAD_BYTES,
            lease_ms=10**6,
            silence_ms=10**6,
        )
        opening = Opening(asked, None, patience_us=10**9, now_us=0)
        while opening.opened is None:
            for data in opening.send(0):
                for to, answer in self._switch.receive([(HOME, data)], 0):
                    assert to == HOME
                    opening.receive([answer], 0)

    @staticmethod
    def _member(number: int, n_clients: int) -> Member:
        seat = Seat(
            SESSION,
            number,
            PAYLOAD_BYTES,
            session_key(None, SESSION),
            is_observer=number == n_clients,
            patience_us=10**9,
        )
        return Member(seat, 0)

    def _launch(self, data: bytes, at: bytes, *, goes_up: bool) -> None:
        """Let a packet travel, if nothing happens to it."""
        self.n_carried += 1
        leaves_us = float(self.now_us)
        if goes_up and self.path.per_ms:
            took_us = 1000 * len(data) / PAYLOAD_BYTES / self.path.per_ms
            free_us = max(self._free_us.get(at, 0.0), leaves_us)
            if (free_us - leaves_us) * self.path.per_ms / 1000 > self.path.held:
                self.n_held_back += 1
                return
            self._free_us[at] = leaves_us = free_us + took_us
        for later_s, arriving in self.faults.befall(data):
            due_us = round(leaves_us + self.path.delay_us + 1e6 * later_s)
            self._n_flights += 1
            flight = (due_us, self._n_flights, at, arriving, goes_up)
            heapq.heappush(self._flights, flight)

    def run(self, is_done: Callable[[], bool]) -> None:
        """Let time pass until something is done."""
        for at in self.members:
            self._send(at)
        due = {at: each.deadline_us for at, each in self.members.items()}
        while not is_done():
            assert self.now_us < LONGEST_US, "this takes for ever"
            next_us = min(due.values())
            if self._flights and self._flights[0][0] <= next_us:
                self.now_us, _, at, data, goes_up = heapq.heappop(self._flights)
                if goes_up:
                    for to, answer in self._switch.receive([(at, data)], self.now_us):
                        self._launch(answer, to, goes_up=False)
                    continue
                self.members[at].receive([data], self.now_us)
                touched = [at]
            else:
                self.now_us = max(self.now_us, next_us)
                touched = [at for at, us in due.items() if us <= self.now_us]
            for at in touched:
                self._send(at)
                due[at] = self.members[at].deadline_us

    def _send(self, at: bytes) -> None:
        for data in self.members[at].send(self.now_us):
            self._launch(data, at, goes_up=True)

    def exchange(self, asked: Callable[[int], Exchange]) -> int:
        """Return how long an exchange of all members takes, in microseconds."""
        self.faults.weather = self.path.weather
        start_us, self.n_carried, self.n_held_back = self.now_us, 0, 0
        waiting = dict(self.members)
        for number, member in enumerate(waiting.values()):
            member.ask(asked(number))

        def is_done() -> bool:
            for at in [at for at, each in waiting.items() if each.take_answer()]:
                del waiting[at]
            return not waiting

        self.run(is_done)
        return self.now_us - start_us


def lanes(n_packets: int) -> Callable[[int], Exchange]:
    """Return a sum of full packets of lanes of 8 bits."""
    n_levels = n_packets * PAYLOAD_BYTES
    data = np.ones(n_levels, np.uint8)
    return lambda _: Sum(data, n_levels, 8, 8, 1)


def blocks(n_packets: int, share: float) -> Callable[[int], Exchange]:
    """Return a block sum in which each client has a share of so many blocks."""
    length = PAYLOAD_BYTES // 4

    def asked(number: int) -> Exchange:
        chosen = np.random.default_rng(number).random(n_packets) < share
        numbers = np.flatnonzero(chosen)
        return BlockSum(numbers, np.ones((len(numbers), length), np.int32), n_packets)

    return asked


def main() -> None:
    """Print a line for each network and exchange."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--packets", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    exchanges = {
        "sum": lanes(options.packets),
        "all blocks": blocks(options.packets, 1.0),
        "half of the blocks": blocks(options.packets, 0.5),
    }
    bad = Weather(0.1, 0.1, 0.05, 0.01)
    paths = {
        "nothing is lost": Path(),
        "10 % reordered": Path(Weather(reorder=0.1)),
        "1 % lost": Path(Weather(0.01)),
        "10 % lost": Path(Weather(0.1)),
        "all of the self-test": Path(bad),
        "the same, 20 ms away": Path(bad, delay_us=10_000),
        "8 packets a ms": Path(per_ms=8.0),
        "8 packets a ms, 1 % lost": Path(Weather(0.01), per_ms=8.0),
    }
    print(f"{options.clients} clients, an observer, {options.packets} packets each")
    print(f"{'':<28}{'':<20}{'seconds':>10}{'x calm':>9}{'packets':>9}{'held':>7}")
    calm_s: dict[str, float] = {}
    for where, path in paths.items():
        for what, asked in exchanges.items():
            took, carried, held = [], 0, 0
            for seed in range(options.seeds):
                world = World(options.clients, path, seed)
                took.append(world.exchange(asked) / 1e6)
                carried, held = carried + world.n_carried, held + world.n_held_back
            middle_s = float(np.median(took))
            calm_s.setdefault(what, middle_s)
            n_each = options.seeds * options.packets * (options.clients + 1)
            ratio = middle_s / calm_s[what]
            print(
                f"{where:<28}{what:<20}{middle_s:>10.3f}{ratio:>9.1f}"
                f"{carried / n_each:>9.2f}{held / n_each:>7.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
