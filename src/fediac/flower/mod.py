"""The client's side, as a mod: training stays the app's, what is sent becomes ours.

A client trains when it is asked to, keeps its update, and answers with what its
compressor asks first. It is then sent answers, and replies with what is asked next. At
each message it runs its round again from what it has kept, as compressors are
deterministic: a message may reach another process than the last one did. It applies a
mean only when the server has said that the session counts.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from logging import WARNING
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.supercore import log

from fediac.compressors import Compressor
from fediac.compressors.protocol import State
from fediac.compressors.weighted import check_weight
from fediac.core.corrected import count_nonfinite
from fediac.errors import (
    ArgumentError,
    ConfigError,
    FediacError,
    RemoteProtocolError,
)
from fediac.flower.algorithm import Algorithm
from fediac.flower.client_round import PairRun, Place, Trained
from fediac.flower.holdings import disk_of
from fediac.flower.protocol_version import VERSION, digest_of, form_of, version_problem
from fediac.flower.records import Parcel, array_record, arrays_of, count_bytes
from fediac.names import is_own
from fediac.remote.switch_client import SwitchClient
from fediac.sessions.client import Attempt, Holdings, Work
from fediac.sessions.messages import Model, Start, Step
from fediac.transports.forms import Form
from fediac.transports.statistics import STATISTICS_PHASE


class CompressMod:
    """A mod for a ClientApp whose server has a `CompressedStrategy`.

    Messages of another server pass through as they are.

    Args:
        algorithm: What this client compresses with; by default what the server says.
            If it is given, a server that says another is refused, as is another
            setting.
        settings: The algorithm's, as for the strategy.
    """

    def __init__(self, algorithm: str | None = None, **settings: Any) -> None:  # noqa: ANN401 - an algorithm's own
        self._own = None if algorithm is None else Algorithm(algorithm, settings)

    def __call__(
        self, message: Message, context: Context, call_next: ClientAppCallable
    ) -> Message:
        """Answer a message; the app's own function trains and evaluates."""
        told = Parcel.take(message.content)
        if told is None:
            return call_next(message, context)
        problem = version_problem(
            told.values.get("version"), who="the server", own_who="this client"
        )
        try:
            if problem is None:
                algorithm = Algorithm.read(told.values["algorithm"])
                problem = self._difference(algorithm)
        except RemoteProtocolError as error:
            problem = str(error)
        if problem is not None:
            return _reply(message, Parcel({"refusal": problem, "unsettled": 0}))
        client = _Client(algorithm, told, context)
        return client.answer(message, call_next)

    def _difference(self, servers: Algorithm) -> str | None:
        if self._own is not None:
            return self._own.difference(servers)
        if is_own(servers.name):
            return (
                f"algorithm {servers.name!r} of the server is code, which a client "
                f"must name itself: CompressMod({servers.name!r})"
            )
        return None


compress_mod = CompressMod()
"""The mod of a client that compresses as its server says."""


