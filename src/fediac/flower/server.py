"""The coordinator inside a ServerApp: who takes part, how sessions end, what counts.

Every attempt at a round is a session of fixed members. Whoever fails in it is left out
of the next one, which begins with what the others have asked already; nobody trains
again. Members are told how it ended with the next message they get.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from logging import WARNING
from typing import Any

from flwr.app import ArrayRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log

from fediac.compressors.protocol import State
from fediac.errors import ConfigError, FediacError, say_count
from fediac.flower.algorithm import Algorithm
from fediac.flower.book import Book, Commit, Kept
from fediac.flower.carrying import Asked, Carrier, Traffic
from fediac.flower.grid import collect
from fediac.flower.inner import Inner
from fediac.flower.metrics import RoundMetrics
from fediac.flower.pair import PairRun, Place, Trained
from fediac.flower.peers import Peer, Places
from fediac.flower.records import Parcel, array_record, arrays_of
from fediac.flower.road import Road, RoadSettings, places_of
from fediac.flower.words import VERSION, Ask, digest_of, form_of, version_problem
from fediac.sessions.messages import Step
from fediac.transports.exchange_checks import require_exchanges
from fediac.transports.forms import Form

_OBSERVER = (1 << 32) - 1
"""In place of a client's number, for the server's own run of a round."""

_ROAD_REPLY_S, _ROAD_FAILED_S = 30.0, 10.0
"""How long to wait for what members of a session say of it, once it is over."""

_AFTER = ("evaluate", "settle")
"""What is asked when the round's sessions are over."""

_MAX_PASSES = 3
"""A node lacks a verdict and then a model, at most."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How rounds are run.

    Attributes:
        algorithm: What compresses.
        seed: Of all that clients draw.
        averages: Whether batch norm's statistics are averaged.
        enough: With fewer clients a round is given up.
        road: The switch to go over; None: by Flower's messages.
    """

    algorithm: Algorithm
    seed: int
    averages: bool
    enough: int
    road: RoadSettings | None = None


@dataclass(slots=True)
class _Made:
    """A round that went through."""

    session: int
    members: list[int]
    steps: list[Step]
    run: PairRun
    is_by_road: bool = False


@dataclass(slots=True)
class _Asked:
    """One message that was sent to every node of a step, and can be sent again."""

    ask: Ask
    message_type: str
    contents: dict[int, RecordDict]
    replies: dict[int, Message] = field(default_factory=dict)
    parcels: dict[int, Parcel] = field(default_factory=dict)


