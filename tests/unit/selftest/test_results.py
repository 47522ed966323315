"""Numbers of trials, together and as JSON."""

from collections import Counter

from fediac.selftest.results import Trial, add_up, document, say_trial
from fediac.selftest.under_attack import Attacked

A = Trial(3, 100, 7, 2.0, Counter(tag=1), 0, 0, 0.5)
B = Trial(2, 50, 3, 3.0, Counter(tag=2, busy=4), 5, 1, 0.25, ["round 1: mean"])


def test_trials_add_up() -> None:
    total = add_up([A, B])
    assert (total.rounds, total.packets, total.retransmissions) == (5, 150, 10)
    assert total.drops == {"tag": 3, "busy": 4}
    assert (total.kills, total.rounds_retried, total.longest_wait_s) == (5, 1, 0.5)


def test_a_document_is_equal_if_all_its_trials_are() -> None:
    assert document({"a": A}, None)["equal"]
    both = document({"a": A, "b": B}, None)
    assert not both["equal"]
    assert both["packets_per_s"] == 30.0
    assert both["algorithms"]["b"]["differences"] == ["round 1: mean"]


def test_the_smallest_buffer_of_all_clients_is_told() -> None:
    first, second = Trial(1), Trial(1)
    for n_bytes in (None, 9_000, 4_000, None, 5_000):
        first.note_buffer(n_bytes)
    assert first.document()["buffer_bytes"] == 4_000
    assert second.document()["buffer_bytes"] is None
    assert add_up([second, first, second]).buffer_bytes == 4_000


def test_nothing_compared_is_not_equal() -> None:
    assert not Trial().is_equal
    assert not document({"a": A, "b": Trial()}, None)["equal"]


def test_what_attacks_changed_is_in_the_document() -> None:
    attacked = Attacked({"forged": 9}, {"forged": 1}, ["attack: it"], is_noticed=True)
    made = document({"a": A}, attacked)
    assert (made["accepted"], made["differences"]) == (1, ["attack: it"])
    assert document({"a": A}, None)["accepted"] is None


def test_a_trial_in_one_line() -> None:
    assert say_trial("a", A) == (
        "a: 3 rounds equal to the bit; 100 packets, 7 sent again, 2.0 s, the longest "
        "round 0.5 s"
    )
    assert say_trial("b", B) == (
        "b: 2 rounds and 5 kills DIFFERENT, 1 attempt given up; 50 packets, 3 sent "
        "again, 3.0 s, the longest round 0.2 s"
    )
