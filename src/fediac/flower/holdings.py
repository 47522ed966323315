"""What a client keeps between messages: in Flower's state of the run, or in a folder.

Flower 1.41 keeps the state of a node in memory, so it is gone when a SuperNode ends. A
folder named in the node's config outlives that:

    flower-supernode --node-config 'fediac-folder="/var/lib/fediac"' ...
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict

from fediac.compressors.protocol import State
from fediac.flower.records import Parcel, array_record, arrays_of
from fediac.remote.client_disk import ClientDisk
from fediac.sessions.client import Attempt, Disk, Holdings, Work
from fediac.sessions.messages import Model, Start

FOLDER_KEY = "fediac-folder"
"""The key of a node's config that names its folder."""

_PREFIX = "fediac.kept."


def disk_of(context: Context, job: int) -> Disk:
    """Return where the client of this node keeps what it must not forget.

    Args:
        context: The node's.
        job: Which job it is for; others' holdings are left alone.
    """
    folder = context.node_config.get(FOLDER_KEY)
    if folder is None:
        return StateDisk(context.state, job)
    return ClientDisk(Path(str(folder)) / f"{job:016x}")


class StateDisk:
    """A client's holdings in the records of a node's state.

    Args:
        state: The node's, of one run.
        job: Which job they are of.
    """

    def __init__(self, state: RecordDict, job: int) -> None:
        self._state = state
        self._job = job

    def load(self) -> Holdings | None:
        """Return what was saved last; None: nothing yet."""
        numbers = self._state.config_records.get(f"{_PREFIX}numbers")
        if numbers is None or numbers["job"] != self._job:
            return None
        work = attempt = None
        if "work.round" in numbers:
            given = {**self._arrays("work"), **self._values("work.")}
            round_number = given.pop("round")
            work = Work(round_number, given)
        if "attempt.session" in numbers:
            attempt = self._attempt()
        bits: Any = numbers.get("bits")
        state = State(bits=bits, extras=self._arrays("extras"))
        residual = self._arrays("residual").get("residual")
        if residual is not None:
            state = State(residual, bits, state.extras)
        model = Model(_whole(numbers["round"]), self._arrays("model"))
        last, epoch = _whole(numbers["last"]), _whole(numbers["epoch"])
        return Holdings(model, state, work, attempt, last, epoch)

    def _attempt(self) -> Attempt:
        values = self._values("attempt.")
        parcel = Parcel(values, self._arrays("attempt"))
        start = Start(values["session"], values["round"], tuple(values["members"]), 0)
        steps = tuple(parcel.all_of(f"step{i}") for i in range(values["n_steps"]))
        return Attempt(start, steps)

    def _values(self, start: str) -> dict[str, Any]:
        numbers: Mapping[str, Any] = self._state.config_records[f"{_PREFIX}numbers"]
        return {
            key.removeprefix(start): each
            for key, each in numbers.items()
            if key.startswith(start)
        }

    def _arrays(self, name: str) -> dict[str, Any]:
        record = self._state.array_records.get(_PREFIX + name, ArrayRecord())
        return arrays_of(record)

    def save(self, holdings: Holdings) -> None:
        """Replace what was saved."""
        numbers: dict[str, Any] = {
            "job": self._job,
            "round": holdings.model.round_number,
            "last": holdings.last,
            "epoch": holdings.epoch,
        }
        state = holdings.state
        if state.bits is not None:
            numbers["bits"] = int(state.bits)
        residual = {} if state.residual is None else {"residual": state.residual}
        arrays: dict[str, Mapping[str, Any]] = {
            "model": holdings.model.values,
            "residual": residual,
            "extras": state.extras,
            "work": {},
            "attempt": {},
        }
        if holdings.work is not None:
            given = dict(holdings.work.update)
            numbers["work.round"] = holdings.work.round_number
            for key in [key for key, each in given.items() if isinstance(each, int)]:
                numbers[f"work.{key}"] = given.pop(key)
            arrays["work"] = given
        if holdings.attempt is not None:
            parcel = _parcel_of(holdings.attempt)
            numbers |= {f"attempt.{key}": v for key, v in parcel.values.items()}
            arrays["attempt"] = parcel.arrays
        self._state[f"{_PREFIX}numbers"] = ConfigRecord(numbers)
        for name, each in arrays.items():
            self._state[_PREFIX + name] = array_record(each)


def _parcel_of(attempt: Attempt) -> Parcel:
    start = attempt.start
    parcel = Parcel(
        {
            "session": start.session,
            "round": start.round_number,
            "members": list(start.members),
            "n_steps": len(attempt.steps),
        }
    )
    for i, step in enumerate(attempt.steps):
        parcel.add_all(f"step{i}", step)
    return parcel


def _whole(value: Any) -> int:  # noqa: ANN401 - of a config record
    return int(value)
