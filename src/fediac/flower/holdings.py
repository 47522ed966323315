"""What a client keeps between messages: in Flower's state of the run, or in a folder.

Flower 1.41 keeps the state of a node in memory, so it is gone when a SuperNode ends. A
folder named in the node's config outlives that:

    flower-supernode --node-config 'fediac-folder="/var/lib/fediac"' ...

Nodes of a simulation are all in one process. There the server may name a folder of its
own machine, and a node's state has nothing but the place of its files in there.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict

from fediac.compressors.protocol import State
from fediac.errors import RunError
from fediac.flower.nodes_folder import MARK
from fediac.flower.records import Parcel, array_record, arrays_of
from fediac.remote.client_disk import ClientDisk
from fediac.sessions.client import Attempt, Disk, Holdings, Work
from fediac.sessions.messages import Model, Start

FOLDER_KEY = "fediac-folder"
"""The key of a node's config that names its folder."""

_PREFIX = "fediac.kept."
_PLACE = f"{_PREFIX}place"


def disk_of(context: Context, job: int, told: str = "") -> Disk:
    """Return where the client of this node keeps what it must not forget.

    Where a node has begun to, it goes on.

    Args:
        context: The node's.
        job: Which job it is for; others' holdings are left alone.
        told: A folder that the server has made for simulated nodes. One that is not on
            this machine is of no use.

    Raises:
        RunError: The node's files are not on this machine, or not any more.
    """
    own = context.node_config.get(FOLDER_KEY)
    if own is not None:
        return ClientDisk(Path(str(own)) / f"{job:016x}")
    in_state = StateDisk(context.state, job)
    place = context.state.config_records.get(_PLACE)
    if place is not None and place["job"] == job:
        return _disk_at(Path(str(place["folder"])))
    if in_state.has_any or not told or not (Path(told) / MARK).is_file():
        return in_state
    name = context.node_config.get("partition-id", context.node_id)
    folder = Path(told) / f"{job:016x}" / str(name)
    context.state[_PLACE] = ConfigRecord({"job": job, "folder": str(folder)})
    return ClientDisk(folder, is_synced=False)


def _disk_at(folder: Path) -> ClientDisk:
    if not folder.exists():
        raise RunError(
            f"{folder}: a node's residual is there, and the folder is not on this "
            "machine; where nodes run on several machines, nodes_folder must be on a "
            "disk that they share, or 'memory'"
        )
    return ClientDisk(folder, is_synced=False)


class StateDisk:
    """A client's holdings in the records of a node's state.

    Args:
        state: The node's, of one run.
        job: Which job they are of.
    """

    def __init__(self, state: RecordDict, job: int) -> None:
        self._state = state
        self._job = job

    @property
    def has_any(self) -> bool:
        """Whether something was saved."""
        numbers = self._state.config_records.get(f"{_PREFIX}numbers")
        return numbers is not None and numbers["job"] == self._job

    def load(self) -> Holdings | None:
        """Return what was saved last; None: nothing yet."""
        if not self.has_any:
            return None
        numbers = self._state.config_records[f"{_PREFIX}numbers"]
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
