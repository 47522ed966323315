"""One line of ``rounds.jsonl``, checked: what a run wrote about a round."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from fediac.errors import RunError

LARGEST = 1e300
VIEWS = ("payload", "wire")
DIRECTIONS = ("up", "down")

Traffic = Mapping[str, Mapping[str, Mapping[str, float]]]
"""View -> direction -> phase -> bytes of all clients."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Seconds that one exchange took, up to the switch and back."""

    name: str
    upload_s: float
    download_s: float


@dataclass(frozen=True, slots=True)
class Timing:
    """Where a round's simulated seconds went, with one switch.

    Attributes:
        finish_s: When each client that took part had everything, from the round's
            start.
        bottleneck: What the round waited for, in words.
    """

    compute_s: float
    phases: tuple[Phase, ...]
    finish_s: tuple[float, ...]
    bottleneck: str | None


@dataclass(frozen=True, slots=True)
class Round:
    """A round as it was written; times and MiB count from the run's start.

    Attributes:
        facts: The optional numbers, those that were written and are finite.
        record: The whole line, for those who want every field.
    """

    number: int
    time_s: Mapping[str, float]
    round_s: Mapping[str, float]
    accuracy: float | None
    mib: Mapping[str, float]
    traffic: Traffic
    timing: Mapping[str, Timing]
    facts: Mapping[str, float]
    record: Mapping[str, Any]


CLOCKS = ("train_s", "compress_s", "simulate_s", "evaluate_s", "real_s")
"""Seconds that a round took on the machine it ran on."""

