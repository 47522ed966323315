import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fediac import native
from fediac.native import threads
from tests.support import refuses


@pytest.mark.usefixtures("n_threads")
@pytest.mark.parametrize("n_entries", [0, 1, 4095, 4096, 4097, 40_000])
def test_shares_cover_all_entries_in_whole_grains(n_entries: int) -> None:
    shares = threads.split(n_entries, grain=4096)
    assert shares[0][0] == 0
    assert shares[-1][1] == n_entries
    assert 1 <= len(shares) <= native.n_threads()
    for (_, stop), (start, _) in pairwise(shares):
        assert stop == start
        assert start % 4096 == 0


def test_little_work_stays_on_one_thread() -> None:
    assert len(threads.split(threads.MIN_SHARE, grain=4096)) == 1


@pytest.mark.usefixtures("n_threads")
def test_results_come_in_the_order_of_shares() -> None:
    shares = threads.split(10 * 4096, grain=4096)
    assert threads.run(lambda *share: share, shares) == shares


def test_an_error_in_a_share_is_raised_when_all_have_ended(n_threads: int) -> None:
    ended = []

    def work(start: int, stop: int) -> None:
        ended.append(stop)
        if start == 0 or stop == 10 * 4096:
            raise ValueError("broken share")

    shares = threads.split(10 * 4096, grain=4096)
    with refuses("broken share"):
        threads.run(work, shares)
    assert len(ended) == len(shares) == n_threads


def test_a_thread_can_keep_its_kernels_to_itself(n_threads: int) -> None:
    seen = []
    with native.single_thread():
        with native.single_thread():
            assert native.n_threads() == 1
        assert native.n_threads() == 1
        other = threading.Thread(target=lambda: seen.append(native.n_threads()))
        other.start()
        other.join()
    assert seen == [n_threads]
    assert native.n_threads() == n_threads


def test_a_forked_child_makes_threads_of_its_own(n_threads: int) -> None:
    shares = threads.split(7 * 4096, grain=4096)
    assert threads.run(lambda *share: share, shares) == shares
    threads._pool.forget()
    assert threads.run(lambda *share: share, shares) == shares
    assert len(shares) == n_threads


def test_there_is_at_least_one_thread() -> None:
    with refuses("n_threads must be at least 1, got 0"):
        native.set_threads(0)


@pytest.mark.parametrize(("asked", "expected"), [("1", 1), ("12", 12)])
def test_the_environment_sets_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, asked: str, expected: int
) -> None:
    monkeypatch.setenv("FEDIAC_THREADS", asked)
    assert threads._default_threads() == expected


@pytest.mark.parametrize("asked", ["0", "-1", "two"])
def test_a_wrong_number_of_threads_is_refused(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setenv("FEDIAC_THREADS", asked)
    with refuses(f"FEDIAC_THREADS must be a number of at least 1, got {asked!r}"):
        threads._default_threads()


def test_without_a_setting_all_processors_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("FEDIAC_THREADS", raising=False)
    assert threads._default_threads() >= 1


def test_kernels_may_be_called_from_many_threads_at_once() -> None:
    values = np.random.default_rng(1).standard_normal(300_000).astype(np.float32)
    kernels = native.kernels_for(values)
    assert kernels is not None
    expected = kernels.first_pass(values, None, values)
    found = []
    callers = [
        threading.Thread(
            target=lambda: found.append(kernels.first_pass(values, None, values))
        )
        for _ in range(6)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [expected] * 6


@pytest.mark.parametrize("number", [2.5, "2", True])
def test_threads_are_counted_in_whole_numbers(number: Any) -> None:
    with refuses(f"n_threads must be a whole number, got {number!r}", TypeError):
        threads.set_threads(number)
