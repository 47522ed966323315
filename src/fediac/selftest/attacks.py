"""What strangers send to a switch: each kind of attack, as datagrams and their senders.

A stranger has no key. It may know every packet that was ever sent, and may send from
any address: what an honest member's own socket sends stands for what somebody else
sends in its name. The neighbour is another job's coordinator, with that job's key. A
member has the key of its session, and no other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fediac.selftest.peers import Peer, Victims, join_of, key_for, votes
from fediac.wire.control import Alive, Close, Open
from fediac.wire.header import HEADER_BYTES, MAGIC, VERSION, Flag, Kind
from fediac.wire.packet import Packet, encode
from fediac.wire.tag import session_key, tagged

_LONGEST = 65_507
"""The most bytes that UDP carries."""


@dataclass(frozen=True)
class Scene:
    """Who is there, and what was sent so far.

    Attributes:
        victims: A session that runs.
        earlier: The same job's session before that one.
        neighbour: Another job's session; its coordinator turns on the victims.
        stranger: Somebody without a key.
        rng: Decides what is tried.
    """

    victims: Victims
    earlier: Victims
    neighbour: Victims
    stranger: Peer
    rng: np.random.Generator

    def honest(self) -> list[tuple[Peer, bytes]]:
        """Return what the victims have sent, some of each kind, and who did."""
        peers = (self.victims.coordinator, *self.victims.members)
        return [(peer, data) for peer in peers for data in _some(peer.sent)]

    def old(self) -> list[tuple[Peer, bytes]]:
        """Return what was sent in the earlier session, and who did."""
        number = self.earlier.asked.session
        peers = (self.victims.coordinator, *self.earlier.members)
        return [
            (peer, data)
            for peer in peers
            for data in _some(each for each in peer.sent if session_of(each) == number)
        ]


def _some(sent: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the first, the last and one in the middle of each kind and length."""
    kinds: dict[tuple[int, int], list[bytes]] = {}
    for data in dict.fromkeys(sent):
        kinds.setdefault((data[3], len(data)), []).append(data)
    for alike in kinds.values():
        yield from dict.fromkeys([alike[0], alike[len(alike) // 2], alike[-1]])


@dataclass(frozen=True)
class Shot:
    """A datagram of an attack.

    Attributes:
        sender: Whose socket sends it.
        data: What.
        is_replay: Whether a member said exactly this before, from the same address:
            the switch then knows again that it was heard, and nothing else.
        key: For the tag of what is said again with a cookie, if one is to be had.
    """

    sender: Peer
    data: bytes
    is_replay: bool = False
    key: bytes = bytes(16)

    def with_cookie(self, cookie: bytes) -> "Shot":
        """Return the same with the cookie that it brought."""
        data = self.data[:HEADER_BYTES] + cookie + self.data[HEADER_BYTES + 8 :]
        return replace(self, data=tagged(data, self.key))


def session_of(data: bytes) -> int:
    """Return the session in a packet."""
    return int.from_bytes(data[4:12], "big")


def _wishes(asked: Open) -> Iterator[Packet]:
    """Yield what somebody would say who wants to change a session."""
    for client in range(asked.n_clients + asked.n_observers):
        for exchange in (1, 2):
            for packet in range(3):
                yield votes(asked, client, packet, exchange=exchange)
        yield join_of(asked, client, counter=9).write()
        is_observer = client >= asked.n_clients
        yield Alive(asked.session, client, is_observer=is_observer).write()
    body = bytes(asked.payload_bytes)
    n_lanes = asked.payload_bytes
    yield Packet(
        Kind.SUM, asked.session, 1, 2, n_items=n_lanes, bits_up=8, bits=8, body=body
    )
    yield Packet(Kind.MAX, asked.session, 1, 2, aux=7)
    yield Packet(Kind.BLOCK_SUM, asked.session, 1, 2, aux=1, flags=Flag.ANNOUNCE)
    yield Close(asked.session, asked.job, asked.epoch).write()
    yield replace(asked, epoch=asked.epoch + 1).write()
    yield replace(asked, session=asked.session + 1).write()
    yield replace(asked, n_clients=1).write()


def forged(scene: Scene) -> Iterator[Shot]:
    """Yield packets in members' names, without the key."""
    rng, victims = scene.rng, scene.victims
    senders = (scene.stranger, victims.coordinator, *victims.members)
    for packet in _wishes(victims.asked):
        for sender in (scene.stranger, senders[int(rng.integers(len(senders)))]):
            data = encode(packet)
            yield Shot(sender, data)
            yield Shot(sender, encode(replace(packet, tag=int(rng.integers(1 << 63)))))
            for key in (None, rng.bytes(16)):
                made = key_for(packet, key)
                yield Shot(sender, tagged(data, made), key=made)


def replayed(scene: Scene) -> Iterator[Shot]:
    """Yield what honest members said before: here, elsewhere, in another session."""
    number = scene.victims.asked.session.to_bytes(8, "big")
    for sender, data in scene.honest():
        yield Shot(scene.stranger, data)
        yield Shot(sender, data, is_replay=True)
    for sender, data in scene.old():
        moved = data[:4] + number + data[12:]
        for said in (data, moved):
            yield Shot(scene.stranger, said)
            yield Shot(sender, said)
            for member in scene.victims.members[:1]:
                yield Shot(member, said)


def truncated(scene: Scene) -> Iterator[Shot]:
    """Yield packets whose end is missing."""
    for sender, data in scene.honest():
        length = int(scene.rng.integers(len(data)))
        for shorter in {0, 1, HEADER_BYTES - 1, HEADER_BYTES, length, len(data) - 1}:
            yield Shot(scene.stranger, data[:shorter])
            if shorter < len(data):
                yield Shot(sender, data[:shorter])


def oversized(scene: Scene) -> Iterator[Shot]:
    """Yield packets that are longer than they may be."""
    for sender, data in scene.honest():
        for length in (len(data) + 1, 1500, 9000, _LONGEST):
            if length > len(data):
                longer = data + scene.rng.bytes(length - len(data))
                yield Shot(scene.stranger, longer)
                yield Shot(sender, longer)


def cross_job(scene: Scene) -> Iterator[Shot]:
    """Yield what a coordinator says of another job's session, by its own job's key."""
    victims, own = scene.victims.asked, scene.neighbour
    sender = own.coordinator
    for packet in _wishes(victims):
        key = key_for(packet, sender.key)
        for each in (sender, own.members[0]):
            yield Shot(each, sender.tag(packet), key=key)
    cookies = {data[40:48] for data in sender.sent if data[3] == Kind.OPEN}
    for cookie in sorted(cookies):
        proof = int.from_bytes(cookie, "big")
        for job in (victims.job, own.asked.job):
            close = Close(victims.session, job, victims.epoch, proof)
            asked = replace(victims, job=job, cookie=proof)
            for said in (close, asked, replace(asked, epoch=99)):
                yield Shot(sender, sender.tag(said.write()))


def member(scene: Scene) -> Iterator[Shot]:
    """Yield what a member says to open and close sessions, by its session's key."""
    victims = scene.victims
    asked, coordinator = victims.asked, victims.coordinator
    cookies = {data[40:48] for data in coordinator.sent if data[3] == Kind.OPEN}
    own = session_key(coordinator.key, asked.session)
    for cookie in sorted(cookies):
        proof = int.from_bytes(cookie, "big")
        said = replace(asked, cookie=proof)
        for wish in (
            Close(asked.session, asked.job, asked.epoch, proof),
            Close(asked.session, asked.job, asked.epoch + 1, proof),
            said,
            replace(said, epoch=asked.epoch + 1),
            replace(said, n_clients=1),
            replace(said, session=asked.session + 1),
            replace(said, session=asked.session + 1, job=scene.neighbour.asked.job),
        ):
            data = tagged(encode(wish.write()), own)
            for sender in (*victims.members, coordinator, scene.stranger):
                yield Shot(sender, data, key=own)


def random(scene: Scene) -> Iterator[Shot]:
    """Yield bytes without sense, some of which begin like packets."""
    rng, number = scene.rng, scene.victims.asked.session
    for _ in range(100):
        data = rng.bytes(int(rng.integers(0, 1600)))
        yield Shot(scene.stranger, data)
        kind = int(rng.integers(0, 30))
        head = MAGIC.to_bytes(2, "big") + bytes([VERSION, kind])
        yield Shot(scene.stranger, head + number.to_bytes(8, "big") + data)


ATTACKS: Mapping[str, Callable[[Scene], Iterator[Shot]]] = {
    "forged": forged,
    "replayed": replayed,
    "truncated": truncated,
    "oversized": oversized,
    "cross_job": cross_job,
    "member": member,
    "random": random,
}
