"""One client of one session, for who runs its rounds by themselves: the plainest door.

Whoever opened the session tells its clients its number, its key and their places;
nothing else is needed to take part. `Participant` is the door for clients that may be
killed.
"""

from collections.abc import Mapping
from typing import Self

from fediac.compressors.protocol import Outcome, Round
from fediac.core.exchange import Answer, Exchange
from fediac.core.ledger import Ledger
from fediac.errors import ArgumentError, LocalProtocolError
from fediac.network.addresses import Endpoint
from fediac.remote.link import Link, clock_us, drive
from fediac.sessions.member import Member, Seat
from fediac.switch.counters import Counters
from fediac.switch.registers import Layout
from fediac.transports.lockstep import run_lockstep
from fediac.transports.register_count import RegisterCount
from fediac.wire.header import payload_of
from fediac.wire.tag import KEY_BYTES, session_key


class SwitchClient:
    """A client's way to the switch in one session; ``run`` runs its rounds there.

    It is a transport, too: `carry` takes the exchange of this one client.

    Args:
        address: ``HOST:PORT`` of the switch.
        session: The number of a session that is open, see `fediac.Coordinator`.
        client: This client's place among the members, counted from 0.
        key: The session's, `fediac.Coordinator` has it; None: the job has none.
        mtu: The longest IP packet that the path takes; all members' is the same.
        patience_s: How long the switch may be silent.

    Raises:
        SessionError: The switch does not answer in time, or says that it has no such
            session, another key, or no such member.
    """

    def __init__(
        self,
        address: str,
        *,
        session: int,
        client: int,
        key: bytes | None = None,
        mtu: int = 1500,
        patience_s: float = 5.0,
    ) -> None:
        endpoint = Endpoint.parse(address, name="address")
        if not 0 < session < 1 << 64:
            raise ArgumentError("session", f"must be in 1..2**64-1, got {session}")
        if key is not None and len(key) != KEY_BYTES:
            raise ArgumentError(
                "key", f"must be a session's, of {KEY_BYTES} bytes, got {len(key)}"
            )
        payload_bytes = payload_of(mtu)
        seat = Seat(
            session,
            client,
            payload_bytes,
            session_key(None, session) if key is None else key,
            patience_us=patience_of(patience_s),
        )
        self.client = client
        self._link = Link(endpoint)
        self._member = Member(seat, clock_us())
        try:
            self._drive()
        except BaseException:
            self.close()
            raise
        self._counts: RegisterCount | None = None

    def close(self) -> None:
        """Leave; the session goes on without a word, and misses this client."""
        self._link.close()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave."""
        self.close()

    # A transport

    @property
    def payload_bytes(self) -> int:
        """Room for items in a packet."""
        return self._member.seat.payload_bytes

    @property
    def layout(self) -> Layout:
        """Where the session's registers are."""
        layout = self._member.layout
        if layout is None:
            raise LocalProtocolError("a client must have joined before it asks")
        return layout

    @property
    def counters(self) -> Counters:
        """What the registers count of this client's packets if nothing is lost."""
        return self._counter.counters

    @property
    def n_resent(self) -> int:
        """Packets that were sent again."""
        return self._member.n_resent

    @property
    def _counter(self) -> RegisterCount:
        if self._counts is None:
            self._counts = RegisterCount(self.layout, 1)
        return self._counts

    def carry(self, requests: Mapping[int, Exchange]) -> Answer:
        """Return the answer to this client's exchange.

        Raises:
            SessionError: There is none: the session cannot go on.
        """
        if len(requests) != 1:
            raise ArgumentError(
                "requests", f"must be of one client, got {len(requests)}"
            )
        (exchange,) = requests.values()
        self._member.awake(clock_us())
        self._member.ask(exchange)
        answer = self._drive()
        if answer is None:
            raise LocalProtocolError("an exchange must have an answer")
        self._counter.add([exchange], answer)
        return answer

    def _drive(self) -> Answer | None:
        """Go on until the client has joined, or has the answer that it asked for."""
        member, answers = self._member, list[Answer]()

        def is_done() -> bool:
            answer = member.take_answer()
            if answer is not None:
                answers.append(answer)
            is_there = bool(answers) if member.is_asking else member.is_in
            return is_there or bool(answers) or member.problem is not None

        drive([(self._link, member)], is_done)
        if not answers and member.problem is not None:
            raise member.problem
        return answers[0] if answers else None

    # What it is for

    def run(self, run: Round, *, round_number: int = 0) -> tuple[Outcome, Ledger]:
        """Return what a round returned, and what this client sent and got.

        Rounds of one session follow each other, such as that of an update and that of
        statistics; all members run the same ones in the same order.

        Args:
            run: What a compressor's ``run_round`` returns.
            round_number: For the ledger.

        Raises:
            SessionError: The session cannot go on. Nothing is counted, unless who
                opened it says otherwise.
        """
        outcomes, ledger = run_lockstep(
            {self.client: run}, self, round_number=round_number
        )
        return outcomes[self.client], ledger


def patience_of(seconds: float) -> int:
    """Return a patience in microseconds.

    Raises:
        ArgumentError: It is none.
    """
    if not 0.0 < seconds < 1e9:
        raise ArgumentError(
            "patience_s", f"must be above 0 and below 1e9, got {seconds}"
        )
    return round(1e6 * seconds)
