"""A switch that strangers attack: what did they change? Its own memory says.

After every datagram of theirs the switch's registers, members and addresses are
compared with what they were before.
"""

import secrets
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fediac.selftest.attacks import ATTACKS, Scene, Shot
from fediac.selftest.peers import (
    Company,
    Peer,
    Victims,
    company,
    join_of,
    votes,
    wait_for_all,
)
from fediac.selftest.processes import Child, crew
from fediac.wire.control import Open
from fediac.wire.header import HEADER_BYTES, Kind

_REGISTER_BYTES = 1 << 16
_KEY_BYTES = 32
_JOBS = (1, 2)
_FOREVER_MS = 3_600_000
_PAYLOAD_BYTES = 256
_N_PACKETS = 24
"""Packets in an exchange of the victims: more than slots, so that all are reused."""

PARTS = ("sessions", "registers", "members", "addresses", "heard")


@dataclass(slots=True)
class Attacked:
    """What came of the attacks.

    Attributes:
        sent: Kind of attack -> datagrams.
        accepted: Kind -> datagrams that changed something.
        changed: What they changed, in words, as far as there is room.
        sent_bytes: By the stranger, who never proved an address.
        answered_bytes: To the stranger.
        is_noticed: Whether honest packets did change what was looked at.
    """

    sent: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    sent_bytes: int = 0
    answered_bytes: int = 0
    is_noticed: bool = False

    @property
    def n_accepted(self) -> int:
        """Datagrams that changed something."""
        return sum(self.accepted.values())

    @property
    def differences(self) -> list[str]:
        """What is not as it must be, in words."""
        found = list(self.changed)
        if self.answered_bytes > self.sent_bytes:
            found.append(
                f"attack: {self.answered_bytes:,} bytes went to an address that was "
                f"never proved, for {self.sent_bytes:,} from there"
            )
        if not self.is_noticed:
            found.append("attack: not even honest packets changed what was looked at")
        return found

    def line(self) -> str:
        """Return what came of it in one line."""
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in self.sent.items())
        return (
            f"attack: {self.n_accepted} of {sum(self.sent.values()):,} datagrams "
            f"changed something in the switch ({kinds})"
        )

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "sent": self.sent,
            "accepted": self.accepted,
            "sent_bytes": self.sent_bytes,
            "answered_bytes": self.answered_bytes,
        }


def attack(
    seed: int,
    module: str,
    tell: Callable[[str], None],
    kinds: Collection[str] = tuple(ATTACKS),
) -> Attacked:
    """Let strangers attack a switch, and return what came of it.

    Args:
        seed: Decides what is tried.
        module: What the switch's process runs, see `fediac.selftest.child`.
        tell: Is told which attack is tried.
        kinds: Those to try.
    """
    keys = {job: secrets.token_bytes(_KEY_BYTES) for job in _JOBS}
    result = Attacked()
    with _watched_switch(keys, module) as (child, address), company(address) as people:
        watcher = Watcher(child, people.peer(keys[1]))
        scene = _set_scene(people, keys, seed)
        for kind in kinds:
            tell(f"attack: {kind}")
            _shoot(kind, list(ATTACKS[kind](scene)), scene, watcher, result)
        # A session that an attack has ended takes no honest packets any more.
        result.is_noticed = result.n_accepted > 0 or _is_noticed(
            scene.victims, people, watcher
        )
    return result


class Watcher:
    """Looks into the switch's memory."""

    def __init__(self, child: Child, peer: Peer) -> None:
        self._child, self._peer = child, peer
        self._number = 0

    def look(self) -> dict[str, Any]:
        """Return what the switch holds, once it has done all that was sent to it."""
        self._number += 1
        wait_for_all(self._peer, self._number)
        self._child.tell("state")
        return self._child.wait_for("state")