class _Client:
    """One client, for one message."""

    def __init__(self, algorithm: Algorithm, told: Parcel, context: Context) -> None:
        self._algorithm = algorithm
        self._told = told
        self._context = context
        self._disk = disk_of(context, told.values["job"], told.values["folder"])
        self._holds = self._disk.load() or Holdings(Model(-1, {}))
        self._said: dict[str, Any] = {}

    def answer(self, message: Message, call_next: ClientAppCallable) -> Message:
        """Return the reply to a message."""
        told = self._told.values
        if told["epoch"] < self._holds.epoch:
            return self._reply(message, refusal="an older coordinator speaks")
        if told["epoch"] > self._holds.epoch:
            self._save(replace(self._holds, epoch=told["epoch"]))
        self._settle()
        in_session = {"answers": self._go_on, "switch": self._go_by_road}
        if told["ask"] in in_session:
            return in_session[told["ask"]](message)
        if self._holds.attempt is not None:
            return self._reply(message, lacks="verdict")
        if told["ask"] == "settle":
            return self._reply(message)
        if not self._has_model(message):
            return self._reply(message, lacks="model")
        begin = self._train if told["ask"] == "train" else self._evaluate
        return begin(message, call_next)

    # How its last session ended

    def _settle(self) -> None:
        """Learn how its session ended: the next state is made from the saved one."""
        attempt, told = self._holds.attempt, self._told.values
        if attempt is None or told.get("verdict") != attempt.start.session:
            return
        holds, work = replace(self._holds, attempt=None), self._holds.work
        counted = tuple(told.get("counted", ()))
        if work is not None and work.update["place"] in counted:
            run = self._run(replace(attempt.start, members=counted))
            run.feed_all(attempt.steps)
            run.feed(self._told.all_of("last"))
            model = self._after(run, attempt.start.round_number)
            holds = replace(holds, model=model, state=run.outcome.state, work=None)
            self._said["settled"] = attempt.start.session
            facts = asdict(run.outcome.facts)
            self._said |= {f"facts.{name}": each for name, each in facts.items()}
        self._save(holds)

    def _after(self, run: PairRun, round_number: int) -> Model:
        """Return the model after a round; none, if it was not kept."""
        if not self._holds.model.values:
            return self._holds.model
        form = self._form()
        return Model(round_number, form.subtract(run.mean(form)))

    def _has_model(self, message: Message) -> bool:
        """Take the model that was sent, or find that its own is the server's."""
        told = self._told.values
        key = told["model_key"]
        record = message.content.array_records.get(key)
        if record is not None:
            self._save(
                replace(
                    self._holds, model=Model(told["model_round"], arrays_of(record))
                )
            )
            return True
        model = self._holds.model
        if digest_of(model.values) != told["digest"]:
            return False
        if model.round_number != told["model_round"]:
            model = Model(told["model_round"], model.values)
            self._save(replace(self._holds, model=model))
        message.content[key] = array_record(model.values)
        return True

    # A round

    def _train(self, message: Message, call_next: ClientAppCallable) -> Message:
        told, model = self._told.values, self._holds.model.values
        form = self._form()
        reply = call_next(message, self._context)
        if reply.has_error():
            return reply
        trained = reply.content.array_records
        if len(trained) != 1:
            problem = f"train must reply with one ArrayRecord, got {len(trained)}"
            return self._reply(message, problem=problem)
        key, record = next(iter(trained.items()))
        arrays = arrays_of(record)
        del reply.content[key]
        try:
            weight = _weight_of(reply, told["weight_key"], told["n_clients"])
            # In the model's own order: a client may have put them in another one.
            ordered = {name: arrays.pop(name) for name in model if name in arrays}
            update = Trained.between(form, {**ordered, **arrays})
            run = self._run(self._keep(update, weight, told))
        except ConfigError as error:
            return self._reply(message, refusal=str(error))
        except FediacError as error:
            return self._reply(message, problem=str(error))
        parcel = Parcel()
        if told["asks"]:
            parcel.add_all("asked", run.asked)
        return self._reply(reply, parcel=parcel)

    def _keep(
        self, update: Trained, weight: int | None, told: Mapping[str, Any]
    ) -> Start:
        """Keep an update until a committed session has counted it.

        One of an earlier round that none has counted goes into the residual; one of
        this round was trained from the same model, and this one stands for it.
        """
        holds = self._holds
        state, work = holds.state, holds.work
        compressor = self._compressor(told["n_clients"], update)
        keeps = getattr(compressor, "residual", False) is True
        if work is not None and work.round_number != told["round"] and keeps:
            state = _with_unsent(state, work.update["learned"])
        n_bad = count_nonfinite(update.learned, state.residual)
        if n_bad:
            raise RemoteProtocolError(
                f"round {told['round']}: {n_bad} entries of update + residual are NaN, "
                "infinite or beyond 2**100"
            )
        kept = {
            "learned": update.learned,
            "place": told["place"],
            "n_clients": told["n_clients"],
            "seed": told["seed"],
        }
        if weight is not None:
            kept["weight"] = weight
        if update.statistics is not None:
            kept["statistics"] = update.statistics
        work = Work(told["round"], kept)
        start = Start(
            told["session"], told["round"], tuple(range(told["n_clients"])), 0
        )
        self._save(
            replace(
                holds,
                model=holds.model if told["keeps"] else Model(told["round"] - 1, {}),
                state=state,
                work=work,
                attempt=Attempt(start),
                last=start.session,
            )
        )
        return start

    def _go_on(self, message: Message) -> Message:
        """Take answers; reply with what is asked next."""
        told, holds = self._told.values, self._holds
        work = holds.work
        if work is None or work.round_number != told["round"]:
            return self._reply(message, problem="has no update of this round any more")
        start = Start(told["session"], told["round"], tuple(told["members"]), 0)
        steps = tuple(self._told.all_of(f"step{i}") for i in range(told["n_steps"]))
        attempt = holds.attempt
        if attempt is None or attempt.start.session != start.session:
            attempt = Attempt(start)  # what it took part in before was aborted
        attempt = Attempt(start, (*attempt.steps[: told["first_step"]], *steps))
        self._save(replace(holds, attempt=attempt, last=start.session))
        try:
            run = self._run(start)
            run.feed_all(attempt.steps)
        except FediacError as error:
            return self._reply(message, problem=str(error))
        parcel = Parcel()
        parcel.add_all("asked", run.asked)
        return self._reply(message, parcel=parcel)

    def _go_by_road(self, message: Message) -> Message:
        """Go through a round over the switch; keep each step before the next one."""
        told, work = self._told.values, self._holds.work
        if work is None or work.round_number != told["round"]:
            return self._reply(message, problem="has no update of this round any more")
        members = tuple(told["members"])
        start = Start(told["session"], told["round"], members, 0)
        attempt = Attempt(start)
        self._save(replace(self._holds, attempt=attempt, last=start.session))
        parcel = Parcel()
        try:
            run = self._run(start)
            with SwitchClient(
                told["switch"],
                session=start.session,
                client=members.index(work.update["place"]),
                key=told.get("key"),
                mtu=told["mtu"],
            ) as way:
                while not run.is_over:
                    step = _carry(way, run, parcel)
                    run.feed(step)
                    if not run.is_over:
                        attempt = Attempt(start, (*attempt.steps, step))
                        self._save(replace(self._holds, attempt=attempt))
        except FediacError as error:
            return self._reply(message, away=str(error))
        return self._reply(message, parcel=parcel)

    def _evaluate(self, message: Message, call_next: ClientAppCallable) -> Message:
        reply = call_next(message, self._context)
        return reply if reply.has_error() else self._reply(reply)

    # Its round, from what it has kept

    def _form(self) -> Form:
        averages: bool = self._told.values["averages"]
        return form_of(self._holds.model.values, averages=averages)

    def _compressor(self, n_clients: int, update: Trained) -> Compressor:
        dim = update.learned.shape[0]
        return self._algorithm.make(n_clients=n_clients, dim=dim)

    def _run(self, start: Start) -> PairRun:
        work = self._holds.work
        if work is None:
            raise RemoteProtocolError("a session needs an update")
        kept = work.update
        update = Trained(kept["learned"], kept.get("statistics"))
        place = Place(
            kept["seed"], work.round_number, kept["place"], len(start.members)
        )
        compressor = self._compressor(kept["n_clients"], update)
        weight = kept.get("weight")
        return PairRun(compressor, update, self._holds.state, place, weight)

    def _save(self, holdings: Holdings) -> None:
        self._disk.save(holdings)
        self._holds = holdings

    def _reply(
        self, message: Message, *, parcel: Parcel | None = None, **said: str
    ) -> Message:
        attempt = self._holds.attempt
        parcel = Parcel() if parcel is None else parcel
        parcel.values |= self._said | said
        parcel.values["unsettled"] = attempt.start.session if attempt else 0
        return _reply(message, parcel)


