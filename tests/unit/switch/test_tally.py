import pytest

from fediac.switch.pipeline import Switch
from fediac.switch.registers import n_planes
from fediac.switch.tally import count_votes, reach_threshold
from tests.packets import answer_to, gia, votes


def test_counters_stay_at_their_largest_value() -> None:
    planes = [0b1, 0b1]
    assert count_votes(planes, 0b1) == planes


@pytest.mark.parametrize("threshold", range(1, 10))
def test_entries_reach_the_threshold_with_exactly_enough_votes(threshold: int) -> None:
    n_entries = 12
    planes = [0] * n_planes(threshold)
    for voter in range(n_entries):
        # Entry l gets l votes.
        planes = count_votes(planes, sum(1 << i for i in range(n_entries) if i > voter))
    chosen = reach_threshold(planes, threshold, n_entries)
    assert chosen == sum(1 << i for i in range(n_entries) if i >= threshold)


@pytest.mark.parametrize("n_voters", [1022, 1023, 1024])
def test_1024_clients_must_all_agree_when_the_threshold_says_so(n_voters: int) -> None:
    switch = Switch(1 << 16, payload_bytes=16)
    job = switch.open(1024)
    answer = answer_to(
        switch,
        *(
            votes(job, i, "1" if i < n_voters else "0", threshold=1024)
            for i in range(1024)
        ),
    )
    assert gia(answer) == ("1" if n_voters == 1024 else "0")


def test_votes_past_a_threshold_of_one_do_not_wrap() -> None:
    switch = Switch(4096, payload_bytes=16)
    job = switch.open(9)
    answer = answer_to(switch, *(votes(job, i, "10", threshold=1) for i in range(9)))
    assert gia(answer) == "10"
