"""What the server must not forget: sessions, how they ended, and the model.

In a folder, all of it outlives the ServerApp: the model of a round is written first,
then the commit of its session into the journal, then it counts. Without a folder it
lives as long as the strategy does.
"""

import os
import secrets
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fediac.errors import RunError
from fediac.remote.codec import from_bytes, to_bytes
from fediac.remote.journal_file import FileJournal
from fediac.sessions.journal import Began, Committed, Numbered, Record, session_number
from fediac.sessions.messages import Step

_JOB = "job"
_JOURNAL = "journal"
_MODEL = "model-"


@dataclass(frozen=True, slots=True)
class Kept:
    """A model, and what made it.

    Attributes:
        round_number: How many rounds it has behind it.
        arrays: The model, by names.
        strategy: What the app's own strategy keeps between rounds, such as momentum.
    """

    round_number: int
    arrays: Mapping[str, Any]
    strategy: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """A session that counts.

    Attributes:
        places: Whose updates are in it.
        last: Its last answers, which its members may have missed.
    """

    places: tuple[int, ...]
    last: Step


class Book:
    """The journal of one job and what follows from it.

    Args:
        folder: Where it outlives this process; None: nowhere.

    Attributes:
        job: Number of the job; clients keep what they hold by it.
        epoch: How often servers have started on it.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._journal: FileJournal | None = None
        self.job = secrets.randbits(62)
        self.epoch = 1
        self._newest = 0
        self._commits: dict[int, Commit] = {}
        self._waiting: dict[int, set[int]] = {}

    def begin(self) -> Kept | None:
        """Take the journal; return the newest model that counts, if there is any.

        Raises:
            RunError: Another server has it, or it is damaged.
        """
        if self._folder is None:
            return None
        self._journal = FileJournal(self._folder / _JOURNAL)
        records: list[Record] = self._journal.load()
        self.job = self._read_job(is_new=not records)
        self.epoch = 1 + max((each.epoch for each in records), default=0)
        newest = None
        for record in records:
            if isinstance(record, Numbered):
                self._newest = max(self._newest, record.session)
            elif isinstance(record, Committed):
                newest = record
                commit = Commit(record.members, record.steps[-1])
                self._commits[record.session] = commit
        self._journal.append(Began(self.epoch))
        return None if newest is None else self._read_model(newest.session)

    def close(self) -> None:
        """Let another server have the journal."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _read_job(self, *, is_new: bool) -> int:
        folder = self._folder or Path()
        path = folder / _JOB
        if is_new and not path.exists():
            _write_synced(path, str(self.job).encode())
        return int(path.read_text())

    def _read_model(self, session: int) -> Kept:
        path = (self._folder or Path()) / f"{_MODEL}{session}"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise RunError(f"{path}: missing, although its round counts") from None
        if zlib.crc32(data[4:]).to_bytes(4, "little") != data[:4]:
            raise RunError(f"{path}: damaged")
        return Kept(*from_bytes(data[4:]))

    def number(self, round_number: int, members: Sequence[int]) -> int:
        """Return a new session's number, once it is written down."""
        now_ms = time.time_ns() // 1_000_000
        self._newest = session_number(now_ms, self._newest, secrets.randbits(16))
        self.note(self._newest, round_number, members)
        return self._newest

    def note(self, session: int, round_number: int, members: Sequence[int]) -> None:
        """Write down that a session's number is taken."""
        self._newest = max(self._newest, session)
        if self._journal is not None:
            record = Numbered(self.epoch, session, round_number, tuple(members))
            self._journal.append(record)

    def commit(
        self, session: int, commit: Commit, kept: Kept, members: Sequence[int]
    ) -> None:
        """Write down that a session counts; from then on it does.

        Args:
            session: Which one.
            commit: What members need to know of it.
            kept: The model after it.
            members: Their nodes.
        """
        if self._journal is not None and self._folder is not None:
            body = to_bytes([kept.round_number, kept.arrays, kept.strategy])
            path = self._folder / f"{_MODEL}{session}"
            _write_synced(path, zlib.crc32(body).to_bytes(4, "little") + body)
            record = Committed(
                self.epoch, session, kept.round_number, commit.places, (commit.last,)
            )
            self._journal.append(record)
            for old in self._folder.glob(f"{_MODEL}*"):
                if old != path:
                    old.unlink()
        self._commits[session] = commit
        self._waiting[session] = set(members)

    def commit_of(self, session: int) -> Commit | None:
        """Return what members need to know of a session; None: it does not count."""
        return self._commits.get(session)

    def knows(self, session: int) -> bool:
        """Return whether a session may be one of this journal."""
        return session <= self._newest

    def settle(self, session: int, node: int) -> None:
        """Forget a session once all members know how it ended, if no file has it."""
        waiting = self._waiting.get(session, set())
        waiting.discard(node)
        if not waiting:
            self._waiting.pop(session, None)
            if self._folder is None:
                self._commits.pop(session, None)


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
