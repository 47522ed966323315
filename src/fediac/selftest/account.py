"""What clients and coordinator must hold in the end: an account kept in memory.

It is made from what cannot be wrong: which updates each client trained, and which
sessions are committed, with which members. Every committed round is made again here,
over its members, in whole arrays. An update that no round counted goes into the
residual. So what a client holds is, bit for bit, all that it trained without what was
sent of it: nothing is lost, nothing counted twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fediac.compressors.protocol import State
from fediac.remote.client_disk import ClientDisk
from fediac.remote.journal_file import FileJournal
from fediac.selftest.comparison import say_difference
from fediac.selftest.roles import JOURNAL, KEPT, Job, digest
from fediac.sessions.client import Holdings
from fediac.sessions.journal import Committed, Numbered, Record
from fediac.switch.pipeline import Switch
from fediac.transports.arrays import ArrayTransport
from fediac.transports.lockstep import run_lockstep


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a job.

    Attributes:
        n_rounds: Rounds that were committed.
        n_given_up: Attempts at rounds that were not.
        wrong: What is not as it must be, in words.
    """

    n_rounds: int
    n_given_up: int
    wrong: list[str]


class Account:
    """What all of a job hold, as far as the rounds that were noted.

    Args:
        job: The job.
        trained: Each client's rounds whose updates it has kept, in order.

    Attributes:
        model: After the last round.
    """

    def __init__(self, job: Job, trained: Sequence[Sequence[int]]) -> None:
        self.model: Any = job.first
        self._job, self._trained = job, trained
        self._states = [State()] * job.n_clients
        self._next = [0] * job.n_clients  # of those trained, not yet accounted for

    def commit(self, record: Committed) -> None:
        """Make a committed round again, over its members."""
        number, rounds = record.round_number, {}
        for i in record.members:
            self._keep_earlier(i, number)
            self._next[i] += 1
            rounds[i] = self._job.recipe.begin(
                self._job.update(i, number),
                self._states[i],
                round_number=number,
                client=i,
                n=len(record.members),
            )
        transport = ArrayTransport(Switch().open(len(rounds)))
        outcomes, _ = run_lockstep(rounds, transport, round_number=number)
        for i, outcome in outcomes.items():
            self._states[i] = outcome.state
        self.model = self.model - outcomes[record.members[0]].mean.dense(self.model)

    def holds(self, client: int) -> tuple[State, int]:
        """Return a client's state, and the round of the update beside it; 0: none."""
        left = self._trained[client][self._next[client] :]
        last = left[-1] if left else 0
        self._keep_earlier(client, last)
        return self._states[client], last

    def _keep_earlier(self, client: int, until: int) -> None:
        """Put updates of earlier rounds, which nobody counted, into the residual."""
        trained, state = self._trained[client], self._states[client]
        while self._next[client] < len(trained) and trained[self._next[client]] < until:
            left = self._job.update(client, trained[self._next[client]])
            if state.residual is not None:
                left = state.residual + left
            state = replace(state, residual=left)
            self._next[client] += 1
        self._states[client] = state


def check_job(job: Job, told: Mapping[int, set[str]]) -> Finding:
    """Return what became of a job whose processes have all ended.

    Args:
        job: The job.
        told: Round -> what clients and coordinators said the model was after it.
    """
    records = _records(job.folder / JOURNAL)
    commits = [each for each in records if isinstance(each, Committed)]
    n_given_up = sum(isinstance(each, Numbered) for each in records) - len(commits)
    wrong = _require_once(commits)
    if not wrong:
        wrong = _compare_all(job, commits, told)
    return Finding(len(commits), n_given_up, wrong)


def _compare_all(
    job: Job, commits: Sequence[Committed], told: Mapping[int, set[str]]
) -> list[str]:
    wrong = []
    disks = [ClientDisk(job.folder_of(i)).load() for i in range(job.n_clients)]
    kept = [
        _kept(job.folder_of(i) / KEPT, i, commits, holds)
        for i, holds in enumerate(disks)
    ]
    account = Account(job, kept)
    for record in commits:
        account.commit(record)
        number = record.round_number
        if told.get(number, set()) - {digest(account.model)}:
            wrong.append(f"{job.algorithm}, round {number}: somebody's model differs")
    for client, holds in enumerate(disks):
        where = f"{job.algorithm}, client {client}"
        if holds is None:
            wrong.append(f"{where}: nothing is on its disk")
        else:
            wrong += _compare(where, job, client, holds, account, len(commits))
    return wrong


def _compare(
    where: str,
    job: Job,
    client: int,
    holds: Holdings,
    account: Account,
    n_rounds: int,
) -> list[str]:
    """Return how what a client holds differs from the account."""
    state, last = account.holds(client)
    update = job.update(client, last) if last else None
    work = holds.work
    pairs = (
        ("model", holds.model.values, account.model),
        ("residual", holds.state.residual, state.residual),
        ("update", work and work.update, update),
    )
    found = [say_difference(f"{where}: {what}", a, b) for what, a, b in pairs]
    numbers = (
        ("round of its model", holds.model.round_number, n_rounds),
        ("round of its update", work.round_number if work else 0, last),
        ("bits", holds.state.bits, state.bits),
    )
    found += [
        f"{where}: {what}: {a} instead of {b}" for what, a, b in numbers if a != b
    ]
    return [each for each in found if each is not None]


def _records(path: Path) -> list[Record]:
    journal = FileJournal(path)
    try:
        return journal.load()
    finally:
        journal.close()


def _require_once(commits: Sequence[Committed]) -> list[str]:
    numbers = [each.round_number for each in commits]
    if numbers == list(range(1, len(numbers) + 1)):
        return []
    return [f"rounds must be committed once each, in order, got {numbers}"]


def _kept(
    path: Path, client: int, commits: Iterable[Committed], holds: Holdings | None
) -> list[int]:
    """Return the rounds whose updates a client has had in its folder, in order.

    It notes each of them. One that it was killed before noting it has noted when it was
    started again; or it has it now, or it was counted.
    """
    kept = {each.round_number for each in commits if client in each.members}
    if holds is not None and holds.work is not None:
        kept.add(holds.work.round_number)
    if path.exists():
        kept.update(map(int, path.read_text().split()))
    return sorted(kept)
