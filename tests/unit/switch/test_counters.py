from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from tests.packets import lanes, send


def test_counters_since_a_reading_leave_out_what_was_before(
    switch: Switch, job: Job
) -> None:
    send(switch, b"noise", *(lanes(job, i, [1]) for i in (0, 0, 1, 2)))
    before = switch.counters
    send(switch, lanes(job, 0, [1], packet=1), lanes(job, 0, [1], packet=1))
    since = switch.counters.since(before)
    assert (since.packets_in, since.packets_out, since.aggregations) == (2, 1, 0)
    assert since.drops == {"duplicate": 1}
    assert since.register_bytes == switch.counters.register_bytes


def test_a_forgotten_peak_starts_again_from_what_is_in_use(switch: Switch) -> None:
    first = switch.open(2, register_bytes=1000)
    other = switch.open(2, register_bytes=1000)
    switch.close(other)
    switch.forget_peak()
    assert switch.counters.register_bytes == first.layout.halves_at


def test_a_switch_tells_the_most_addresses_a_job_could_have(switch: Switch) -> None:
    assert switch.indexed_capacity(3) == switch.open(3).layout.indexed_capacity
