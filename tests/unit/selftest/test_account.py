"""The account of a job: what all must hold, and every way in which they do not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fediac.compressors.protocol import State
from fediac.remote.client_disk import ClientDisk
from fediac.remote.journal_file import FileJournal
from fediac.selftest.account import Finding, _kept, check_job
from fediac.selftest.roles import JOURNAL, KEPT, Job, digest
from fediac.sessions.client import Holdings, Work
from fediac.sessions.journal import Began, Committed, Numbered
from fediac.sessions.messages import Model
from fediac.transports.vectors import aggregate_vectors

MEMBERS = ((0, 1), (0,), (0, 1), (0,))
"""Who trains in rounds 1 to 4: client 1 in all, and two of its updates count."""


class Lived:
    """A job that was lived through by `fediac.aggregate`, and its files."""

    def __init__(self, folder: Path) -> None:
        self.job = Job("fediac", 2, 3000, 7, folder, is_rough=True)
        self.states = [State(), State()]
        self.model = self.job.first
        self.digests: dict[int, set[str]] = {}
        for number, members in enumerate(MEMBERS, 1):
            self._live(number, members)
        # Round 4 did not count client 1, which still has its update in its hands.
        works = [None, Work(4, self.job.update(1, 4))]
        self.holdings = [
            Holdings(Model(4, self.model), state, work)
            for state, work in zip(self.states, works, strict=True)
        ]
        self.records: list[Any] = [Began(1)]
        for number, members in enumerate(MEMBERS, 1):
            self.records += [
                Numbered(1, 10 * number, number, members),
                Numbered(1, 10 * number + 1, number, members),
                Committed(1, 10 * number + 1, number, members, ()),
            ]

    def _live(self, number: int, members: tuple[int, ...]) -> None:
        updates: list[Any] = [None, None]
        for i in members:
            updates[i] = self.job.update(i, number)
        if number == 3:  # what client 1 trained in round 2 is in its residual now
            residual = self.residual(1) + self.job.update(1, 2)
            self.states[1] = replace(self.states[1], residual=residual)
        result = aggregate_vectors(
            updates,
            self.job.recipe.make(len(members)),
            seed=7,
            round_number=number,
            states=self.states,
        )
        self.states = list(result.states)
        self.model = self.model - result.mean
        self.digests[number] = {digest(self.model)}

    def residual(self, client: int) -> Any:
        """Return a copy of what a client has not sent."""
        residual = self.states[client].residual
        assert residual is not None
        return np.array(residual)

    def write(self) -> None:
        journal = FileJournal(self.job.folder / JOURNAL)
        journal.load()
        for record in self.records:
            journal.append(record)
        journal.close()
        for i, holds in enumerate(self.holdings):
            ClientDisk(self.job.folder_of(i)).save(holds)
            (self.job.folder_of(i) / KEPT).write_text("1\n2\n3\n4\n")

    def check(self) -> Finding:
        self.write()
        return check_job(self.job, self.digests)

    def change(self, client: int, **fields: Any) -> None:
        self.holdings[client] = replace(self.holdings[client], **fields)


@pytest.fixture
def lived(tmp_path: Path) -> Lived:
    return Lived(tmp_path)


def test_what_was_lived_through_is_in_order(lived: Lived) -> None:
    assert lived.check() == Finding(n_rounds=4, n_given_up=4, wrong=[])


def flip(lived: Lived) -> None:
    residual = lived.residual(0)
    residual[17] += 1
    lived.change(0, state=replace(lived.states[0], residual=residual))


def lose(lived: Lived) -> None:
    lived.change(1, work=None)


def hold_twice(lived: Lived) -> None:
    lived.change(0, work=Work(4, lived.job.update(0, 4)))


def lag(lived: Lived) -> None:
    lived.change(0, model=Model(3, lived.model))


def forget_bits(lived: Lived) -> None:
    lived.change(0, state=replace(lived.states[0], bits=None))


def tell_another(lived: Lived) -> None:
    lived.digests[2].add("0" * 32)


def commit_twice(lived: Lived) -> None:
    lived.records.append(replace(lived.records[-1], session=99))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (flip, "client 0: residual: 1 of 3,000 entries differ, the first one is 17: "),
        (lose, "client 1: update: nothing instead of something"),
        (hold_twice, "client 0: round of its update: 4 instead of 0"),
        (lag, "client 0: round of its model: 3 instead of 4"),
        (forget_bits, "client 0: bits: None instead of "),
        (tell_another, "round 2: somebody's model differs"),
        (commit_twice, "rounds must be committed once each, in order, got [1, 2, 3, 4"),
    ],
)
def test_what_is_wrong_is_named(
    lived: Lived, spoil: Callable[[Lived], None], said: str
) -> None:
    spoil(lived)
    found = lived.check().wrong
    assert any(said in each for each in found)


def test_an_update_of_a_round_without_its_client_is_in_the_residual(
    lived: Lived,
) -> None:
    residual = lived.residual(1) - lived.job.update(1, 2)
    lived.change(1, state=replace(lived.states[1], residual=residual))
    (wrong,) = lived.check().wrong
    assert wrong.startswith("fediac, client 1: residual: ")


def test_an_update_that_was_not_noted_before_a_kill_is_known_nevertheless(
    tmp_path: Path,
) -> None:
    path = tmp_path / KEPT
    zeros = np.zeros(1, dtype=np.float32)
    holds = Holdings(Model(0, zeros), work=Work(5, zeros))
    counted = [Committed(1, 1, 4, (0,), ()), Committed(1, 2, 3, (1,), ())]
    assert _kept(path, 0, counted, None) == [4]
    path.write_text("1\n2\n2\n")
    assert _kept(path, 0, counted, holds) == [1, 2, 4, 5]
