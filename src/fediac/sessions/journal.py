"""The coordinator's journal: which numbers were taken, which sessions are committed.

A commit and all answers of its session are one record, written before anybody is told:
from the answers follow the mean, the model, and what a client may have missed. Every
session that has no such record is aborted, for ever.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from fediac.errors import SessionError
from fediac.sessions.messages import Step

_RANDOM_BITS = 16

N_ANSWERED = 8
"""Committed sessions whose answers stay in memory; those of all are in the journal."""


@dataclass(frozen=True, slots=True)
class Began:
    """A coordinator started."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Numbered:
    """A session's number was taken, before the switch or any client heard of it."""

    epoch: int
    session: int
    round_number: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """A session counts, and these are its answers."""

    epoch: int
    session: int
    round_number: int
    members: tuple[int, ...]
    steps: tuple[Step, ...]


Record: TypeAlias = Began | Numbered | Committed


class Journal(Protocol):
    """Where records outlive the coordinator."""

    def load(self) -> list[Record]:
        """Return all records, the oldest first."""
        ...

    def append(self, record: Record) -> None:
        """Keep one more, all of it or nothing, before this returns.

        Raises:
            SessionError: A coordinator of a newer epoch has written since.
        """
        ...


@dataclass(slots=True)
class Ledger:
    """What the records say, taken together.

    Attributes:
        epoch: The newest.
        last: The newest session's number; 0: there was none.
        commits: Committed session -> its record; older ones without their steps.
    """

    epoch: int = 0
    last: int = 0
    commits: dict[int, Committed] = field(default_factory=dict)

    def note(self, record: Record) -> None:
        """Take one more record into account."""
        self.epoch = max(self.epoch, record.epoch)
        if isinstance(record, Numbered):
            self.last = max(self.last, record.session)
        elif isinstance(record, Committed):
            self.commits[record.session] = record
            older = list(self.commits)[-N_ANSWERED - 1 : -N_ANSWERED]
            for session in older:  # hours of answers are more than fits in memory
                self.commits[session] = replace(self.commits[session], steps=())


def require_epoch(record: Record, newest: int) -> None:
    """Refuse what a coordinator writes after a newer one has started.

    Raises:
        SessionError: A newer one has.
    """
    if record.epoch < newest:
        raise SessionError(
            f"another coordinator has started on this journal: its epoch {newest} is "
            f"newer than {record.epoch}"
        )


def session_number(now_ms: int, last: int, chance: int) -> int:
    """Return a session's number, above every earlier one whatever the clock does.

    Args:
        now_ms: Milliseconds of the wall clock.
        last: The newest number so far.
        chance: 16 random bits: two jobs, or two journals of one job, do not meet.
    """
    place = max(now_ms, (last >> _RANDOM_BITS) + 1)
    return place << _RANDOM_BITS | chance & ((1 << _RANDOM_BITS) - 1)
