from typing import Any

import pytest

from fediac.errors import LocalProtocolError
from fediac.switch.pipeline import Switch
from tests.packets import answer_to, block, gia, lanes, pairs, peak, send, totals, votes
from tests.support import refuses


def test_jobs_do_not_meet_in_the_registers() -> None:
    switch = Switch(8192, payload_bytes=16)
    one, other = (
        switch.open(2, register_bytes=1001),
        switch.open(2, register_bytes=3000),
    )
    packets = [lanes(one, 0, [1]), lanes(other, 0, [2]), lanes(other, 1, [3])]
    assert totals(answer_to(switch, *packets)) == [5]
    assert totals(answer_to(switch, lanes(one, 1, [6]))) == [7]


def test_a_new_job_takes_the_largest_free_piece() -> None:
    switch = Switch(8192, payload_bytes=16)
    jobs = [switch.open(2, register_bytes=size) for size in (1000, 2000, 1000)]
    switch.close(jobs[1])
    assert switch.open(2).layout.register_bytes == 8192 - 4000
    last = switch.open(2)
    assert (last.base, last.layout.register_bytes) == (1000, 2000)


def test_closed_and_reopened_registers_are_clean(switch: Switch) -> None:
    job = switch.open(2)
    send(switch, lanes(job, 0, [77]), peak(job, 0, 9))
    switch.close(job)
    job = switch.open(2)
    assert totals(answer_to(switch, *(lanes(job, i, [1]) for i in (0, 1)))) == [2]


def test_packets_of_a_closed_job_are_dropped(switch: Switch) -> None:
    job = switch.open(2)
    switch.close(job)
    switch.open(2)
    assert send(switch, lanes(job, 0, [1])) == []
    assert switch.counters.drops == {"unknown_session": 1}


def test_a_switch_without_jobs_drops_everything(switch: Switch) -> None:
    job = switch.open(2)
    switch.close(job)
    assert send(switch, lanes(job, 0, [1]), b"noise") == []
    assert switch.counters.drops == {"unknown_session": 1, "foreign": 1}


def test_closing_a_job_twice_is_an_error(switch: Switch) -> None:
    job = switch.open(2)
    switch.close(job)
    with refuses("session 1 is not open", LocalProtocolError):
        switch.close(job)


def test_a_full_switch_refuses_a_job(switch: Switch) -> None:
    switch.open(2)
    needed = 64 + 2 * (24 + 8) + 2 * (24 + 8 + 16)
    with refuses(
        f"register_bytes must be at least {needed} for two packets of 16 bytes from 2 "
        "clients, got 0; open jobs hold the rest: close them, or give each round that "
        "runs at the same time a Switch of its own"
    ):
        switch.open(2)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        *(
            ({"n_clients": n}, f"in 1..1024 (bits of a slot's bitmap), got {n}")
            for n in (-1, 0, 1025)
        ),
        *(
            ({"present": bits}, f"name some of 3 clients, got {bits:#b}")
            for bits in (0, 0b1000, -1)
        ),
        ({"register_bytes": 4097}, "at most 4096 (free in one piece), got 4097"),
    ],
)
def test_a_job_that_cannot_be_is_refused_and_takes_nothing(
    switch: Switch, settings: dict[str, Any], text: str
) -> None:
    (name,) = settings
    verb = "must" if name == "present" else "must be"
    with refuses(f"{name} {verb} {text}"):
        switch.open(**{"n_clients": 3} | settings)
    assert switch.open(2).layout.register_bytes == switch.register_bytes


@pytest.mark.parametrize("name", ["n_clients", "present", "register_bytes"])
def test_a_job_is_of_whole_numbers(switch: Switch, name: str) -> None:
    settings: dict[str, Any] = {"n_clients": 2} | {name: 2.5}
    with refuses(f"{name} must be a whole number, got 2.5", TypeError):
        switch.open(**settings)
    assert switch.open(2).layout.register_bytes == switch.register_bytes


@pytest.mark.parametrize("name", ["register_bytes", "payload_bytes"])
@pytest.mark.parametrize("value", ["100", 100.5, None, True])
def test_a_switch_is_of_whole_numbers(name: str, value: Any) -> None:
    with refuses(f"{name} must be a whole number, got {value!r}", TypeError):
        Switch(**{name: value})


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        *(
            (
                {"payload_bytes": n},
                "payload_bytes must be in 1..8128 (votes that a packet can count), "
                f"got {n}",
            )
            for n in (-1, 0, 8129)
        ),
        (
            {"register_bytes": 1024},
            "register_bytes must be at least 3008 for two packets of 1408 bytes from "
            "1 client, got 1024",
        ),
    ],
)
def test_a_switch_that_cannot_be_is_refused(
    settings: dict[str, int], text: str
) -> None:
    with refuses(text):
        Switch(**settings)


def test_an_open_job_uses_its_records_only(switch: Switch) -> None:
    job = switch.open(2)
    assert switch.counters.register_bytes == job.layout.halves_at


def test_a_slot_counts_as_used_once(switch: Switch) -> None:
    job = switch.open(1)
    before = switch.counters.register_bytes
    send(switch, lanes(job, 0, [1]), lanes(job, 0, [1]))
    stride = 24 + 8 + 16
    assert switch.counters.register_bytes == before + stride


def test_two_running_exchanges_use_both_halves_and_no_more() -> None:
    switch = Switch(4096, payload_bytes=16)
    job = switch.open(1)
    for exchange in range(8):
        many = (lanes(job, 0, [1], packet=p, exchange=exchange) for p in range(100))
        send(switch, *many)
    layout = job.layout
    full = 2 * (layout.half_bytes // 48 * 48)
    assert switch.counters.register_bytes == layout.halves_at + full <= 4096


def test_use_falls_to_nothing_when_jobs_close(switch: Switch) -> None:
    job = switch.open(2)
    send(switch, pairs(job, 0, {1: 1}), votes(job, 0, "1", exchange=1))
    send(switch, block(job, 0, 1, [1], exchange=2), lanes(job, 0, [1], exchange=3))
    switch.close(job)
    switch.forget_peak()
    assert switch.counters.register_bytes == 0


LENGTHS = [1, 2, 3, 7, 8, 9, 31, 33, 63, 65, 511, 513]


@pytest.mark.parametrize("payload_bytes", LENGTHS)
def test_payloads_of_any_length_are_added(payload_bytes: int) -> None:
    switch = Switch(1 << 14, payload_bytes=payload_bytes)
    job = switch.open(2)
    values = [place % 100 for place in range(payload_bytes)]
    answer = answer_to(switch, *(lanes(job, i, values) for i in (0, 1)))
    assert totals(answer) == [2 * value for value in values]


@pytest.mark.parametrize("payload_bytes", LENGTHS)
def test_payloads_of_any_length_are_tallied(payload_bytes: int) -> None:
    switch = Switch(1 << 14, payload_bytes=payload_bytes)
    job = switch.open(2)
    n_votes = 8 * payload_bytes
    masks = [(pattern * n_votes)[:n_votes] for pattern in ("110", "10110")]
    packets = (votes(job, i, mask, threshold=2) for i, mask in enumerate(masks))
    both = "".join(str(int(a + b == "11")) for a, b in zip(*masks, strict=True))
    assert gia(answer_to(switch, *packets)) == both
