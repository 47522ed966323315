"""What a coordinator remembers of sessions that are over, and what it looks up."""

from dataclasses import dataclass, field

import numpy as np

from fediac.core.exchange import Peak
from fediac.sessions.coordinator import Coordinator, CoordinatorSettings
from fediac.sessions.journal import N_ANSWERED, Committed, Ledger, Numbered, Record
from fediac.sessions.messages import Model, Status, Verdict
from fediac.sessions.replay import Compressing

N = 3 * N_ANSWERED


def committed(number: int) -> Committed:
    return Committed(1, 100 + number, number, (0,), ((Peak(float(number)),),))


@dataclass
class MemoryJournal:
    records: list[Record] = field(default_factory=list)

    def load(self) -> list[Record]:
        return list(self.records)

    def append(self, record: Record) -> None:
        self.records.append(record)


def test_only_the_newest_answers_stay_in_memory() -> None:
    ledger = Ledger()
    for number in range(1, N + 1):
        ledger.note(committed(number))
    assert set(ledger.commits) == {100 + number for number in range(1, N + 1)}
    with_steps = [each for each in ledger.commits.values() if each.steps]
    assert [each.round_number for each in with_steps] == list(
        range(N - N_ANSWERED + 1, N + 1)
    )


def test_a_client_that_was_away_for_long_still_gets_its_answers() -> None:
    def make(_: int) -> object:
        raise AssertionError("no round is run")

    numbered = [Numbered(1, 100 + number, number, (0,)) for number in range(1, N + 1)]
    commits = [committed(number) for number in range(1, N + 1)]
    journal = MemoryJournal([*numbered, *commits])
    recipe = Compressing(make, 1)  # type: ignore[arg-type] # it is not asked
    settings = CoordinatorSettings(1, recipe, lambda last: last + 1)
    model = Model(N, np.zeros(3, dtype=np.float32))
    coordinator = Coordinator(settings, journal, model)
    for number in (1, N):
        word = coordinator.hear(Status(0, number - 1, unsettled=100 + number), 0)
        last = (Peak(float(number)),)
        assert word.verdict == Verdict(100 + number, is_committed=True, last=last)
