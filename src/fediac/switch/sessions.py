"""A session as the switch knows it: its members, where they are, when it heard them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fediac.switch.job import Job
from fediac.switch.keys import Address
from fediac.switch.pipeline import Answers, Switch
from fediac.wire.control import Join, Open, Welcome
from fediac.wire.header import EVERYONE
from fediac.wire.tag import tag_packets

Times = npt.NDArray[np.int64]
Datagram = tuple[Address, bytes]
"""Where it came from, or goes; and a packet."""


@dataclass(slots=True)
class Member:
    """A member that has joined.

    Attributes:
        address: Where it is; answers go there alone.
        counter: That of the join that said so.
    """

    address: Address
    counter: int


@dataclass(slots=True)
class Session:
    """One attempt at a round, with fixed members and registers of its own.

    Attributes:
        asked: What its coordinator asked for.
        coordinator: Where that is.
        key: Its packets' tags are made with it.
        switch: Its registers; no other session has any of them.
        job: Its place in them.
        credit: Packets a member may have in flight.
        lease_until_us: It ends then, unless its coordinator says more.
        heard_us: When each member was last heard; before it joined, when the session
            was opened.
        members: Member -> where it is.
        n_moves: How often that has changed.
    """

    asked: Open
    coordinator: Address
    key: bytes = field(repr=False)
    switch: Switch
    job: Job
    credit: int
    lease_until_us: int
    heard_us: Times
    members: dict[int, Member] = field(default_factory=dict)
    n_moves: int = 0

    @property
    def n_members(self) -> int:
        """Clients and observers."""
        return self.asked.n_clients + self.asked.n_observers

    def is_observer(self, client: int) -> bool:
        """Return whether this number is an observer's."""
        return client >= self.asked.n_clients

    def is_at(self, client: int, address: Address) -> bool:
        """Return whether a member has joined from there."""
        member = self.members.get(client)
        return member is not None and member.address == address

    def hear(self, clients: npt.NDArray[np.uint16], now_us: int) -> None:
        """Note that members have been heard."""
        self.heard_us[clients] = now_us

    def admit(self, join: Join, address: Address, now_us: int) -> Welcome | None:
        """Let a member in, or move it; return the welcome, None for an old join."""
        member = self.members.get(join.client)
        if member is None or join.counter > member.counter:
            self.members[join.client] = Member(address, join.counter)
            self.n_moves += 1
        elif (member.counter, member.address) != (join.counter, address):
            return None
        self.heard_us[join.client] = now_us
        return Welcome(
            session=self.asked.session,
            client=join.client,
            counter=join.counter,
            payload_bytes=self.asked.payload_bytes,
            register_bytes=self.job.layout.register_bytes,
            credit=self.credit,
            n_clients=self.asked.n_clients,
            n_observers=self.asked.n_observers,
            silence_ms=self.asked.silence_ms,
        )

    @property
    def silent_at_us(self) -> int:
        """When the first of its members has been silent for too long."""
        return int(self.heard_us.min()) + 1000 * self.asked.silence_ms

    def missing(self, now_us: int) -> tuple[int, ...]:
        """Return the members that have been silent for too long, ascending."""
        since = now_us - 1000 * self.asked.silence_ms
        return tuple(np.flatnonzero(self.heard_us <= since).tolist())

    def everyone(self) -> Iterator[Address]:
        """Yield where all members and the coordinator are, each place once."""
        places = [member.address for member in self.members.values()]
        yield from dict.fromkeys([*places, self.coordinator])

    def address(self, answers: Answers) -> Iterator[Datagram]:
        """Yield the answers to those that they are for, with their tags."""
        tag_packets(answers.packets, answers.lengths, self.key)
        places = [member.address for member in self.members.values()]
        for row, length, to in zip(
            answers.packets, answers.lengths, answers.destinations.tolist(), strict=True
        ):
            data = row[:length].tobytes()
            if to != EVERYONE:
                yield self.members[to].address, data
                continue
            for place in places:
                yield place, data