def _weight_of(reply: Message, key: str, n_clients: int) -> int | None:
    """Return how much a client counts, as its own metrics say; None: as all others.

    Raises:
        ConfigError: They do not say.
        FediacError: No client can count as much as that.
    """
    if not key:
        return None
    records = reply.content.metric_records.values()
    said: Any = next((each[key] for each in records if key in each), None)
    if said is None:
        raise ConfigError(
            f"train must reply with the metric {key!r}, by which clients count with "
            "weights='examples'"
        )
    if isinstance(said, float) and said.is_integer():
        said = int(said)
    if not isinstance(said, int):
        raise ArgumentError(key, f"must be a whole number, got {said!r}")
    return check_weight(key, said, n_clients=n_clients)


def _reply(message: Message, parcel: Parcel) -> Message:
    """Return a reply; a message that is one already gets what is said added."""
    parcel.values["version"] = VERSION
    is_reply = bool(message.metadata.reply_to_message_id)
    reply = message if is_reply else Message(RecordDict(), reply_to=message)
    parcel.put(reply.content)
    for name in ("refusal", "problem", "away"):
        if name in parcel.values:
            log(WARNING, "fediac: %s", parcel.values[name])
    return reply


def _carry(way: SwitchClient, run: PairRun, parcel: Parcel) -> Step:
    """Return the answers to what is asked; count the bytes of both."""
    answers = []
    for place, each in enumerate(run.asked):
        answer = way.carry({way.client: each})
        answers.append(answer)
        phase = each.phase if place < run.n_learned else STATISTICS_PHASE
        for direction, sent in (("up", each), ("down", answer)):
            name = f"{direction}.bytes.{phase}"
            n_bytes = parcel.values.get(name, 0) + count_bytes([sent])
            parcel.values[name] = n_bytes
    return tuple(answers)


def _with_unsent(state: State, update: Any) -> State:  # noqa: ANN401 - an array
    if state.residual is None:
        return replace(state, residual=update.copy())
    return replace(state, residual=state.residual + update)
