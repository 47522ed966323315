"""What a run leaves behind: a line a round, and a summary; checked when read.

These types are all there is to the files: a run writes them, and reading a run gives
them back. Names are those in the files, but for ``number``, which is ``round``
there.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from fediac.errors import RunError
from fediac.training.partition import PartitionSummary

CONFIG = "config.toml"
ROUNDS = "rounds.jsonl"
SUMMARY = "summary.json"
CHECKPOINT = "checkpoint.safetensors"

VIEWS = ("payload", "wire")

Kind = TypeVar("Kind")

Number: TypeAlias = Annotated[float, Meta(ge=-1e300, le=1e300)]
"""Finite, with room left to add some up."""

Amount: TypeAlias = Annotated[float, Meta(ge=0.0, le=1e300)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 62)]
Share: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
BySwitch: TypeAlias = Annotated[dict[str, Amount], Meta(min_length=1)]


class SentBytes(Struct, frozen=True):
    """Bytes of all clients in a round, by direction and phase."""

    up: dict[str, Count | Amount]
    down: dict[str, Count | Amount]


class Traffic(Struct, frozen=True):
    """A round's bytes as the paper counts them, and with all headers."""

    payload: SentBytes
    wire: SentBytes


class Phase(Struct, frozen=True):
    """Seconds that one exchange took, up to the switch and back."""

    name: str
    upload_s: Amount
    download_s: Amount


class Timing(Struct, frozen=True):
    """Where a round's simulated seconds went, with one switch.

    Attributes:
        finish_s: When each client that took part had everything, from the round's
            start.
        utilization: Share of the round in which the switch worked.
        bottleneck: What the round waited for, in words.
    """

    compute_s: Amount
    phases: tuple[Phase, ...]
    finish_s: tuple[Amount, ...]
    utilization: Amount
    bottleneck: str


class Round(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One round.

    Attributes:
        time_s: Simulated seconds since the run's start, by switch.
        round_s: Those of this round.
        accuracy: On the test set, like ``loss``.
        loss: None where the model diverged, like ``train_loss``.
        payload_mib: Since the run's start, like ``wire_mib``.
        votes: The facts of the algorithm, from here to ``register_bytes``; see
            `fediac.transports.RoundFacts`.
        train_s: Seconds on the machine of the run, like the other four.
        real_s: Since the run's start, over all its sessions.
        clamped: None in runs from before it was written down.
        tuned: What the server set after this round, if it did.
    """

    number: Annotated[int, Meta(ge=1)] = msgspec.field(name="round")
    time_s: BySwitch
    round_s: BySwitch
    accuracy: Share
    loss: Number | None
    train_loss: Number | None
    traffic: Traffic
    payload_mib: Amount
    wire_mib: Amount
    clients: Count
    votes: Count
    chosen: Count
    bits: Count
    peak: Number
    scale: Number
    gamma: Number
    aggregations: Count
    register_bytes: Count
    timing: dict[str, Timing]
    train_s: Amount
    compress_s: Amount
    simulate_s: Amount
    evaluate_s: Amount
    real_s: Amount
    clamped: Count | None = None
    tuned: dict[str, int] | None = None

    def __post_init__(self) -> None:
        """Refuse a round that some switch has not timed."""
        for name in ("round_s", "timing"):
            if getattr(self, name).keys() != self.time_s.keys():
                raise ValueError(
                    f"{name} must name the switches {', '.join(self.time_s)} like "
                    f"time_s, got {', '.join(getattr(self, name)) or 'none'}"
                )

    @property
    def mib(self) -> dict[str, float]:
        """All that was sent and received since the run's start, by view."""
        return {"payload": self.payload_mib, "wire": self.wire_mib}


class AtTarget(Struct, frozen=True, kw_only=True):
    """The first round with the target accuracy; all None where there is none."""

    accuracy: Share
    reached: bool
    number: Count | None = msgspec.field(name="round", default=None)
    payload_mib: Amount | None = None
    wire_mib: Amount | None = None
    time_s: BySwitch | None = None


class RunTotals(Struct, frozen=True, kw_only=True):
    """Where a run is after its last round, and how it got to its target."""

    rounds: Count
    accuracy: Share
    payload_mib: Amount
    wire_mib: Amount
    time_s: BySwitch
    best_accuracy: Share
    target: AtTarget | None


class Summary(RunTotals, frozen=True, kw_only=True):
    """A run that has ended.

    Attributes:
        dim: Entries of an update.
        stopped: Why it ended, in words.
    """

    algorithm: str
    dataset: str
    model: str
    dim: Count
    n_clients: Count
    seed: Count
    partition: PartitionSummary
    stopped: str
    real_s: Amount


_PLACE = re.compile(r" - at `\$\.?(.*)`$")


def decode(text: str | bytes, kind: type[Kind], where: str) -> Kind:
    """Return what a JSON text describes.

    Args:
        text: The file, or a line of it.
        kind: The type it must be of.
        where: File and line, for errors.

    Raises:
        RunError: It is no JSON, or not of this type.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        rule = _PLACE.sub("", str(error)).replace("`", "")
        name = f"{place[1]}: " if place and place[1] else ""
        raise RunError(f"{where}: {name}{rule[0].lower()}{rule[1:]}") from None
    except (ValueError, RecursionError) as error:
        raise RunError(f"{where}: not JSON ({str(error).lower()})") from None


def read_rounds(lines: Sequence[bytes], path: object) -> list[Round]:
    """Return the lines of ``path``, which are rounds from the first on.

    Raises:
        RunError: A line is damaged, or a round is missing or cannot follow the last.
    """
    rounds: list[Round] = []
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        now = decode(line, Round, where)
        if now.number != number:
            raise RunError(f"{where}: round must be {number}, got {now.number}")
        if rounds:
            _check_next(now, rounds[-1], where)
        rounds.append(now)
    return rounds


def _check_next(now: Round, last: Round, where: str) -> None:
    """Refuse a round that was timed on other switches, or whose totals fall."""
    if now.time_s.keys() != last.time_s.keys():
        raise RunError(
            f"{where}: time_s must name the switches {', '.join(last.time_s)} like the "
            f"line before, got {', '.join(now.time_s)}"
        )
    totals = [(f"{view}_mib", now.mib[view], last.mib[view]) for view in VIEWS]
    totals += [
        (f"time_s.{key}", now.time_s[key], last.time_s[key]) for key in now.time_s
    ]
    for name, total, earlier in totals:
        if total < earlier:
            raise RunError(
                f"{where}: {name} counts from the start and must not fall, got {total} "
                f"after {earlier}"
            )


def find_reached(rounds: Iterable[Round], target: float) -> Round | None:
    """Return the first round with at least this accuracy."""
    return next((each for each in rounds if each.accuracy >= target), None)


def summarize(rounds: Sequence[Round], target: float | None) -> RunTotals:
    """Return the last round's numbers, and those of the first at the target."""
    last = rounds[-1]
    return RunTotals(
        rounds=last.number,
        accuracy=last.accuracy,
        payload_mib=last.payload_mib,
        wire_mib=last.wire_mib,
        time_s=last.time_s,
        best_accuracy=max(each.accuracy for each in rounds),
        target=None if target is None else _at_target(rounds, target),
    )


def _at_target(rounds: Sequence[Round], target: float) -> AtTarget:
    first = find_reached(rounds, target)
    if first is None:
        return AtTarget(accuracy=target, reached=False)
    return AtTarget(
        accuracy=target,
        reached=True,
        number=first.number,
        payload_mib=first.payload_mib,
        wire_mib=first.wire_mib,
        time_s=first.time_s,
    )
