"""What is on its way: counted, overtaken, late."""

from fediac.sessions.flights import Flights

TIMEOUT_US = 10_000


def launched(n_packets: int) -> Flights:
    flights = Flights()
    for key in range(n_packets):
        assert not flights.launch(key, 0)
    return flights


def lost(flights: Flights, now_us: int = 0) -> list[int]:
    """Send again what is lost, and return it."""
    found = []
    while (key := flights.next_lost()) is not None:
        assert flights.launch(key, now_us)
        found.append(key)
    return found


def due_us(flights: Flights) -> int | None:
    return min(flights.due_us(TIMEOUT_US), default=None)


def test_what_is_answered_is_on_its_way_no_more() -> None:
    flights = launched(3)
    assert flights.n_flying == 3
    landed = flights.land(1)
    assert landed is not None
    assert landed.was_sent_once
    assert flights.land(1) is None
    assert flights.n_flying == 2
    assert [key in flights for key in range(3)] == [True, False, True]
    flights.clear()
    assert 0 not in flights
    assert due_us(flights) is None


def test_three_answers_to_later_packets_tell_that_one_is_lost() -> None:
    flights = launched(5)
    for key in (1, 2):
        flights.land(key)
        flights.lose_overtaken(0, 0)
    assert lost(flights) == []
    flights.land(4)
    flights.lose_overtaken(0, 0)
    assert lost(flights) == [0]
    # It was sent last now: nobody has overtaken it.
    flights.lose_overtaken(0, 0)
    assert lost(flights) == []
    landed = flights.land(0)
    assert landed is not None
    assert not landed.was_sent_once


def test_what_is_counted_leaves_room_and_rests_before_it_is_asked_for_again() -> None:
    flights = launched(5)
    told = flights.count(0, 1_000)
    assert told is not None
    assert told.was_sent_once
    assert flights.n_flying == 4
    for key in range(5, 9):
        flights.launch(key, 1_000)
    for key in (5, 6, 7):
        flights.land(key)
    flights.lose_overtaken(2_000, rest_us=5_000)
    assert lost(flights, 2_000) == [1, 2, 3, 4]
    for key in (1, 2, 3, 4):
        flights.land(key)
    flights.lose_overtaken(6_000, rest_us=5_000)
    assert lost(flights, 6_000) == [8, 0]


def test_a_packet_that_was_counted_and_sent_once_more_tells_the_time() -> None:
    flights = launched(1)
    flights.expire(TIMEOUT_US, TIMEOUT_US)
    assert lost(flights, TIMEOUT_US) == [0]
    told = flights.count(0, TIMEOUT_US + 300)
    assert told is not None
    assert not told.was_sent_once
    flights.recall(0)
    assert lost(flights, 30_000) == [0]
    again = flights.count(0, 30_300)
    assert again is not None
    assert (again.was_sent_once, again.at_us) == (True, 30_000)


def test_the_timer_doubles_until_a_packet_is_answered_that_was_sent_once() -> None:
    flights = launched(1)
    ends = []
    for _ in range(4):
        now_us = due_us(flights)
        assert now_us is not None
        assert not flights.expire(now_us - 1, TIMEOUT_US)
        assert flights.expire(now_us, TIMEOUT_US)
        lost(flights, now_us)
        ends.append(now_us)
    assert ends == [10_000, 20_000, 40_000, 60_000]
    flights.land(0)
    flights.launch(1, 60_000)
    assert due_us(flights) == 60_000 + 4 * TIMEOUT_US
    flights.land(1)
    flights.launch(2, 60_000)
    assert due_us(flights) == 60_000 + TIMEOUT_US


def test_the_timer_never_waits_longer_than_half_a_second() -> None:
    flights = launched(1)
    now_us = 0
    for _ in range(20):
        end_us = due_us(flights)
        assert end_us is not None
        assert end_us - now_us <= 500_000
        now_us = end_us
        flights.expire(now_us, TIMEOUT_US)
        lost(flights, now_us)
    assert now_us > 2_000_000


def test_a_few_counted_packets_are_asked_for_then_later_ones() -> None:
    flights = launched(8)
    for key in range(8):
        flights.count(key, 0)
    asked, ends = [], []
    for _ in range(3):
        now_us = due_us(flights)
        assert now_us is not None
        assert not flights.expire(now_us, TIMEOUT_US)
        asked.append(lost(flights, now_us))
        for key in asked[-1]:
            flights.count(key, now_us)
        ends.append(now_us)
    assert asked == [[0, 1, 2], [3, 4, 5], [6, 7, 0]]
    assert ends == [20_000, 40_000, 80_000]
    # An answer tells that it goes on.
    flights.land(1)
    assert due_us(flights) == 100_000


def test_an_expected_answer_is_asked_for_though_nothing_was_sent() -> None:
    flights = Flights()
    flights.expect(7, 0)
    flights.expect(7, 5_000)
    assert flights.n_flying == 0
    assert due_us(flights) == 20_000
    flights.recall(7)
    assert lost(flights) == [7]
    flights.recall(7)  # it is on its way
    assert lost(flights) == []


def test_a_packet_is_missing_unless_it_was_sent_after_the_one_that_tells() -> None:
    flights = launched(4)
    flights.lose(1, before=3)
    assert lost(flights) == [1]
    flights.lose(1, before=3)
    assert lost(flights) == []
    flights.lose(2, before=9)
    flights.lose(9, before=3)
    assert lost(flights) == [2]
