"""The switch's control plane: sessions are opened, joined, aborted and closed.

Datagrams in, datagrams out; the time comes in as an argument. Whatever touches
registers goes on to the session's `Switch`, a batch at a time, after its tag and its
address were found right. The control plane forgets everything when it dies, on purpose:
its sessions are unknown to the next one, which says so.

Nothing longer than what came in goes to an address that has not proved, by repeating a
cookie, that it receives there. Nothing is kept for it before.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from fediac.errors import ArgumentError, RemoteProtocolError
from fediac.switch.counters import REASONS, Drop
from fediac.switch.keys import Address, Keyring, cookie_of, is_cookie_right
from fediac.switch.pipeline import Switch
from fediac.switch.registers import MAX_REGISTER_BYTES, least_register_bytes
from fediac.switch.sessions import Datagram, Session
from fediac.wire.control import (
    Abort,
    Alive,
    Close,
    Closed,
    Control,
    Cookie,
    Ending,
    Join,
    Open,
    Opened,
    Refusal,
    read_control,
)
from fediac.wire.header import (
    EVERYONE,
    EXCHANGES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MAX_CLIENTS,
    MAX_PAYLOAD_BYTES,
    PAYLOAD_UNIT,
    VERSION,
    Reason,
)
from fediac.wire.packet import decode, encode
from fediac.wire.status import Report, Status
from fediac.wire.tag import check_tags, is_tag_right, tagged

_KINDS = frozenset(int(kind) for kind in EXCHANGES)
_REFUSAL_US = 1_000_000
"""Between two refusals of packets that no cookie covers, to one address."""

_MAX_REFUSED = 4096
"""Addresses whose last refusal is remembered."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a switch lets its users take.

    Attributes:
        register_bytes: Memory for all jobs; each gets an equal part.
        max_jobs: Jobs at a time.
        max_members: Members of a session, observers among them.
        buffer_packets: Packets that the switch can have waiting for it, of all members
            of a session together.
    """

    register_bytes: int
    max_jobs: int = 4
    max_members: int = MAX_CLIENTS
    buffer_packets: int = 4096

    def __post_init__(self) -> None:
        for name, most in (
            ("register_bytes", MAX_REGISTER_BYTES),
            ("max_jobs", 1024),
            ("max_members", MAX_CLIENTS),
            ("buffer_packets", 1 << 31),
        ):
            given = getattr(self, name)
            if not 1 <= given <= most:
                raise ArgumentError(name, f"must be in 1..{most}, got {given}")

    @property
    def job_bytes(self) -> int:
        """Registers of one job."""
        return self.register_bytes // self.max_jobs


@dataclass(slots=True)
class JobEntry:
    """What is known of a job beyond its session.

    Attributes:
        epoch: The newest that its coordinator has had.
        last: The newest session.
        ended: How that ended, if it has.
        heard_us: When its coordinator was last heard.
    """

    epoch: int
    last: int
    ended: Abort | None = None
    heard_us: int = 0


@dataclass(slots=True)
class Traffic:
    """What whoever carries the datagrams of a switch counts.

    Attributes:
        started_us: When it began.
        packets_in: Datagrams that arrived.
        packets_out: Datagrams that were sent.
        unsent: Datagrams that the machine refused to send.
        overrun: Datagrams that came while the receive buffer was full.
    """

    started_us: int = 0
    packets_in: int = 0
    packets_out: int = 0
    unsent: int = 0
    overrun: int = 0


class ControlPlane:
    """Takes datagrams and the time, gives datagrams and the next deadline.

    Args:
        limits: What users may take.
        keys: The jobs' keys.
        secret: 16 bytes that nobody else knows, for cookies.
    """

    def __init__(self, limits: Limits, keys: Keyring, secret: bytes) -> None:
        self.limits = limits
        self.drops: Counter[str] = Counter()
        self.traffic = Traffic()
        self._keys = keys
        self._secret = secret
        self._sessions: dict[int, Session] = {}
        self._jobs: dict[int, JobEntry] = {}
        self._refused: dict[Address, int] = {}

    @property
    def sessions(self) -> Sequence[Session]:
        """Those that run."""
        return tuple(self._sessions.values())

    @property
    def all_drops(self) -> Counter[str]:
        """Packets dropped since the start, by reason, those of all sessions too."""
        drops = self.drops.copy()
        for session in self._sessions.values():
            drops.update(session.switch.counters.drops)
        return drops

    @property
    def deadline_us(self) -> int | None:
        """When `expire` has something to do; None: not before a datagram comes."""
        ends = (min(s.lease_until_us, s.silent_at_us) for s in self._sessions.values())
        return min(ends, default=None)

    def expire(self, now_us: int) -> list[Datagram]:
        """Give up the sessions whose members or coordinator were silent too long."""
        sent: list[Datagram] = []
        for session in self.sessions:
            missing = session.missing(now_us)
            if missing:
                sent += self._end(session, Ending.SILENT, missing)
            elif now_us >= session.lease_until_us:
                sent += self._end(session, Ending.LEASE)
        return sent

    def stop(self) -> list[Datagram]:
        """End all sessions, and tell everybody."""
        return [d for each in self.sessions for d in self._end(each, Ending.CLOSED)]

    def receive(self, datagrams: Iterable[Datagram], now_us: int) -> list[Datagram]:
        """Return the answers to datagrams, taken in order."""
        sent = self.expire(now_us)
        for session, run in groupby(datagrams, key=_exchange_session):
            if session is not None:
                sent += self._exchange(session, list(run), now_us)
                continue
            for address, data in run:
                sent += self._control(address, data, now_us)
        return sent

    # Exchanges

    def _exchange(
        self, number: int, run: list[Datagram], now_us: int
    ) -> Iterator[Datagram]:
        """Hand the packets of a session's members to its registers."""
        session = self._sessions.get(number)
        if session is None:
            for address, data in run:
                yield from self._tell_unknown(address, data, number, now_us)
            return
        lengths = np.array([len(data) for _, data in run], dtype=np.int32)
        rows = np.zeros((len(run), int(lengths.max())), dtype=np.uint8)
        for row, (_, data) in zip(rows, run, strict=True):
            row[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        are_right = check_tags(rows, lengths, session.key)
        header = rows[:, :HEADER_BYTES].copy().view(HEADER).reshape(-1)
        clients = header["client"]
        for place, (address, data) in enumerate(run):
            if not are_right[place]:
                self.drops["tag"] += 1
            elif not session.is_at(int(clients[place]), address):
                are_right[place] = False
                self.drops["address"] += 1
                refusal = Refusal(number, int(clients[place]), Reason.MEMBER)
                yield from self._refuse(address, refusal, data, session.key, now_us)
        session.hear(clients[are_right], now_us)
        answers = session.switch.process(rows[are_right], lengths[are_right])
        yield from session.address(answers)

    def _tell_unknown(
        self, address: Address, data: bytes, number: int, now_us: int
    ) -> Iterator[Datagram]:
        """Say that a session is not there, or once more how it ended."""
        self.drops[Drop.UNKNOWN_SESSION.name.lower()] += 1
        key = next(
            (k for k in self._keys.every_session_key(number) if is_tag_right(data, k)),
            None,
        )
        if key is None:
            return
        ended = self._ended(number)
        client = int.from_bytes(data[14:16], "big")
        refusal = Refusal(number, client, Reason.UNKNOWN_SESSION)
        yield from self._refuse(address, ended or refusal, data, key, now_us)

    def _ended(self, number: int) -> Abort | None:
        """Return how a session ended, if it was the last of its job."""
        ends = (job.ended for job in self._jobs.values())
        return next((each for each in ends if each and each.session == number), None)

    def _refuse(
        self,
        address: Address,
        refusal: Refusal | Abort,
        data: bytes,
        key: bytes,
        now_us: int,
    ) -> Iterator[Datagram]:
        """Refuse what no cookie covers: now and then, and in no more bytes."""
        last = self._refused.get(address)
        if last is not None and last <= now_us < last + _REFUSAL_US:
            return
        if len(self._refused) >= _MAX_REFUSED:
            self._refused.clear()
        self._refused[address] = now_us
        answer = tagged(encode(refusal.write()), key)
        if len(answer) <= len(data):
            yield address, answer

    # Control packets

    def _control(
        self, address: Address, data: bytes, now_us: int
    ) -> Iterator[Datagram]:
        try:
            packet = decode(data)
            control = read_control(packet)
        except RemoteProtocolError:
            yield from self._refuse_version(address, data, now_us)
            return
        match control:
            case Open() | Close():
                yield from self._coordinate(address, data, control, now_us)
            case Join() | Alive(is_answer=False):
                yield from self._attend(address, data, control, now_us)
            case Status():
                yield from self._report(address, data, control, now_us)
            case _:
                self.drops["foreign"] += 1

    def _refuse_version(
        self, address: Address, data: bytes, now_us: int
    ) -> Iterator[Datagram]:
        self.drops["foreign"] += 1
        is_ours = data[:2] == MAGIC.to_bytes(2, "big") and len(data) >= HEADER_BYTES
        if not is_ours or data[2] == VERSION:
            return
        session = int.from_bytes(data[4:12], "big")
        key = Keyring().session_key(0, session)
        refusal = Refusal(session, EVERYONE, Reason.VERSION, VERSION, data[2])
        yield from self._refuse(address, refusal, data, key, now_us)

    def _coordinate(
        self, address: Address, data: bytes, asked: Open | Close, now_us: int
    ) -> Iterator[Datagram]:
        """Do what a job's coordinator asks for, once its address is proved."""
        opening_key = self._keys.opening_key(asked.job, asked.session)
        if not is_tag_right(data, opening_key):  # which a session's members have not
            self.drops["key"] += 1
            refusal = Refusal(asked.session, EVERYONE, Reason.KEY)
            public = Keyring().session_key(0, asked.session)
            yield from self._refuse(address, refusal, data, public, now_us)
            return
        key = self._keys.session_key(asked.job, asked.session)
        proof = cookie_of(self._secret, address, asked.session, EVERYONE)
        answer: Control = Cookie(asked.session, EVERYONE, proof)
        if is_cookie_right(asked.cookie, proof):
            yield from self._retire(asked)
            answer = (
                self._open(asked, address, key, now_us)
                if isinstance(asked, Open)
                else self._close(asked)
            )
        yield address, tagged(encode(answer.write()), key)

    def _retire(self, asked: Open | Close) -> Iterator[Datagram]:
        """End the job's session if this is about a newer one, or closes it."""
        session = self._session_of(asked.job)
        if session is None or asked.epoch < session.asked.epoch:
            return
        is_newer = asked.session > session.asked.session
        is_new = isinstance(asked, Open) and is_newer and not asked.is_renewal
        if isinstance(asked, Open) and is_new and not self._fault(asked):
            yield from self._end(session, Ending.REPLACED)
        elif isinstance(asked, Close) and asked.session == session.asked.session:
            yield from self._end(session, Ending.CLOSED)

    def _session_of(self, job: int) -> Session | None:
        entry = self._jobs.get(job)
        return self._sessions.get(entry.last) if entry else None

    def _open(
        self, asked: Open, address: Address, key: bytes, now_us: int
    ) -> Opened | Refusal | Abort:
        """Open a session, or keep its lease; return the answer."""
        running = self._sessions.get(asked.session)
        if running is None and asked.is_renewal:
            unknown = Refusal(asked.session, EVERYONE, Reason.UNKNOWN_SESSION)
            return self._ended(asked.session) or unknown
        fault = self._fault(asked)
        if fault is not None:
            reason, held, given = fault
            return Refusal(asked.session, EVERYONE, reason, held, given)
        if running is None:
            running = self._begin(asked, address, key, now_us)
        running.coordinator = address
        running.lease_until_us = now_us + 1000 * asked.lease_ms
        self._jobs[asked.job].heard_us = now_us
        register_bytes = running.job.layout.register_bytes
        return Opened(asked.session, register_bytes, running.credit)

    def _fault(self, asked: Open) -> tuple[Reason, int, int] | None:
        """Return why a session cannot be: the reason, what is held, what is asked."""
        entry = self._jobs.get(asked.job)
        running = self._sessions.get(asked.session)
        if entry and asked.epoch < entry.epoch:
            return Reason.EPOCH, entry.epoch, asked.epoch
        if running is not None and running.asked.job == asked.job:
            same = _without_cookie(running.asked) == _without_cookie(asked)
            return None if same else (Reason.SESSION, asked.session, asked.session)
        if running is not None or (entry and asked.session <= entry.last):
            held = entry.last if entry else asked.session
            return Reason.SESSION, held, asked.session
        return self._excess(asked)

    def _excess(self, asked: Open) -> tuple[Reason, int, int] | None:
        """Return which limit a session exceeds, by what it asks for."""
        n_members, payload = asked.n_clients + asked.n_observers, asked.payload_bytes
        limits, others = self.limits, {s.asked.job for s in self._sessions.values()}
        if asked.n_clients < 1 or n_members > limits.max_members:
            return Reason.MEMBERS, limits.max_members, n_members
        if not PAYLOAD_UNIT <= payload <= MAX_PAYLOAD_BYTES or payload % PAYLOAD_UNIT:
            return Reason.PAYLOAD, MAX_PAYLOAD_BYTES, payload
        if len(others - {asked.job}) >= limits.max_jobs:
            return Reason.JOBS, limits.max_jobs, len(others) + 1
        needed = least_register_bytes(n_members, payload)
        if needed > limits.job_bytes:
            return Reason.MEMORY, limits.job_bytes, needed
        return None

    def _begin(self, asked: Open, address: Address, key: bytes, now_us: int) -> Session:
        switch = Switch(self.limits.job_bytes, payload_bytes=asked.payload_bytes)
        job = switch.open(
            asked.n_clients,
            n_observers=asked.n_observers,
            session=asked.session,
            keeps_early=True,
        )
        n_members = asked.n_clients + asked.n_observers
        session = Session(
            asked=asked,
            coordinator=address,
            key=key,
            switch=switch,
            job=job,
            credit=max(1, min(self.limits.buffer_packets // n_members, 0xFFFF)),
            lease_until_us=now_us + 1000 * asked.lease_ms,
            heard_us=np.full(n_members, now_us, dtype=np.int64),
        )
        self._sessions[asked.session] = session
        self._forget_jobs()
        self._jobs[asked.job] = JobEntry(asked.epoch, asked.session)
        return session

    def _forget_jobs(self) -> None:
        """Forget jobs without a session if there are many, the longest silent first."""
        idle = [
            (entry.heard_us, job)
            for job, entry in self._jobs.items()
            if entry.last not in self._sessions
        ]
        n_many = len(self._jobs) - 16 * self.limits.max_jobs
        for _, job in sorted(idle)[: max(0, n_many)]:
            del self._jobs[job]

    def _close(self, asked: Close) -> Closed | Refusal:
        entry = self._jobs.get(asked.job)
        if entry and asked.epoch < entry.epoch:
            held, given = entry.epoch, asked.epoch
            return Refusal(asked.session, EVERYONE, Reason.EPOCH, held, given)
        return Closed(asked.session)

    def _attend(
        self, address: Address, data: bytes, said: Join | Alive, now_us: int
    ) -> Iterator[Datagram]:
        """Let a member in, or note that it is there."""
        session = self._sessions.get(said.session)
        if session is None:
            yield from self._tell_unknown(address, data, said.session, now_us)
            return
        if not is_tag_right(data, session.key):
            self.drops["tag"] += 1
            if isinstance(said, Join):  # it may be a client with another key
                refusal = Refusal(said.session, said.client, Reason.KEY)
                public = Keyring().session_key(0, said.session)
                yield from self._refuse(address, refusal, data, public, now_us)
            return
        answer = (
            self._join(session, said, address, now_us)
            if isinstance(said, Join)
            else self._note(session, said, address, now_us)
        )
        if answer is not None:
            yield address, tagged(encode(answer.write()), session.key)

    def _join(
        self, session: Session, join: Join, address: Address, now_us: int
    ) -> Control | None:
        number, client = join.session, join.client
        is_observer = session.is_observer(client)
        if client >= session.n_members or is_observer != join.is_observer:
            held = session.asked.n_clients
            return Refusal(number, client, Reason.MEMBER, held, client)
        if join.payload_bytes != session.asked.payload_bytes:
            held = session.asked.payload_bytes
            return Refusal(number, client, Reason.PAYLOAD, held, join.payload_bytes)
        proof = cookie_of(self._secret, address, number, client)
        if not is_cookie_right(join.cookie, proof):
            return Cookie(number, client, proof)
        return session.admit(join, address, now_us)

    def _note(
        self, session: Session, alive: Alive, address: Address, now_us: int
    ) -> Control | None:
        if not session.is_at(alive.client, address):
            self.drops["address"] += 1
            return Refusal(alive.session, alive.client, Reason.MEMBER)
        session.heard_us[alive.client] = now_us
        return Alive(alive.session, alive.client, is_answer=True)

    def _report(
        self, address: Address, data: bytes, asked: Status, now_us: int
    ) -> Iterator[Datagram]:
        """Say how the switch does, to who has a key of it if there is any."""
        number = asked.number
        keys = self._keys.status_keys(number)
        key = next((key for key in keys if is_tag_right(data, key)), None)
        if key is None:
            self.drops["key"] += 1
            refusal = Refusal(number, EVERYONE, Reason.KEY)
            public = Keyring().session_key(0, number)
            yield from self._refuse(address, refusal, data, public, now_us)
            return
        proof = cookie_of(self._secret, address, number, EVERYONE)
        answer: Control = Cookie(number, EVERYONE, proof)
        if is_cookie_right(asked.cookie, proof):
            answer = self._describe(number, now_us)
        yield address, tagged(encode(answer.write()), key)

    def _describe(self, number: int, now_us: int) -> Report:
        traffic, drops = self.traffic, self.all_drops
        sessions = self._sessions.values()
        return Report(
            number=number,
            uptime_ms=(now_us - traffic.started_us) // 1000,
            packets_in=traffic.packets_in,
            packets_out=traffic.packets_out,
            unsent=traffic.unsent,
            n_jobs=len(sessions),
            max_jobs=self.limits.max_jobs,
            n_members=sum(len(each.members) for each in sessions),
            register_bytes=self.limits.register_bytes,
            used_bytes=sum(each.switch.used_bytes for each in sessions),
            drops=tuple(drops[reason] for reason in REASONS),
        )

    def _end(
        self, session: Session, ending: Ending, missing: tuple[int, ...] = ()
    ) -> Iterator[Datagram]:
        """Give a session up, and tell all members and the coordinator."""
        number = session.asked.session
        del self._sessions[number]
        for reason, count in session.switch.counters.drops.items():
            self.drops[reason] += count
        abort = Abort(number, ending, missing)
        self._jobs[session.asked.job].ended = abort
        data = tagged(encode(abort.write()), session.key)
        yield from ((address, data) for address in session.everyone())


def _exchange_session(datagram: Datagram) -> int | None:
    """Return the session of an exchange's packet; None for all other datagrams."""
    _, data = datagram
    starts = MAGIC.to_bytes(2, "big") + bytes([VERSION])
    is_exchange = data[:3] == starts and len(data) >= HEADER_BYTES
    if not is_exchange or data[3] not in _KINDS:
        return None
    return int.from_bytes(data[4:12], "big")


def _without_cookie(asked: Open) -> tuple[int, ...]:
    return (
        asked.session,
        asked.job,
        asked.epoch,
        asked.n_clients,
        asked.n_observers,
        asked.payload_bytes,
        asked.lease_ms,
        asked.silence_ms,
    )