class Server:
    """Makes rounds of what nodes answer.

    Args:
        settings: How.
        book: What it must not forget.
        inner: The app's own strategy.
    """

    def __init__(self, settings: ServerSettings, book: Book, inner: Inner) -> None:
        self.settings = settings
        self._book, self._inner = book, inner
        self._peers: dict[int, Peer] = {}
        self._metrics = RoundMetrics()
        self._timeout: float | None = None
        self._grid: Grid | None = None
        self._model: dict[str, Any] = {}
        self._record = ArrayRecord()
        self._digest = ""
        self._places = Places(0, {})
        self._asked: _Asked | None = None
        self._traffic = Traffic()
        self._road: Road | None = None

    def begin(self, initial: ArrayRecord, timeout: float) -> tuple[int, ArrayRecord]:
        """Return how many rounds are behind, and the model to go on from."""
        self._timeout = timeout
        kept = self._book.begin()
        if self.settings.road is not None:
            self._road = Road(self.settings.road, self._book.job)
        if kept is None:
            return 0, initial
        before = {
            key: (each.shape, each.dtype) for key, each in arrays_of(initial).items()
        }
        found = {key: (each.shape, each.dtype) for key, each in kept.arrays.items()}
        if before != found:
            raise ConfigError(
                "folder has a model with other arrays than initial_arrays; take "
                "another folder for another model"
            )
        self._inner.restore(kept.strategy)
        return kept.round_number, array_record(kept.arrays)

    # Asking

    def ask_to_train(
        self,
        number: int,
        arrays: ArrayRecord,
        messages: Iterable[Message],
        grid: Grid,
    ) -> list[Message]:
        """Return the messages that begin a round."""
        self._grid, self._traffic = grid, Traffic()
        self._take_model(arrays)
        asked = list(messages)
        nodes = [each.metadata.dst_node_id for each in asked]
        self._places = Places.among(number, nodes)
        if nodes:
            self._places.session = self._book.number(number, sorted(nodes))
            n_there = len(list(grid.get_node_ids()))
            self._places.keep = 2 * len(nodes) >= n_there
            self.settings.algorithm.make(n_clients=len(nodes), dim=self._dim())
        return self._ask("train", asked)

    def ask_to_evaluate(
        self,
        number: int,
        arrays: ArrayRecord,
        messages: Iterable[Message],
        grid: Grid,
    ) -> list[Message]:
        """Return the messages that have a model evaluated."""
        self._grid, self._traffic = grid, Traffic()
        self._take_model(arrays)
        self._places = replace(self._places, number=number)
        return self._ask("evaluate", list(messages))

    def _take_model(self, arrays: ArrayRecord) -> None:
        if arrays is not self._record:
            self._model, self._record = arrays_of(arrays), arrays
            self._digest = digest_of(self._model)

    def _form(self) -> Form:
        return form_of(self._model, averages=self.settings.averages)

    def _dim(self) -> int:
        form = self._form()
        return len(form.flatten(form.like, form.learned))

    def _ask(self, ask: Ask, messages: list[Message]) -> list[Message]:
        """Return messages with what each node lacks, and without what it has."""
        if not messages:
            self._asked = _Asked(ask, MessageType.TRAIN, {})
            return []
        contents = {each.metadata.dst_node_id: each.content for each in messages}
        message_type = messages[0].metadata.message_type
        self._asked = _Asked(ask, message_type, contents)
        return [self._message(node) for node in contents]

    def _message(self, node: int, *, has_to_have: bool = False) -> Message:
        asked = self._require_asked()
        peer = self._peers.setdefault(node, Peer())
        parcel = self._parcel(node, asked.ask, session=self._places.session)
        content = RecordDict(
            {
                key: each
                for key, each in asked.contents[node].items()
                if key != self._inner.arrays_key
            }
        )
        if has_to_have or peer.digest != self._digest:
            content[self._inner.arrays_key] = self._record
            n_bytes = sum(each.nbytes for each in self._model.values())
            self._traffic.add("model", "down", n_bytes)
            peer.digest = self._digest
        if asked.ask == "train":
            parcel.values["asks"] = not self._goes_by_road()
            peer.session = self._places.session
        parcel.put(content)
        return Message(content, node, asked.message_type)

    def _parcel(self, node: int, ask: Ask, *, session: int = 0) -> Parcel:
        """Return what every message says, and how the node's last session ended.

        Args:
            node: Who it is for.
            ask: What for.
            session: The one that runs, which has no end yet.
        """
        settings, peer = self.settings, self._peers.setdefault(node, Peer())
        parcel = Parcel(
            {
                "version": VERSION,
                "algorithm": settings.algorithm.write(),
                "job": self._book.job,
                "epoch": self._book.epoch,
                "ask": ask,
                "round": self._places.number,
                "seed": settings.seed,
                "averages": settings.averages,
                "n_clients": len(self._places),
                "place": self._places.of.get(node, -1),
                "model_key": self._inner.arrays_key,
                "model_round": self._places.number,
                "digest": self._digest,
                "session": session,
                "keeps": self._places.keep,
            }
        )
        if peer.session and (peer.session != session or ask in _AFTER):
            self._add_verdict(parcel, peer.session)
        return parcel

    def _add_verdict(self, parcel: Parcel, session: int) -> None:
        parcel.values["verdict"] = session
        commit = self._book.commit_of(session)
        if commit is not None:
            parcel.values["counted"] = list(commit.places)
            parcel.add_all("last", commit.last)

    def _require_asked(self) -> _Asked:
        if self._asked is None:
            raise RuntimeError("configure_train must come before aggregate_train")
        return self._asked

    # Hearing

    def _hear_all(self, replies: list[Message]) -> None:
        """Sort replies; send again to who lacks something, until nobody does."""
        asked = self._require_asked()
        for _ in range(_MAX_PASSES):
            again = []
            for reply in sorted(replies, key=lambda each: each.metadata.src_node_id):
                lacks = self._hear(reply, asked)
                if lacks is not None:
                    node = reply.metadata.src_node_id
                    again.append(self._message(node, has_to_have=lacks == "model"))
            if not again:
                return
            replies = self._send(again)

    def _hear(self, reply: Message, asked: _Asked) -> str | None:
        """Note what a node replied; return what it lacks."""
        node = reply.metadata.src_node_id
        peer = self._peers.setdefault(node, Peer())
        parcel = None if reply.has_error() else Parcel.take(reply.content)
        if reply.has_error():
            peer.digest = ""
            log(WARNING, "fediac: node %s failed: %s", node, reply.error.reason)
            asked.replies[node] = reply
            return None
        if parcel is None or "unsettled" not in parcel.values:  # or it is our own
            raise ConfigError(
                f"node {node} replies without fediac.flower: its ClientApp must have "
                "compress_mod among its mods"
            )
        return self._hear_parcel(node, reply, parcel)

    def _hear_parcel(self, node: int, reply: Message, parcel: Parcel) -> str | None:
        asked, peer, values = self._require_asked(), self._peers[node], parcel.values
        problem = version_problem(
            values.get("version"), who=f"node {node}", own_who="the server"
        )
        if problem is None and "refusal" in values:
            problem = f"node {node} refuses: {values['refusal']}"
        if problem is not None:
            raise ConfigError(problem)
        self._metrics.hear(values)
        if peer.session and values["unsettled"] != peer.session:
            self._book.settle(peer.session, node)
        peer.session = values["unsettled"]
        if "problem" in values:
            log(WARNING, "fediac: node %s: %s", node, values["problem"])
            peer.digest = ""
            return None
        lacks: str | None = values.get("lacks")
        if lacks == "verdict" and not self._book.knows(peer.session):
            log(
                WARNING,
                "fediac: node %s was in session %s, which is newer than all in this "
                "journal; is it an old copy?",
                node,
                peer.session,
            )
            return None
        if lacks == "verdict":
            peer.digest = ""  # it could not take a model that came along
        if lacks is None:
            asked.replies[node], asked.parcels[node] = reply, parcel
        return lacks

    def _send(self, messages: list[Message]) -> list[Message]:
        if self._grid is None or not messages:
            return []
        return list(self._grid.send_and_receive(messages, timeout=self._timeout))

    # A round

    def end_round(
        self, number: int, replies: list[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the model after a round, and its metrics; None for a lost round."""
        if not self._places.of:
            return None, None
        self._hear_all(replies)
        asked = self._require_asked()
        made = self._make(number, list(asked.parcels))
        if made is None:
            log(
                WARNING,
                "fediac: round %s is given up: %s of %s replied, and it needs %s until "
                "its end; what they trained stays with them",
                number,
                len(asked.parcels),
                len(self._places),
                max(1, self.settings.enough),
            )
            return None, None
        form = self._form()
        mean_model = form.subtract(made.run.mean(form))
        applied = digest_of(mean_model)
        heard = [asked.replies[node] for node in made.members]
        self._model, record = self._inner.aggregate(number, mean_model, heard)
        self._record = array_record(self._model)
        self._digest = digest_of(self._model)
        self._commit(number, made, applied)
        metrics = self._metrics.begin(number, record, self._traffic)
        self._metrics.name_session(number, made.session, len(made.members))
        self._metrics.set(number, "members", len(made.members))
        self._metrics.set(number, "lost", len(self._places) - len(made.members))
        if self._road is not None:
            self._metrics.set(number, "over-switch", int(made.is_by_road))
        return self._record, metrics

    def _commit(self, number: int, made: _Made, applied: str) -> None:
        """Write down that a round counts; from then on members have its mean."""
        kept = Kept(number, self._model, self._inner.keeps())
        places = tuple(self._places.of[node] for node in made.members)
        commit = Commit(places, made.steps[-1])
        self._book.commit(made.session, commit, kept, made.members)
        for node in made.members:
            self._peers[node].digest = applied if self._places.keep else ""

    def _exchanges(self, node: int, parcel: Parcel) -> Asked:
        """Return what a node asks; nothing, if that is no use."""
        try:
            return require_exchanges(parcel.all_of("asked"))
        except FediacError as error:
            log(WARNING, "fediac: node %s: %s", node, error)
            return ()

    def _make(self, number: int, ready: list[int]) -> _Made | None:
        """Make a round, over the switch if there is one; None: too few are left."""
        members = sorted(ready, key=self._places.of.__getitem__)
        if self._goes_by_road():
            made, members = self._go_by_road(number, members)
            if made is not None:
                return made
            session = self._book.number(number, members)
            first = self._answer(session, members, [])
        else:
            session = self._places.session
            parcels = self._require_asked().parcels
            first = {node: self._exchanges(node, parcels[node]) for node in members}
        first = {node: each for node, each in first.items() if each}
        return self._carry_messages(number, session, first)

    def _carry_messages(
        self, number: int, session: int, first: Mapping[int, Asked]
    ) -> _Made | None:
        """Attempt a round by messages until one goes through.

        Args:
            number: The round.
            session: Of the first attempt.
            first: What members asked first.
        """
        members = sorted(first, key=self._places.of.__getitem__)
        while len(members) >= max(1, self.settings.enough):
            steps, run, lost = self._attempt(session, members, first)
            if not lost:
                return _Made(session, members, steps, run)
            self._say_lost(number, lost, session)
            members = [node for node in members if node not in lost]
            session = self._book.number(number, members)
        return None

    def _say_lost(self, number: int, lost: set[int], session: int) -> None:
        log(
            WARNING,
            "fediac: round %s goes on without %s, lost in session %s",
            number,
            say_count(len(lost), "node"),
            session,
        )

    def _goes_by_road(self) -> bool:
        if self._road is None:
            return False
        run = self._observer(len(self._places))
        return self._road.suits(run.compressor, self._dim())

    def _go_by_road(
        self, number: int, members: list[int]
    ) -> tuple[_Made | None, list[int]]:
        """Make a round over the switch; return who is left where that fails."""
        road = self._road
        while road is not None and len(members) >= max(1, self.settings.enough):
            run, ids = self._observer(len(members)), list[str]()
            begin = partial(self._begin_by_road, road, number, members, ids)
            passage = road.go(len(members), number, run, begin)
            asked = self._require_asked()
            away = self._hear_road(self._wait(ids, is_over=not passage.why))
            self._asked = asked
            if not passage.why:
                made = _Made(passage.number, members, passage.steps, run)
                made.is_by_road = True
                return made, members
            log(WARNING, "fediac: round %s: %s", number, passage.why)
            lost = places_of(passage.lost, members)
            if not lost or lost & away:
                # Who cannot reach the switch, but the server, takes part by messages.
                members = [each for each in members if each not in lost - away]
                log(WARNING, "fediac: round %s goes over Flower's messages", number)
                return None, members
            self._say_lost(number, lost, passage.number)
            members = [node for node in members if node not in lost]
        return None, members

    def _begin_by_road(
        self, road: Road, number: int, members: list[int], ids: list[str], session: int
    ) -> None:
        """Tell members of a session that is open at the switch."""
        self._book.note(session, number, members)
        messages = []
        for node in members:
            parcel = self._parcel(node, "switch", session=session)
            places = [self._places.of[each] for each in members]
            parcel.values |= {"session": session, "members": places, **road.told()}
            content = RecordDict()
            parcel.put(content)
            messages.append(Message(content, node, MessageType.TRAIN))
            self._peers[node].session = session
        if self._grid is not None:
            ids += self._grid.push_messages(messages)

    def _wait(self, ids: list[str], *, is_over: bool) -> list[Message]:
        """Return the replies of members of a session, which is over for the server."""
        if self._grid is None:
            return []
        limit_s = _ROAD_REPLY_S if is_over else _ROAD_FAILED_S
        return collect(self._grid, ids, timeout=limit_s)

    def _hear_road(self, replies: list[Message]) -> set[int]:
        """Count the bytes that went over the switch; return who could not go on."""
        self._asked = _Asked("switch", MessageType.TRAIN, {})
        for reply in replies:
            self._hear(reply, self._asked)
        for parcel in self._asked.parcels.values():
            for name, n_bytes in parcel.values.items():
                way, _, phase = name.partition(".bytes.")
                if phase:
                    self._traffic.add(phase, way, n_bytes)
        parcels = self._asked.parcels.items()
        return {node for node, parcel in parcels if "away" in parcel.values}

    def _attempt(
        self, session: int, members: list[int], first: Mapping[int, Asked]
    ) -> tuple[list[Step], PairRun, set[int]]:
        """Return all answers of a session, the server's own run, and who was lost."""
        places = self._places
        run = self._observer(len(members))
        compressor_places = [places.of[node] for node in members]
        carrier = Carrier(run.compressor, len(places), compressor_places)
        asked = {node: first[node] for node in members}
        steps: list[Step] = []
        while True:
            by_place = {places.of[node]: each for node, each in asked.items()}
            step = carrier.carry(by_place, run.n_learned, self._traffic)
            steps.append(step)
            run.feed(step)
            if run.is_over:
                return steps, run, set()
            asked = self._answer(session, members, steps)
            lost = {node for node in members if not asked.get(node)}
            if lost:
                return steps, run, lost

    def _observer(self, n_members: int) -> PairRun:
        form = self._form()
        trained = Trained.nothing(form)
        compressor = self.settings.algorithm.make(
            n_clients=len(self._places), dim=len(trained.learned)
        )
        place = Place(self.settings.seed, self._places.number, _OBSERVER, n_members)
        return PairRun(compressor, trained, State(), place)

    def _answer(
        self, session: int, members: list[int], steps: list[Step]
    ) -> dict[int, Asked]:
        """Send the last step's answers; return what each member asks next."""
        messages = []
        for node in members:
            parcel = self._parcel(node, "answers", session=session)
            parcel.values |= {
                "session": session,
                "members": [self._places.of[each] for each in members],
                "first_step": max(0, len(steps) - 1),
                "n_steps": min(1, len(steps)),
            }
            if steps:
                parcel.add_all("step0", steps[-1])
            content = RecordDict()
            parcel.put(content)
            messages.append(Message(content, node, MessageType.TRAIN))
            self._peers[node].session = session
        asked = _Asked("answers", MessageType.TRAIN, {})
        before, self._asked = self._require_asked(), asked
        try:
            for reply in self._send(messages):
                self._hear(reply, asked)
        finally:
            self._asked = before
        return {
            node: self._exchanges(node, parcel)
            for node, parcel in asked.parcels.items()
        }

    # Evaluation, and the end

    def hear_evaluations(self, number: int, replies: list[Message]) -> list[Message]:
        """Return the replies of who evaluated, as the app's strategy knows them."""
        self._hear_all(replies)
        self._count_late(number)
        return list(self._require_asked().replies.values())

    def settle_all(self) -> None:
        """Tell who has not heard it how the last session ended."""
        waiting = [
            node
            for node, peer in self._peers.items()
            if peer.session and self._book.commit_of(peer.session) is not None
        ]
        there = set(self._grid.get_node_ids()) if self._grid else set()
        messages = []
        for node in there.intersection(waiting):
            content = RecordDict()
            self._parcel(node, "settle").put(content)
            messages.append(Message(content, node, MessageType.TRAIN))
        self._asked = _Asked("settle", MessageType.TRAIN, {})
        for reply in self._send(messages):
            self._hear(reply, self._asked)

    def _count_late(self, number: int) -> None:
        for (phase, direction), n_bytes in self._traffic.counts.items():
            self._metrics.add_bytes(number, phase, direction, n_bytes)
