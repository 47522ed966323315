"""One member of one session: from its join to its last answer.

Packets and the time go in; packets and a deadline come out. A member asks one exchange
after the other, repeats what is not answered in time, says now and then that it is
there, and knows within a bound that something is wrong, and what.

It never says how a session ended: an abort or an error stops it, but only the
coordinator knows whether the round counts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from fediac.core.exchange import (
    Answer,
    BlockSum,
    Exchange,
    IndexedSum,
    Max,
    ServerSum,
    Sum,
    Tally,
)
from fediac.errors import (
    FediacError,
    LocalProtocolError,
    RemoteProtocolError,
    SessionError,
)
from fediac.sessions.aligned import MaxQuestion, SumQuestion, TallyQuestion
from fediac.sessions.blocks import BlocksQuestion
from fediac.sessions.explanations import (
    say_ending,
    say_ending_before,
    say_held,
    say_refusal,
    say_version,
)
from fediac.sessions.flights import Flight, Flights
from fediac.sessions.pacing import RoundTrip, Window
from fediac.sessions.questions import Place, Question
from fediac.switch.registers import Layout
from fediac.wire.control import (
    Abort,
    Alive,
    Control,
    Cookie,
    Join,
    Refusal,
    Welcome,
    read_control,
)
from fediac.wire.header import (
    EXCHANGES,
    HEADER_BYTES,
    MAX_CLIENTS,
    VERSION,
    Flag,
    Kind,
    Reason,
)
from fediac.wire.packet import Packet, decode, encode
from fediac.wire.tag import (
    Lengths,
    Rows,
    check_tags,
    is_tag_right,
    session_key,
    tag_packets,
)

_START_TOGETHER, _START_US = 16, 160
"""So many members begin together, the next ones so much later: a default receive buffer
holds 92 packets, and 1,024 members that begin at once send 4,096."""

_KEEP_ALIVES = 4
"""In the time after which a silent member is missed."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What a member was told by its coordinator, and how patient it is.

    Attributes:
        session: The session's number.
        client: The member's.
        payload_bytes: Room for items in a packet.
        key: The session's tags are made with it.
        is_observer: Whether it adds nothing, and gets every answer.
        patience_us: How long the switch may be silent.
    """

    session: int
    client: int
    payload_bytes: int
    key: bytes = field(repr=False)
    is_observer: bool = False
    patience_us: int = 5_000_000

    def __post_init__(self) -> None:
        if not 0 <= self.client < MAX_CLIENTS:
            raise LocalProtocolError(
                f"client must be in 0..{MAX_CLIENTS - 1}, got {self.client}"
            )


class Member:
    """Takes packets and the time, gives packets and a deadline; asks exchanges.

    Attributes:
        problem: Why the session cannot go on, once it is known.
        n_resent: Packets that were sent again.
    """

    def __init__(self, seat: Seat, now_us: int) -> None:
        self.seat = seat
        self.problem: SessionError | None = None
        self.n_resent = 0
        self._counter = 1
        self._cookie = 0
        self._is_in = False
        self._welcome: Welcome | None = None
        self._spread_us = seat.client // _START_TOGETHER * _START_US
        self._join_due_us = self._join_sent_us = now_us + self._spread_us
        self._begins_us: int | None = None
        self._n_joins = 0
        self._heard_us = self._sent_us = now_us
        self._trip = RoundTrip()
        self._window = Window(1)
        self._flights = Flights()
        self._is_silent = False
        self._n_in: int | None = None
        self._asked: Exchange | None = None
        self._question: Question | None = None
        self._exchange = -1
        self._hint = ""

    # What its owner says and asks

    @property
    def is_in(self) -> bool:
        """Whether the switch knows where it is."""
        return self._is_in

    @property
    def is_asking(self) -> bool:
        """Whether an exchange waits for its answer."""
        return self._asked is not None

    @property
    def layout(self) -> Layout | None:
        """Where the session's registers are; None: it has not joined yet."""
        welcome = self._welcome
        if welcome is None:
            return None
        return Layout(
            welcome.n_clients + welcome.n_observers,
            welcome.payload_bytes,
            welcome.register_bytes,
            keeps_early=True,
        )

    def ask(self, exchange: Exchange) -> None:
        """Begin the next exchange; the last one must be answered."""
        if self._asked is not None:
            raise LocalProtocolError(
                "the last exchange must be answered before another"
            )
        self._asked = exchange
        self._exchange += 1
        self._make_question()

    def awake(self, now_us: int) -> None:
        """Go on after a time in which nobody sent or listened for it."""
        self._heard_us = now_us

    def take_answer(self) -> Answer | None:
        """Return the answer to the exchange once it is there; another may be asked."""
        if self._question is None or not self._question.is_done:
            return None
        answer = self._question.answer()
        self._asked = self._question = None
        self._flights.clear()
        return answer

    def move(self, now_us: int) -> None:
        """Join again: its address has changed."""
        self._counter += 1
        self._is_in, self._cookie, self._join_due_us = False, 0, now_us

    # What it sends

    @property
    def deadline_us(self) -> int:
        """When `send` has something to do, if nothing is received before."""
        ends = [self._heard_us + self.seat.patience_us]
        if not self._is_in:
            return min(*ends, self._join_due_us)
        ends.append(self._sent_us + self._keep_alive_us)
        ends += self._flights.due_us(self._trip.timeout_us)
        if self._begins_us is not None and self._begins_us > self._sent_us:
            ends.append(self._begins_us)
        return min(ends)

    def send(self, now_us: int) -> list[bytes]:
        """Return the packets to send now."""
        if self.problem is None and now_us >= self._heard_us + self.seat.patience_us:
            self.give_up(self._say_silence())
        if self.problem is not None:
            return []
        packets = list(self._due(now_us))
        if packets:
            self._sent_us = now_us
        return self._tag(packets)

    def _due(self, now_us: int) -> Iterator[Packet]:
        if not self._is_in:
            if now_us >= self._join_due_us:
                self._join_due_us = now_us + self._trip.timeout_us
                self._join_sent_us = now_us
                self._n_joins += 1
                yield self._join().write()
            return
        yield from self._due_packets(now_us)
        if now_us >= self._sent_us + self._keep_alive_us:
            seat = self.seat
            alive = Alive(seat.session, seat.client, is_observer=seat.is_observer)
            yield alive.write()

    def _due_packets(self, now_us: int) -> Iterator[Packet]:
        """Yield what was lost and then what is new, as the window has room."""
        question, flights = self._question, self._flights
        if question is None or not self._has_begun(now_us):
            return
        if flights.expire(now_us, self._trip.timeout_us):
            if self._is_silent:
                self._window.begin_anew()
            self._is_silent = True
        while flights.n_flying < self._window.size:
            key = flights.next_lost()
            if key is None:
                key = question.next_key()
            if key is None:
                return
            self.n_resent += flights.launch(key, now_us)
            yield question.packet(key)

    def _has_begun(self, now_us: int) -> bool:
        """Return whether it is this member's time to ask the exchange."""
        if self._begins_us is None:
            self._begins_us = now_us + self._spread_us
        return now_us >= self._begins_us

    @property
    def _keep_alive_us(self) -> int:
        silence_ms = self._welcome.silence_ms if self._welcome else 0
        return max(1000, 1000 * silence_ms // _KEEP_ALIVES)

    def _join(self) -> Join:
        seat = self.seat
        return Join(
            seat.session,
            seat.client,
            self._counter,
            seat.payload_bytes,
            self._cookie,
            is_observer=seat.is_observer,
        )

    def _tag(self, packets: list[Packet]) -> list[bytes]:
        if not packets:
            return []
        rows, lengths = _stack([encode(each) for each in packets])
        tag_packets(rows, lengths, self.seat.key)
        return [
            row[:length].tobytes() for row, length in zip(rows, lengths, strict=True)
        ]

    # What it receives

    def receive(self, datagrams: Iterable[bytes], now_us: int) -> None:
        """Take what the switch sends; all else changes nothing."""
        given = [data for data in datagrams if len(data) >= HEADER_BYTES]
        if not given or self.problem is not None:
            return
        rows, lengths = _stack(given)
        are_right = check_tags(rows, lengths, self.seat.key)
        for data, is_right in zip(given, are_right.tolist(), strict=True):
            if not is_right:
                self._note_hint(data)
                continue
            try:
                packet = decode(data)
            except RemoteProtocolError:
                continue
            is_ours = packet.session == self.seat.session
            if is_ours and Flag.ANSWER in packet.flags:
                self._heard_us = now_us
                self._hear(packet, now_us)

    def _hear(self, packet: Packet, now_us: int) -> None:
        is_of_exchange = packet.kind in EXCHANGES or packet.kind == Kind.WAIT
        is_error = packet.kind == Kind.ERROR and packet.part in (
            Reason.SETTINGS,
            Reason.ITEMS,
        )
        if not (is_of_exchange or is_error):
            try:
                self._obey(read_control(packet), now_us)
            except RemoteProtocolError:
                return
        elif self._question is None or packet.exchange != self._exchange:
            return
        elif is_error:
            self.give_up(say_held(packet, self._own_packet(packet.packet)))
        elif packet.kind == Kind.WAIT:
            self._note_wait(self._question, packet, now_us)
        else:
            self._note_answer(self._question, packet, now_us)

    def _own_packet(self, number: int) -> Packet | None:
        """Return the packet that an error is about, if it is on its way."""
        if self._question is None or number not in self._flights:
            return None
        return self._question.packet(number)

    def _note_wait(self, question: Question, told: Packet, now_us: int) -> None:
        """Leave packets alone that are counted: others are late, or an answer lost."""
        self._n_in, self._is_silent = told.count, False
        for key in question.counted(told):
            self._note_flight(self._flights.count(key, now_us), now_us, is_wait=True)
        for key in question.missing(told):
            self._flights.lose(key, before=told.packet)

    def _note_answer(self, question: Question, answer: Packet, now_us: int) -> None:
        """Forget what is answered; what was sent before that may be lost."""
        self._is_silent = False
        for key in question.take(answer):
            self._note_flight(self._flights.land(key), now_us)
        self._flights.lose_overtaken(now_us, self._trip.timeout_us // 2)
        awaited, overdue = question.awaited(), question.overdue()
        if awaited is not None:
            self._flights.expect(awaited, now_us)
        if overdue is not None:
            self._flights.recall(overdue)

    def _note_flight(
        self, flight: Flight | None, now_us: int, *, is_wait: bool = False
    ) -> None:
        """Learn from a packet of which the switch was heard how the way there is.

        A packet is lost as often as it was repeated; but a wait is the answer to one
        that was counted before.
        """
        if flight is None or not flight.n_sent:
            return
        trip_us = now_us - flight.at_us if flight.was_sent_once else None
        self._window.note(max(0, flight.n_sent - 1 - is_wait), trip_us)
        if trip_us is not None:
            self._trip.measure(trip_us)

    def _obey(self, control: Control, now_us: int) -> None:
        match control:
            case Cookie(client=client) if client == self.seat.client:
                if not self._is_in and control.cookie != self._cookie:
                    self._measure_join(now_us)
                    self._cookie, self._join_due_us = control.cookie, now_us
            case Welcome():
                self._enter(control, now_us)
            case Refusal(reason=Reason.MEMBER, held=0):
                if self._is_in:  # its address has changed without its knowing
                    self.move(now_us)
            case Refusal(client=client) if client in (self.seat.client, 0xFFFF):
                self.give_up(say_refusal(control))
            case Abort():
                self.give_up(self._say_ending(control))
            case _:
                pass

    def _enter(self, welcome: Welcome, now_us: int) -> None:
        is_mine = welcome.client == self.seat.client
        if not is_mine or welcome.counter != self._counter or self._is_in:
            return
        self._is_in = True
        self._measure_join(now_us)
        if self._welcome is None:
            self._welcome = welcome
            self._make_question()

    def _measure_join(self, now_us: int) -> None:
        """Learn from the answer to a join how far away the switch is."""
        if self._n_joins == 1:
            self._trip.measure(now_us - self._join_sent_us)
        self._n_joins = 0

    def _make_question(self) -> None:
        """Begin the exchange, once the switch has said how much room there is."""
        welcome, layout, asked = self._welcome, self.layout, self._asked
        if welcome is None or layout is None or asked is None:
            return
        seat = self.seat
        place = Place(
            seat.session, seat.client, self._exchange, layout, seat.is_observer
        )
        try:
            self._question = _question_of(place, asked)
        except FediacError as error:  # the registers are too few for it, say
            self.give_up(str(error))
            return
        self._window.most = max(1, welcome.credit)
        self._begins_us = None
        self._n_in = None

    def _note_hint(self, data: bytes) -> None:
        """Remember an error that anybody could have sent: it explains a silence."""
        if data[3] != Kind.ERROR:
            return
        if data[2] != VERSION:
            self._hint = f"; {say_version(data[2])}"
        elif is_tag_right(data, session_key(None, self.seat.session)):
            packet = decode(data)
            if packet.part == Reason.KEY:
                self._hint = "; it has another key for this job"

    def give_up(self, why: str) -> None:
        """Stop: the session cannot go on with this member."""
        self.problem = SessionError(f"session {self.seat.session}: {why}")

    def _say_ending(self, abort: Abort) -> str:
        if self._welcome is None:
            return say_ending_before(abort, self.seat.client)
        return say_ending(abort, self._welcome.silence_ms)

    def _say_silence(self) -> str:
        patience_s = self.seat.patience_us / 1e6
        text = f"no answer from the switch for {patience_s:g} s{self._hint}"
        if not self._is_in:
            return f"{text} (has not joined)"
        if self._question is None:
            return text
        text = f"{text}, exchange {self._exchange}: {self._question.say_missing()}"
        return f"{text}, {self._n_in} are in" if self._n_in is not None else text


def _question_of(place: Place, asked: Exchange) -> Question:
    match asked:
        case Tally():
            return TallyQuestion(place, asked)
        case Max():
            return MaxQuestion.of(place, asked)
        case Sum():
            return SumQuestion(place, asked)
        case BlockSum():
            return BlocksQuestion(place, asked)
        case IndexedSum() | ServerSum():
            raise LocalProtocolError(
                f"{type(asked).__name__} cannot be asked of a switch over a network, "
                "which adds up tallies, maxima, sums and blocks"
            )


def _stack(datagrams: list[bytes]) -> tuple[Rows, Lengths]:
    """Return datagrams as rows of bytes, and their lengths."""
    lengths = np.array([len(data) for data in datagrams], dtype=np.int32)
    rows = np.zeros((len(datagrams), int(lengths.max())), dtype=np.uint8)
    for row, data in zip(rows, datagrams, strict=True):
        row[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    return rows, lengths
