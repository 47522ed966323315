"""A switch, and machines that talk to it without losing anything, at one moment."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fediac import FediAC
from fediac.compressors.protocol import Compressor
from fediac.sessions.client import Holdings
from fediac.sessions.journal import Record
from fediac.sessions.member import Member, Seat
from fediac.sessions.opening import Opening
from fediac.sessions.questions import Key, Question
from fediac.sessions.replay import Compressing
from fediac.switch.control import ControlPlane, Limits
from fediac.switch.keys import Keyring
from fediac.wire.control import Open
from fediac.wire.packet import Packet, decode, encode
from fediac.wire.tag import session_key, tagged

KEY = b"the key of job 7"
SESSION_KEY = session_key(KEY, 100)
HOME = b"home"
PATIENCE_US = 3_000_000
DIM = 24

ASKED = Open(
    100,
    job=7,
    epoch=1,
    n_clients=2,
    n_observers=1,
    payload_bytes=64,
    lease_ms=3000,
    silence_ms=2000,
)


class Machine(Protocol):
    """What takes datagrams and gives some."""

    def receive(self, datagrams: Iterable[bytes], now_us: int) -> None: ...
    def send(self, now_us: int) -> list[bytes]: ...


def new_switch(register_bytes: int = 1 << 16, **limits: int) -> ControlPlane:
    return ControlPlane(
        Limits(register_bytes, **limits), Keyring(KEY), b"sixteen bytes of"
    )


def talk(
    switch: ControlPlane,
    machines: Mapping[bytes, Machine],
    now_us: int,
    *,
    is_lost: Callable[[bytes, Packet], bool] = lambda *_: False,
) -> list[tuple[bytes, Packet]]:
    """Let machines and their switch talk until nobody has anything to say.

    Args:
        switch: The switch.
        machines: By their addresses.
        now_us: The time, which does not pass.
        is_lost: Whether a packet to or from an address is lost.

    Returns:
        What the machines sent, lost or not, each with its sender.
    """
    said: list[tuple[bytes, Packet]] = []
    for _ in range(1000):
        sent = [
            (at, data) for at, each in machines.items() for data in each.send(now_us)
        ]
        if not sent:
            return said
        said += [(at, decode(data)) for at, data in sent]
        arrived = [(at, data) for at, data in sent if not is_lost(at, decode(data))]
        for to, data in switch.receive(arrived, now_us):
            if to in machines and not is_lost(to, decode(data)):
                machines[to].receive([data], now_us)
    raise AssertionError("they talk for ever")


def seat(client: int, **changes: object) -> Seat:
    settings: dict[str, object] = {
        "key": SESSION_KEY,
        "is_observer": client >= ASKED.n_clients,
        "patience_us": PATIENCE_US,
    }
    return Seat(100, client, 64, **(settings | changes))  # type: ignore[arg-type]


def opened(now_us: int = 0, **limits: int) -> tuple[ControlPlane, Opening]:
    """Return a switch with session 100, and who opened it."""
    switch = new_switch(**limits)
    opening = Opening(ASKED, KEY, patience_us=PATIENCE_US, now_us=now_us)
    talk(switch, {HOME: opening}, now_us)
    assert opening.opened is not None
    return switch, opening


def members(now_us: int = 0) -> dict[bytes, Member]:
    """Return two clients and an observer, by their addresses."""
    return {b"%d" % i: Member(seat(i), now_us) for i in range(3)}


def says(packet: Packet, key: bytes = SESSION_KEY) -> bytes:
    """Return a packet as it travels."""
    return tagged(encode(packet), key)


def make(n_clients: int) -> Compressor:
    return FediAC(n_clients, n_votes="40%", threshold=1, bits=8)


RECIPE = Compressing(make, seed=5)


def update(client: int, round_number: int = 1) -> np.ndarray:
    rng = np.random.default_rng((client, round_number))
    return rng.normal(size=DIM).astype(np.float32)


def new_keys(question: Question) -> list[Key]:
    """Return what a question has to send for the first time, with a wide window."""
    return list(iter(question.next_key, None))


@dataclass
class Disk:
    """A client's disk, which remembers all that was ever saved."""

    saved: list[Holdings] = field(default_factory=list)

    def load(self) -> Holdings | None:
        return self.saved[-1] if self.saved else None

    def save(self, holdings: Holdings) -> None:
        self.saved.append(holdings)


@dataclass
class Journal:
    """A coordinator's journal in memory."""

    records: list[Record] = field(default_factory=list)

    def load(self) -> list[Record]:
        return list(self.records)

    def append(self, record: Record) -> None:
        self.records.append(record)
