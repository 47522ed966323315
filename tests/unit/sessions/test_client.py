"""A client through rounds: what it saves, what it believes, what it never loses."""

from dataclasses import replace

import numpy as np
import pytest

from fediac.compressors.protocol import Compressor, Outcome, State
from fediac.errors import LocalProtocolError, NotFiniteError
from fediac.sessions.client import (
    Attempt,
    Client,
    ClientSettings,
    Holdings,
    Work,
    apply,
)
from fediac.sessions.messages import Model, Start, Verdict, Word
from fediac.sessions.replay import Compressing, replay
from tests.support import bytes_of, refuses
from tests.unit.sessions.rooms import DIM, RECIPE, SESSION_KEY, Disk, make, update
from tests.unit.sessions.test_replay import begin, steps_of

FIRST = Model(0, np.linspace(-1, 1, DIM, dtype=np.float32))
START = Start(100, 1, (0, 1), 64, SESSION_KEY)
SETTINGS = ClientSettings(0, RECIPE)
STEPS = steps_of([begin(0), begin(1)])
"""The answers of round 1 of clients 0 and 1."""


def word(round_number: int = 1, *, epoch: int = 1, **fields: object) -> Word:
    return replace(Word(epoch, round_number), **fields)  # type: ignore[arg-type]


def new_client(disk: Disk | None = None, recipe: Compressing = RECIPE) -> Client:
    return Client(replace(SETTINGS, recipe=recipe), disk or Disk(), FIRST)


def ready(disk: Disk | None = None) -> Client:
    client = new_client(disk)
    client.hear(word(), 0)
    client.take_update(update(0))
    return client


def started(disk: Disk | None = None) -> Client:
    client = ready(disk)
    client.hear(word(start=START), 0)
    return client


def outcome() -> Outcome:
    run = RECIPE.begin(update(0), State(), round_number=1, client=0, n=2)
    return replay(run, STEPS)


def test_an_update_is_wanted_when_the_coordinator_says_so() -> None:
    client = new_client()
    assert client.training_round is None
    client.hear(word(), 0)
    assert client.training_round == 1
    client.take_update(update(0))
    assert client.training_round is None
    assert client.status.ready_round == 1


def test_an_update_that_nobody_asked_for_is_refused() -> None:
    with refuses("an update must be asked for by training_round", LocalProtocolError):
        new_client().take_update(update(0))


def test_an_update_of_the_round_after_next_needs_the_model_before_it() -> None:
    client = new_client()
    client.hear(word(2), 0)
    assert client.training_round is None
    client.hear(word(2, model=Model(1, FIRST.values + 1)), 0)
    assert client.training_round == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_update_that_is_not_finite_changes_nothing(bad: float) -> None:
    disk = Disk()
    client = new_client(disk)
    client.hear(word(), 0)
    n_saved, spoilt = len(disk.saved), update(0)
    spoilt[3] = bad
    with pytest.raises(NotFiniteError):
        client.take_update(spoilt)
    assert len(disk.saved) == n_saved
    assert client.training_round == 1


def test_an_update_is_on_disk_before_anything_of_it_is_sent() -> None:
    disk = Disk()
    client = ready(disk)
    assert client.send(0) == []
    (work,) = [each.work for each in disk.saved if each.work is not None]
    assert bytes_of(work.update) == bytes_of(update(0))
    client.hear(word(start=START), 0)
    assert disk.saved[-1].attempt == Attempt(replace(START, key=b""))
    assert len(client.send(0)) == 1


def test_a_committed_round_makes_the_model_and_the_next_state() -> None:
    attempt = Attempt(START, STEPS[:-1])
    disk = Disk([Holdings(FIRST, work=Work(1, update(0)), attempt=attempt, last=100)])
    client = new_client(disk)
    verdict = Verdict(100, is_committed=True, last=STEPS[-1])
    client.hear(word(2, verdict=verdict), 0)
    held, right = client.holdings, outcome()
    assert bytes_of(held.model.values) == bytes_of(apply(FIRST, right).values)
    assert bytes_of(held.state.residual) == bytes_of(right.state.residual)
    assert (held.work, held.attempt, client.model.round_number) == (None, None, 1)
    assert disk.saved[-1] == held
    assert client.training_round == 2


