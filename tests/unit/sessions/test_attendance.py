"""A member that runs a round: answers go in as they come, and are kept first."""

from collections.abc import Callable

import pytest

from fediac.compressors.protocol import State
from fediac.errors import LocalProtocolError
from fediac.sessions.attendance import Attendance
from fediac.sessions.member import Member
from fediac.sessions.messages import Step
from fediac.sessions.replay import OBSERVER, Replay
from fediac.wire.header import Kind
from fediac.wire.packet import Packet
from tests.support import bytes_of
from tests.unit.sessions.rooms import RECIPE, opened, seat, talk, update


def attend(
    client: int, keep: Callable[[tuple[Step, ...]], None] = lambda _: None
) -> Attendance:
    values = update(client) if client < 2 else 0 * update(0)
    place = client if client < 2 else OBSERVER
    generator = RECIPE.begin(values, State(), round_number=1, client=place, n=2)
    return Attendance(Member(seat(client), 0), Replay(generator), keep)


class Attending:
    """An attendance as a machine."""

    def __init__(self, attendance: Attendance) -> None:
        self.attendance = attendance
        self.receive = attendance.receive

    def send(self, now_us: int) -> list[bytes]:
        return self.attendance.member.send(now_us)


def run() -> dict[bytes, Attending]:
    switch, _ = opened()
    machines = {b"%d" % i: Attending(attend(i)) for i in range(3)}
    talk(switch, machines, 0)
    return machines


def test_all_members_end_with_the_same_mean() -> None:
    machines = run()
    outcomes = [each.attendance.run.outcome for each in machines.values()]
    assert all(each.attendance.is_done for each in machines.values())
    means = {bytes_of(o.mean.dense(update(0))) for o in outcomes if o is not None}
    assert len(means) == 1


def test_answers_are_kept_before_anything_is_sent_that_follows_from_them() -> None:
    switch, _ = opened()
    order: list[str] = []
    attendance = attend(0, lambda steps: order.append(f"kept {len(steps)}"))
    machine = Attending(attendance)
    others = {b"%d" % i: Attending(attend(i)) for i in (1, 2)}

    def note(at: bytes, packet: Packet) -> bool:
        if at == b"0" and packet.kind in (Kind.TALLY, Kind.SUM) and not packet.count:
            order.append(packet.kind.name)
        return False

    talk(switch, {b"0": machine} | others, 0, is_lost=note)
    assert order.index("kept 1") < order.index("SUM")
    assert "kept 2" not in order  # the last answers are the coordinator's to keep


def test_steps_are_all_answers_in_order() -> None:
    machines = run()
    steps = machines[b"0"].attendance.steps
    assert [[type(each).__name__ for each in step] for step in steps] == [
        ["Consensus"],
        ["Totals"],
    ]


def test_a_round_that_goes_wrong_stops_its_member_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: Step) -> None:
        raise LocalProtocolError("the round is broken")

    attendance = attend(0)

    switch, _ = opened()
    monkeypatch.setattr(attendance.run, "feed", fail)
    others = {b"%d" % i: Attending(attend(i)) for i in (1, 2)}
    talk(switch, {b"0": Attending(attendance)} | others, 0)
    assert str(attendance.member.problem) == "session 100: the round is broken"
    assert attendance.member.send(0) == []
