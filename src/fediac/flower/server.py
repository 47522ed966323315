"""The coordinator inside a ServerApp: who takes part, how sessions end, what counts.

Every attempt at a round is a session of fixed members. Whoever fails in it is left out
of the next one, which begins with what the others have asked already; nobody trains
again. Members are told how it ended with the next message they get.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from logging import WARNING

from flwr.app import ArrayRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log

from fediac.compressors.protocol import State
from fediac.errors import ConfigError, FediacError, say_count
from fediac.flower.client_round import PairRun, Place, Trained
from fediac.flower.grid import collect
from fediac.flower.inner_strategy import Inner
from fediac.flower.metrics import RoundMetrics
from fediac.flower.nodes_folder import NodesFolder
from fediac.flower.over_messages import Asked, Carrier
from fediac.flower.over_switch import Road, places_of
from fediac.flower.protocol_version import digest_of
from fediac.flower.records import Parcel, array_record, arrays_of
from fediac.flower.server_journal import Book, Commit, Kept
from fediac.flower.server_messages import Desk, ServerSettings
from fediac.sessions.messages import Step
from fediac.transports.exchange_checks import require_exchanges

_OBSERVER = (1 << 32) - 1
"""In place of a client's number, for the server's own run of a round."""

_ROAD_REPLY_S, _ROAD_FAILED_S = 30.0, 10.0
"""How long to wait for what members of a session say of it, once it is over."""


@dataclass(slots=True)
class _Made:
    """A round that went through."""

    session: int
    members: list[int]
    steps: list[Step]
    run: PairRun
    is_by_road: bool = False


class Server:
    """Makes rounds of what nodes answer.

    Args:
        settings: How.
        book: What it must not forget.
        inner: The app's own strategy.
        folder: Where simulated nodes keep what they hold.
    """

    def __init__(
        self, settings: ServerSettings, book: Book, inner: Inner, folder: NodesFolder
    ) -> None:
        self.settings = settings
        self._book, self._inner = book, inner
        self._metrics = RoundMetrics()
        self._desk = Desk(settings, book, inner.arrays_key, self._metrics, folder)
        self._road: Road | None = None

    def begin(self, initial: ArrayRecord, timeout: float) -> tuple[int, ArrayRecord]:
        """Return how many rounds are behind, and the model to go on from."""
        self._desk.timeout = timeout
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

    # What the app's strategy wants

    def ask_to_train(
        self, number: int, arrays: ArrayRecord, messages: Iterable[Message], grid: Grid
    ) -> list[Message]:
        """Return the messages that begin a round."""
        desk, asked = self._desk, list(messages)
        desk.begin_round(number, arrays, [m.metadata.dst_node_id for m in asked], grid)
        if asked:
            run = self._observer(len(asked))  # refuses settings that do not fit
            road, name = self._road, self.settings.algorithm.name
            desk.goes_by_road = road is not None and road.suits(
                run.compressor, desk.dim, name=name
            )
        return desk.ask("train", asked)

    def ask_to_evaluate(
        self, number: int, arrays: ArrayRecord, messages: Iterable[Message], grid: Grid
    ) -> list[Message]:
        """Return the messages that have a model evaluated."""
        self._desk.end_round(number, arrays, grid)
        return self._desk.ask("evaluate", list(messages))

    def hear_evaluations(self, number: int, replies: list[Message]) -> list[Message]:
        """Return the replies of who evaluated, as the app's strategy knows them."""
        self._desk.hear_all(replies)
        for (phase, direction), n_bytes in self._desk.traffic.counts.items():
            self._metrics.add_bytes(number, phase, direction, n_bytes)
        return list(self._desk.question.replies.values())

    def settle_all(self) -> None:
        """Tell who has not heard it how the last session ended."""
        desk = self._desk
        there = set(desk.grid.get_node_ids()) if desk.grid else set()
        messages = []
        for node, peer in desk.peers.items():
            if node in there and self._book.commit_of(peer.session) is not None:
                content = RecordDict()
                desk.parcel(node, "settle").put(content)
                messages.append(Message(content, node, MessageType.TRAIN))
        desk.hear_members("settle", desk.send(messages))

    # A round

    def end_round(
        self, number: int, replies: list[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the model after a round, and its metrics; None for a lost round."""
        desk = self._desk
        if not desk.places.of:
            return None, None
        desk.hear_all(replies)
        asked = desk.question
        made = self._make(number, list(asked.parcels))
        if made is None:
            log(
                WARNING,
                "fediac: round %s is given up: %s of %s replied, and it needs %s until "
                "its end; what they trained stays with them",
                number,
                len(asked.parcels),
                len(desk.places),
                max(1, self.settings.enough),
            )
            return None, None
        form = desk.form()
        mean_model = form.subtract(made.run.mean(form))
        heard = [asked.replies[node] for node in made.members]
        model, record = self._inner.aggregate(number, mean_model, heard)
        desk.take_arrays(model)
        self._commit(number, made, digest_of(mean_model))
        return desk.record, self._measure(number, made, record)

    def _commit(self, number: int, made: _Made, applied: str) -> None:
        """Write down that a round counts; from then on members have its mean."""
        desk = self._desk
        kept = Kept(number, desk.model, self._inner.keeps())
        places = tuple(desk.places.of[node] for node in made.members)
        commit = Commit(places, made.steps[-1])
        self._book.commit(made.session, commit, kept, made.members)
        for node in made.members:
            desk.peers[node].digest = applied if desk.places.keep else ""

    def _measure(
        self, number: int, made: _Made, record: MetricRecord | None
    ) -> MetricRecord:
        """Return the metrics of a round; clients will say more of it."""
        record = self._metrics.begin(number, record, self._desk.traffic)
        self._metrics.name_session(number, made.session, len(made.members))
        self._metrics.set(number, "members", len(made.members))
        n_lost = len(self._desk.places) - len(made.members)
        self._metrics.set(number, "lost", n_lost)
        if self._road is not None:
            self._metrics.set(number, "over-switch", int(made.is_by_road))
        return record

    def _make(self, number: int, ready: list[int]) -> _Made | None:
        """Make a round, over the switch if there is one; None: too few are left."""
        desk = self._desk
        members = sorted(ready, key=desk.places.of.__getitem__)
        if self._road is not None and desk.goes_by_road:
            made, members = self._go_by_road(self._road, number, members)
            if made is not None:
                return made
            session = self._book.number(number, members)
            first = self._answer(session, members, [])
        else:
            session = desk.places.session
            parcels = desk.question.parcels
            first = {node: _exchanges(node, parcels[node]) for node in members}
        first = {node: each for node, each in first.items() if each}
        return self._carry_messages(number, session, first)

    def _observer(self, n_members: int) -> PairRun:
        """Return the server's own run of a round, which adds nothing."""
        places = self._desk.places
        trained = Trained.nothing(self._desk.form())
        dim = len(trained.learned)
        compressor = self.settings.algorithm.make(n_clients=len(places), dim=dim)
        place = Place(self.settings.seed, places.number, _OBSERVER, n_members)
        weight = 1 if self.settings.weight_key else None
        return PairRun(compressor, trained, State(), place, weight)

    # By messages

    def _carry_messages(
        self, number: int, session: int, first: Mapping[int, Asked]
    ) -> _Made | None:
        """Attempt a round by messages until one goes through.

        Args:
            number: The round.
            session: Of the first attempt.
            first: What members asked first.
        """
        members = sorted(first, key=self._desk.places.of.__getitem__)
        while len(members) >= max(1, self.settings.enough):
            steps, run, lost = self._attempt(session, members, first)
            if not lost:
                return _Made(session, members, steps, run)
            _say_lost(number, lost, session)
            members = [node for node in members if node not in lost]
            session = self._book.number(number, members)
        return None

    def _attempt(
        self, session: int, members: list[int], first: Mapping[int, Asked]
    ) -> tuple[list[Step], PairRun, set[int]]:
        """Return all answers of a session, the server's own run, and who was lost."""
        places, run = self._desk.places, self._observer(len(members))
        present = [places.of[node] for node in members]
        carrier = Carrier(run.compressor, len(places), present)
        asked = {node: first[node] for node in members}
        steps: list[Step] = []
        while True:
            by_place = {places.of[node]: each for node, each in asked.items()}
            step = carrier.carry(by_place, run.n_learned, self._desk.traffic)
            steps.append(step)
            run.feed(step)
            if run.is_over:
                return steps, run, set()
            asked = self._answer(session, members, steps)
            lost = {node for node in members if not asked.get(node)}
            if lost:
                return steps, run, lost

    def _answer(
        self, session: int, members: list[int], steps: list[Step]
    ) -> dict[int, Asked]:
        """Send the last step's answers; return what each member asks next."""
        desk = self._desk
        messages = desk.tell_members("answers", session, members, steps=steps)
        parcels = desk.hear_members("answers", desk.send(messages))
        return {node: _exchanges(node, parcel) for node, parcel in parcels.items()}

    # Over the switch

    def _go_by_road(
        self, road: Road, number: int, members: list[int]
    ) -> tuple[_Made | None, list[int]]:
        """Make a round over the switch; return who is left where that fails."""
        while len(members) >= max(1, self.settings.enough):
            run, ids = self._observer(len(members)), list[str]()
            begin = partial(self._begin_by_road, road, number, members, ids)
            passage = road.go(len(members), number, run, begin)
            away = self._hear_road(ids, is_over=not passage.why)
            if not passage.why:
                made = _Made(passage.number, members, passage.steps, run)
                made.is_by_road = True
                return made, members
            log(WARNING, "fediac: round %s: %s", number, passage.why)
            lost = places_of(passage.lost, members)
            left = [node for node in members if node not in lost]
            are_enough = len(left) >= max(1, self.settings.enough)
            if lost and not lost & away and are_enough:
                _say_lost(number, lost, passage.number)
                members = left
                continue
            # Who cannot reach the switch, but the server, takes part by messages; and
            # if too few would be left, so does who was too slow for the switch.
            gone = lost - away if are_enough else set[int]()
            log(WARNING, "fediac: round %s goes over Flower's messages", number)
            return None, [node for node in members if node not in gone]
        return None, members

    def _begin_by_road(
        self,
        road: Road,
        number: int,
        members: list[int],
        ids: list[str],
        session: int,
        key: bytes,
    ) -> None:
        """Tell members of a session that is open at the switch."""
        self._book.note(session, number, members)
        told = road.told(key)
        messages = self._desk.tell_members("switch", session, members, **told)
        if self._desk.grid is not None:
            ids += self._desk.grid.push_messages(messages)

    def _hear_road(self, ids: list[str], *, is_over: bool) -> set[int]:
        """Count the bytes that went over the switch; return who could not go on."""
        desk, away = self._desk, set[int]()
        if desk.grid is None:
            return away
        limit_s = _ROAD_REPLY_S if is_over else _ROAD_FAILED_S
        replies = collect(desk.grid, ids, timeout=limit_s)
        for node, parcel in desk.hear_members("switch", replies).items():
            if "away" in parcel.values:
                away.add(node)
            for name, n_bytes in parcel.values.items():
                way, _, phase = name.partition(".bytes.")
                if phase:
                    desk.traffic.add(phase, way, n_bytes)
        return away


def _exchanges(node: int, parcel: Parcel) -> Asked:
    """Return what a node asks; nothing, if that is no use."""
    try:
        return require_exchanges(parcel.all_of("asked"))
    except FediacError as error:
        log(WARNING, "fediac: node %s: %s", node, error)
        return ()


def _say_lost(number: int, lost: set[int], session: int) -> None:
    log(
        WARNING,
        "fediac: round %s goes on without %s, lost in session %s",
        number,
        say_count(len(lost), "node"),
        session,
    )