FACTS = (
    "loss",
    "train_loss",
    "clients",
    "votes",
    "chosen",
    "clamped",
    "bits",
    "peak",
    "scale",
    "gamma",
    "aggregations",
    "register_bytes",
)


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object whose values are checked as they are taken.

    Attributes:
        where: File and line, the start of every error.
        path: Names of the objects around this one, each with a dot.
    """

    values: Mapping[str, Any]
    where: str
    path: str = ""

    def take(self, key: str) -> object:
        """Return a value that must be there."""
        if key not in self.values:
            raise RunError(f"{self.where}: {self.path}{key} is missing")
        return self.values[key]

    def number(self, key: str) -> float:
        """Return a finite number of at least 0."""
        value = self.take(key)
        if not is_number(value) or value < 0:
            raise self.wrong(key, "a number of at least 0", value)
        return float(value)

    def optional(self, key: str) -> float | None:
        """Return a number, or None where it is absent, null or not finite."""
        value = self.values.get(key)
        if value is None or is_number(value):
            return None if value is None else float(value)
        if isinstance(value, float):
            return None
        raise self.wrong(key, "a number or null", value)

    def table(self, key: str) -> "Fields":
        """Return an object inside this one."""
        value = self.take(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "an object", value)
        return Fields(value, self.where, f"{self.path}{key}.")

    def numbers(self) -> dict[str, float]:
        """Return all values, each a finite number of at least 0."""
        return {key: self.number(key) for key in self.values}

    def tables(self) -> Iterator[tuple[str, "Fields"]]:
        """Yield all values, each an object."""
        for key in self.values:
            yield key, self.table(key)

    def wrong(self, key: str, rule: str, value: object) -> RunError:
        """Return the error for a value that breaks a rule."""
        got = json.dumps(value)
        got = got if len(got) <= 40 else f"{got[:37]}..."
        return RunError(f"{self.where}: {self.path}{key} must be {rule}, got {got}")


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a JSON value is a number that is finite as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -LARGEST < value < LARGEST


def parse_object(text: str | bytes, where: str) -> dict[str, Any]:
    """Return the JSON object that ``text`` is.

    Raises:
        RunError: It is not JSON, or not an object.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise RunError(
            f"{where}: not JSON ({error.msg.lower()} at column {error.colno})"
        ) from None
    except (ValueError, RecursionError) as error:
        raise RunError(f"{where}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise RunError(f"{where}: must be a JSON object")
    return value


def parse_round(text: str | bytes, where: str) -> Round:
    """Return the round that one line of ``rounds.jsonl`` describes.

    Args:
        text: The line.
        where: File and line, for errors.
    """
    return read_round(parse_object(text, where), where)


def read_round(record: Mapping[str, Any], where: str) -> Round:
    """Return the round that a line of ``rounds.jsonl`` describes.

    Args:
        record: The line as an object.
        where: File and line, for errors.
    """
    fields = Fields(record, where)
    number = fields.take("round")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise fields.wrong("round", "an integer of at least 0", number)
    accuracy = fields.optional("accuracy")
    if accuracy is not None and not 0.0 <= accuracy <= 1.0:
        raise fields.wrong("accuracy", "in 0..1", accuracy)
    facts = {name: fields.optional(name) for name in FACTS}
    return Round(
        number=number,
        time_s=fields.table("time_s").numbers(),
        round_s=fields.table("round_s").numbers(),
        accuracy=accuracy,
        mib={view: fields.number(f"{view}_mib") for view in VIEWS},
        traffic=_parse_traffic(fields.table("traffic")),
        timing=_parse_timing(fields) if "timing" in fields.values else {},
        facts={name: value for name, value in facts.items() if value is not None},
        record=fields.values,
    )


def read_whole_round(record: Mapping[str, Any], where: str) -> Round:
    """Return the round of a line that has all that a run writes.

    A page shows what is there; tables, and a run that goes on, need every number.

    Args:
        record: The line as an object.
        where: File and line, for errors.
    """
    fields = Fields(record, where)
    for name in ("accuracy", *CLOCKS):
        fields.number(name)
    found = read_round(record, where)
    if not found.time_s:
        raise fields.wrong("time_s", "an object with at least one switch", {})
    if set(found.round_s) != set(found.time_s):
        raise RunError(
            f"{where}: round_s must name the switches {', '.join(found.time_s)} like "
            f"time_s, got {', '.join(found.round_s) or 'none'}"
        )
    return found


def check_next(now: Round, last: Round, where: str) -> None:
    """Refuse a round that was timed on other switches, or whose totals fall.

    Args:
        now: The round.
        last: The one before.
        where: File and line of ``now``, for errors.
    """
    if set(now.time_s) != set(last.time_s):
        raise RunError(
            f"{where}: time_s must name the switches {', '.join(last.time_s)} like the "
            f"line before, got {', '.join(now.time_s) or 'none'}"
        )
    totals = [(f"{view}_mib", now.mib[view], last.mib[view]) for view in now.mib]
    totals += [
        (f"time_s.{key}", now.time_s[key], last.time_s[key]) for key in now.time_s
    ]
    for name, total, earlier in totals:
        if total < earlier:
            raise RunError(
                f"{where}: {name} counts from the start and must not fall, got {total} "
                f"after {earlier}"
            )


def _parse_traffic(fields: Fields) -> Traffic:
    return {
        view: {
            direction: fields.table(view).table(direction).numbers()
            for direction in DIRECTIONS
        }
        for view in VIEWS
    }


def _parse_timing(fields: Fields) -> dict[str, Timing]:
    return {
        switch: Timing(
            compute_s=timing.number("compute_s"),
            phases=_parse_phases(timing),
            finish_s=_parse_finish(timing),
            bottleneck=_parse_bottleneck(timing),
        )
        for switch, timing in fields.table("timing").tables()
    }


def _parse_phases(timing: Fields) -> tuple[Phase, ...]:
    phases = []
    for index, each in enumerate(_take_list(timing, "phases")):
        fields = Fields({"phases": each}, timing.where, timing.path).table("phases")
        name = fields.take("name")
        if not isinstance(name, str):
            raise fields.wrong("name", f"a string in phase {index}", name)
        phases.append(
            Phase(name, fields.number("upload_s"), fields.number("download_s"))
        )
    return tuple(phases)


def _parse_finish(timing: Fields) -> tuple[float, ...]:
    finish = _take_list(timing, "finish_s")
    if not all(is_number(each) and each >= 0 for each in finish):
        raise timing.wrong("finish_s", "a list of numbers of at least 0", finish)
    return tuple(float(each) for each in finish)


def _parse_bottleneck(timing: Fields) -> str | None:
    value = timing.values.get("bottleneck")
    if value is not None and not isinstance(value, str):
        raise timing.wrong("bottleneck", "a string or null", value)
    return value


def _take_list(fields: Fields, key: str) -> list[Any]:
    value = fields.take(key)
    if not isinstance(value, list):
        raise fields.wrong(key, "a list", value)
    return value
