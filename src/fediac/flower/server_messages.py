"""The server's words with nodes: what each is sent, and what it replies.

A node is told how its last session ended, and is sent the model unless it is believed
to have it. If it lacks something all the same, it says so and is sent that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from logging import WARNING
from typing import Any, Literal

from flwr.app import ArrayRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log

from fediac.errors import ConfigError
from fediac.flower.algorithm import Algorithm
from fediac.flower.metrics import RoundMetrics
from fediac.flower.nodes import Peer, Places
from fediac.flower.nodes_folder import NodesFolder
from fediac.flower.over_messages import Traffic
from fediac.flower.over_switch import RoadSettings
from fediac.flower.protocol_version import (
    VERSION,
    Ask,
    digest_of,
    form_of,
    version_problem,
)
from fediac.flower.records import Parcel, array_record, arrays_of
from fediac.flower.server_journal import Book
from fediac.transports.forms import Form

_AFTER = ("evaluate", "settle")
"""What is asked when the round's sessions are over."""

Weights = Literal["equal", "examples"]
"""How much clients count in a mean."""

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
        weight_key: Which of a client's metrics says how much it counts in the mean;
            empty: all count alike.
        road: The switch to go over; None: by Flower's messages.
    """

    algorithm: Algorithm
    seed: int
    averages: bool
    enough: int
    weight_key: str = ""
    road: RoadSettings | None = None


@dataclass(slots=True)
class Question:
    """One message that was sent to every node of a step, and can be sent again."""

    ask: Ask
    message_type: str
    contents: dict[int, RecordDict]
    replies: dict[int, Message] = field(default_factory=dict)
    parcels: dict[int, Parcel] = field(default_factory=dict)


class Desk:
    """Writes to nodes and reads what they reply.

    Args:
        settings: How rounds are run.
        book: Knows how sessions ended.
        arrays_key: What the app's strategy calls the model in messages.
        metrics: Hears what clients say of their last session.
        folder: Where simulated nodes keep what they hold.

    Attributes:
        peers: Node -> what is believed of it.
        places: Who takes part in the round.
        traffic: The bytes of this round, or of its evaluation.
        model: The one that nodes should have.
        record: The same as Flower's record.
        digest: Of that.
        grid: The way to nodes.
        timeout: How long they may take to reply.
        goes_by_road: Whether the round is to go over the switch: who has trained
            then does not say at once what it asks.
    """

    def __init__(
        self,
        settings: ServerSettings,
        book: Book,
        arrays_key: str,
        metrics: RoundMetrics,
        folder: NodesFolder,
    ) -> None:
        self.settings = settings
        self._book, self._arrays_key, self._metrics = book, arrays_key, metrics
        self.peers: dict[int, Peer] = {}
        self.places = Places(0, {})
        self.traffic = Traffic()
        self.model: dict[str, Any] = {}
        self.record = ArrayRecord()
        self.digest = ""
        self.grid: Grid | None = None
        self.timeout: float | None = None
        self.goes_by_road = False
        self._question: Question | None = None
        self._folder, self._told_folder = folder, ""

    def take_arrays(self, model: dict[str, Any]) -> None:
        """From now on, nodes should have this model."""
        self.model, self.record = model, array_record(model)
        self.digest = digest_of(model)

    # Asking

    def begin_round(
        self, number: int, arrays: ArrayRecord, nodes: list[int], grid: Grid
    ) -> None:
        """Give nodes their places in a round, and its first session a number."""
        self.grid, self.traffic, self.goes_by_road = grid, Traffic(), False
        self._take_model(arrays)
        self.places = Places.among(number, nodes)
        if nodes:
            self.places.session = self._book.number(number, sorted(nodes))
            there = list(grid.get_node_ids())
            self.places.keep = 2 * len(nodes) >= len(there)
            self._told_folder = self._folder.path_for(there)

    def end_round(self, number: int, arrays: ArrayRecord, grid: Grid) -> None:
        """Go on to what comes after a round's sessions."""
        self.grid, self.traffic = grid, Traffic()
        self._take_model(arrays)
        self.places = replace(self.places, number=number)

    def _take_model(self, arrays: ArrayRecord) -> None:
        if arrays is not self.record:
            self.model, self.record = arrays_of(arrays), arrays
            self.digest = digest_of(self.model)

    def form(self) -> Form:
        """Return which arrays are learned, and which are averaged beside them."""
        return form_of(self.model, averages=self.settings.averages)

    @property
    def dim(self) -> int:
        """Entries of an update."""
        form = self.form()
        return len(form.flatten(form.like, form.learned))

    def ask(self, ask: Ask, messages: list[Message]) -> list[Message]:
        """Return messages with what each node lacks, and without what it has."""
        if not messages:
            self._question = Question(ask, MessageType.TRAIN, {})
            return []
        contents = {each.metadata.dst_node_id: each.content for each in messages}
        message_type = messages[0].metadata.message_type
        self._question = Question(ask, message_type, contents)
        return [self._message(node) for node in contents]

    def _message(self, node: int, *, has_to_have: bool = False) -> Message:
        asked = self.question
        peer = self.peers.setdefault(node, Peer())
        parcel = self.parcel(node, asked.ask, session=self.places.session)
        content = RecordDict(
            {
                key: each
                for key, each in asked.contents[node].items()
                if key != self._arrays_key
            }
        )
        if has_to_have or peer.digest != self.digest:
            content[self._arrays_key] = self.record
            n_bytes = sum(each.nbytes for each in self.model.values())
            self.traffic.add("model", "down", n_bytes)
            peer.digest = self.digest
        if asked.ask == "train":
            parcel.values["asks"] = not self.goes_by_road
            peer.session = self.places.session
        parcel.put(content)
        return Message(content, node, asked.message_type)

    def parcel(self, node: int, ask: Ask, *, session: int = 0) -> Parcel:
        """Return what every message says, and how the node's last session ended.

        Args:
            node: Who it is for.
            ask: What for.
            session: The one that runs, which has no end yet.
        """
        settings, peer = self.settings, self.peers.setdefault(node, Peer())
        parcel = Parcel(
            {
                "version": VERSION,
                "algorithm": settings.algorithm.write(),
                "job": self._book.job,
                "epoch": self._book.epoch,
                "ask": ask,
                "round": self.places.number,
                "seed": settings.seed,
                "averages": settings.averages,
                "weight_key": settings.weight_key,
                "n_clients": len(self.places),
                "place": self.places.of.get(node, -1),
                "model_key": self._arrays_key,
                "model_round": self.places.number,
                "digest": self.digest,
                "session": session,
                "keeps": self.places.keep,
                "folder": self._told_folder,
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

    @property
    def question(self) -> Question:
        """What nodes were asked last."""
        if self._question is None:
            raise RuntimeError("configure_train must come before aggregate_train")
        return self._question

    # Hearing

    def hear_all(self, replies: list[Message]) -> None:
        """Sort replies; send again to who lacks something, until nobody does."""
        asked = self.question
        for _ in range(_MAX_PASSES):
            again = []
            for reply in sorted(replies, key=lambda each: each.metadata.src_node_id):
                lacks = self.hear(reply, asked)
                if lacks is not None:
                    node = reply.metadata.src_node_id
                    again.append(self._message(node, has_to_have=lacks == "model"))
            if not again:
                return
            replies = self.send(again)

    def hear(self, reply: Message, asked: Question) -> str | None:
        """Note what a node replied; return what it lacks."""
        node = reply.metadata.src_node_id
        peer = self.peers.setdefault(node, Peer())
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
        asked, peer, values = self.question, self.peers[node], parcel.values
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

    def send(self, messages: list[Message]) -> list[Message]:
        """Return the replies to messages, as many as come in time."""
        if self.grid is None or not messages:
            return []
        return list(self.grid.send_and_receive(messages, timeout=self.timeout))

    # Words in a session

    def tell_members(
        self,
        ask: Ask,
        session: int,
        members: list[int],
        **more: Any,  # noqa: ANN401
    ) -> list[Message]:
        """Return messages to the members of a session that runs.

        Args:
            ask: What for.
            session: Which one.
            members: Their nodes.
            more: What else to say; ``steps`` are answers.
        """
        steps = more.pop("steps", None)
        places = [self.places.of[node] for node in members]
        messages = []
        for node in members:
            parcel = self.parcel(node, ask, session=session)
            parcel.values |= {"members": places, **more}
            if steps is not None:
                parcel.values["first_step"] = max(0, len(steps) - 1)
                parcel.values["n_steps"] = min(1, len(steps))
                if steps:
                    parcel.add_all("step0", steps[-1])
            content = RecordDict()
            parcel.put(content)
            messages.append(Message(content, node, MessageType.TRAIN))
            self.peers[node].session = session
        return messages

    def hear_members(self, ask: Ask, replies: Iterable[Message]) -> dict[int, Parcel]:
        """Return what members of a session replied, by node."""
        own = Question(ask, MessageType.TRAIN, {})
        before, self._question = self._question, own
        try:
            for reply in replies:
                self.hear(reply, own)
        finally:
            self._question = before
        return own.parcels