def test_an_aborted_session_leaves_the_update_in_the_client_s_hands() -> None:
    client = started()
    client.hear(word(verdict=Verdict(100, is_committed=False)), 0)
    held = client.holdings
    assert held.work is not None
    assert (held.attempt, held.model.round_number) == (None, 0)
    assert client.status.ready_round == 1
    client.hear(word(start=replace(START, session=101)), 0)
    assert client.status.unsettled == 101


def test_a_session_s_number_is_taken_once() -> None:
    client = started()
    client.hear(word(verdict=Verdict(100, is_committed=False)), 0)
    for session in (99, 100):
        client.hear(word(start=replace(START, session=session)), 0)
        assert client.status.unsettled == 0


def test_a_verdict_on_another_session_changes_nothing() -> None:
    client = started()
    client.hear(word(verdict=Verdict(99, is_committed=False)), 0)
    assert client.status.unsettled == 100


def test_while_it_is_in_a_session_a_model_has_to_wait() -> None:
    client = started()
    client.hear(word(2, model=Model(3, FIRST.values)), 0)
    assert client.model.round_number == 0
    assert client.training_round is None


def test_an_older_model_is_not_taken() -> None:
    client = new_client()
    client.hear(word(3, model=Model(2, FIRST.values + 2)), 0)
    client.hear(word(3, model=Model(1, FIRST.values + 1)), 0)
    assert client.model.round_number == 2


def test_an_update_that_was_not_counted_goes_into_the_residual() -> None:
    client = ready()
    client.hear(word(2, model=Model(1, FIRST.values)), 0)
    client.take_update(update(0, 2))
    held = client.holdings
    assert bytes_of(held.state.residual) == bytes_of(update(0))
    assert held.work is not None
    assert held.work.round_number == 2
    client.hear(word(3, model=Model(2, FIRST.values)), 0)
    client.take_update(update(0, 3))
    assert bytes_of(client.holdings.state.residual) == bytes_of(
        update(0) + update(0, 2)
    )


def test_without_a_residual_it_is_lost_as_that_algorithm_means_it() -> None:
    client = new_client(recipe=Compressing(make, 5, keeps_residual=False))
    client.hear(word(), 0)
    client.take_update(update(0))
    client.hear(word(2, model=Model(1, FIRST.values)), 0)
    client.take_update(update(0, 2))
    assert client.holdings.state.residual is None


def test_an_older_coordinator_is_ignored() -> None:
    client = new_client()
    client.hear(word(1, epoch=3), 0)
    client.hear(word(7, epoch=2, model=Model(6, FIRST.values)), 0)
    assert client.training_round == 1
    assert client.holdings.epoch == 3


def test_the_newest_epoch_is_on_disk() -> None:
    disk = Disk()
    new_client(disk).hear(word(epoch=4), 0)
    assert disk.saved[-1].epoch == 4


@pytest.mark.parametrize(
    "start",
    [
        replace(START, members=(1, 2)),
        replace(START, round_number=2),
    ],
)
def test_a_session_that_is_not_its_own_is_not_begun(start: Start) -> None:
    client = ready()
    client.hear(word(start=start), 0)
    assert client.status.unsettled == 0
    assert client.send(0) == []


def test_without_an_update_no_session_is_begun() -> None:
    client = new_client()
    client.hear(word(start=START), 0)
    assert client.status.unsettled == 0


def test_after_a_restart_it_says_that_it_cannot_go_on() -> None:
    disk = Disk()
    started(disk)
    again = new_client(disk)
    status = again.status
    assert (status.unsettled, status.failed) == (100, 100)
    assert status.why == "has been restarted"
    assert again.send(0) == []
    assert again.deadline_us is None
    assert again.holdings == disk.saved[-1]


def test_what_its_member_cannot_go_on_with_is_in_its_status() -> None:
    client = started()
    assert client.deadline_us is not None
    client.send(10**9)
    status = client.status
    assert status.failed == 100
    assert status.why.startswith("session 100: no answer from the switch for 5 s")
    assert client.deadline_us is None


def test_a_compressor_that_refuses_its_session_is_in_the_status() -> None:
    def refuse(n_clients: int) -> Compressor:
        raise LocalProtocolError(f"{n_clients} are too few")

    client = new_client(recipe=Compressing(refuse, 5))
    client.hear(word(), 0)
    client.take_update(update(0))
    client.hear(word(start=START), 0)
    assert (client.status.failed, client.status.why) == (100, "2 are too few")


def test_a_move_joins_again() -> None:
    client = started()
    first = client.send(0)
    client.move(1)
    assert client.send(1) != first
    new_client().move(0)  # nobody to tell