def _shoot(
    kind: str, shots: Sequence[Shot], scene: Scene, watcher: Watcher, result: Attacked
) -> None:
    """Send an attack's datagrams, and say again with a cookie what brought one."""
    result.sent[kind] = result.accepted[kind] = 0
    for sender in {id(shot.sender): shot.sender for shot in shots}.values():
        sender.drain()
    before = watcher.look()
    waiting = deque(shots)
    while waiting:
        shot = waiting.popleft()
        shot.sender.socket.send(shot.data)
        result.sent[kind] += 1
        after = watcher.look()
        _note(
            kind, shot, [each for each in PARTS if before[each] != after[each]], result
        )
        before = after
        came = shot.sender.drain()
        if shot.sender is scene.stranger:
            result.sent_bytes += len(shot.data)
            result.answered_bytes += sum(map(len, came))
        cookies = [each[HEADER_BYTES:] for each in came if each[3] == Kind.COOKIE]
        if cookies and cookies[0] != shot.data[HEADER_BYTES : HEADER_BYTES + 8]:
            waiting.appendleft(shot.with_cookie(cookies[0]))


def _note(kind: str, shot: Shot, parts: list[str], result: Attacked) -> None:
    """Note what a datagram has changed."""
    if not parts or (parts == ["heard"] and shot.is_replay):
        return
    result.accepted[kind] += 1
    result.changed.append(
        f"attack: a {kind} packet of {len(shot.data)} bytes, kind "
        f"{shot.data[3:4].hex() or 'none'}, changed {', '.join(parts)}"
    )


def _is_noticed(victims: Victims, people: Company, watcher: Watcher) -> bool:
    """Return whether honest packets change what a look sees: else it sees nothing."""
    before = watcher.look()
    victims.vote(2, 0, exchange=1)
    voted = watcher.look()
    moved = people.peer(victims.members[0].key)
    moved.prove(join_of(victims.asked, 0, counter=2), Kind.WELCOME)
    joined = watcher.look()
    pairs = (
        (before, voted, "registers"),
        (before, voted, "heard"),
        (voted, joined, "members"),
        (voted, joined, "addresses"),
    )
    return all(a[part] != b[part] for a, b, part in pairs)


def _set_scene(people: Company, keys: dict[int, bytes], seed: int) -> Scene:
    """Bring two jobs to where an attack could hurt: in the middle of an exchange."""
    first = Open(
        1000,
        job=1,
        epoch=1,
        n_clients=3,
        n_observers=1,
        payload_bytes=_PAYLOAD_BYTES,
        lease_ms=_FOREVER_MS,
        silence_ms=_FOREVER_MS,
    )
    earlier = people.session(first, keys[1], None)
    earlier.tally(2, exchange=0)
    newer = replace(first, session=2000)
    victims = people.session(newer, keys[1], earlier.coordinator)
    other = replace(first, session=3000, job=2)
    neighbour = people.session(other, keys[2], None)
    for each in (victims, neighbour):
        each.tally(_N_PACKETS, exchange=0)
        # Two of four are in: whoever is counted instead of the others is noticed.
        for client in (0, 1):
            asked = votes(each.asked, client, 0, exchange=1)
            each.members[client].send(asked)
    rng = np.random.default_rng(seed)
    return Scene(victims, earlier, neighbour, people.peer(None), rng)


@contextmanager
def _watched_switch(keys: dict[int, bytes], module: str) -> Iterator[tuple[Child, str]]:
    """Start a switch with a key for each job, and one for all others."""
    with tempfile.TemporaryDirectory(prefix="fediac-selftest-") as name:
        folder = Path(name)
        key_file = folder / "switch.key"
        key_file.touch(mode=0o600)
        lines = [secrets.token_hex(_KEY_BYTES)]
        lines += [f"{job} {key.hex()}" for job, key in keys.items()]
        key_file.write_text("\n".join(lines) + "\n")
        with crew(folder, {}, module) as made:
            words = ("watched", "127.0.0.1:0", str(_REGISTER_BYTES), str(key_file))
            child = made.start("watched", *words)
            yield child, child.wait_for("listening")["address"]
            child.stop()
