"""Splitting a kernel's work over threads. C knows nothing of them."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")
Share = tuple[int, int]
"""First entry of a thread's share, and one past its last."""

MIN_SHARE = 1 << 17
"""Entries below which another thread costs more than it saves."""


class _Local(threading.local):
    is_single = False


class _Pool:
    """A pool that is made when it is first needed and when its size changes."""

    def __init__(self) -> None:
        self.n_threads = _default_threads()
        self.forget()

    def forget(self) -> None:
        """Drop the pool without waiting for it; a forked child has lost its threads."""
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def resize(self, n_threads: int) -> None:
        with self._lock:
            if self._executor is not None:
                self._executor.shutdown(wait=False)
                self._executor = None
            self.n_threads = n_threads

    def run(
        self, work: Callable[[int, int], Result], shares: list[Share]
    ) -> list[Result]:
        """Do the first share here and the others in the pool."""
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(
                    max(1, self.n_threads - 1), thread_name_prefix="fediac"
                )
            waiting = [self._executor.submit(work, *share) for share in shares[1:]]
        results = []
        try:
            results.append(work(*shares[0]))
        finally:
            # Kernels write to the caller's arrays: none may outlive this call.
            outcomes = [future.exception() for future in waiting]
        for error in outcomes:
            if error is not None:
                raise error
        return results + [future.result() for future in waiting]


def _default_threads() -> int:
    asked = os.environ.get("FEDIAC_THREADS")
    if not asked:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if not asked.isdecimal() or int(asked) < 1:
        raise ValueError(
            f"FEDIAC_THREADS must be a number of at least 1, got {asked!r}"
        )
    return int(asked)


_local = _Local()
_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def set_threads(n_threads: int) -> None:
    """Let kernels use up to ``n_threads`` threads; the results are the same for any."""
    if not isinstance(n_threads, int) or isinstance(n_threads, bool):
        raise TypeError(f"n_threads must be a whole number, got {n_threads!r}")
    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    _pool.resize(n_threads)


def n_threads() -> int:
    """Return how many threads a kernel called from this thread may use."""
    return 1 if _local.is_single else _pool.n_threads


@contextmanager
def single_thread() -> Iterator[None]:
    """Keep kernels called from this thread on it, for callers that have their own pool.

    Other threads are not affected.
    """
    before = _local.is_single
    _local.is_single = True
    try:
        yield
    finally:
        _local.is_single = before


def split(n_entries: int, *, grain: int, min_share: int | None = None) -> list[Share]:
    """Return the shares of the threads: whole grains, but for the end of the last.

    There is always one share, if only an empty one.
    """
    n_grains = -(-n_entries // grain)
    smallest = MIN_SHARE if min_share is None else min_share
    n_shares = max(1, min(n_threads(), n_entries // smallest, n_grains))
    cuts = [n_grains * share // n_shares * grain for share in range(n_shares)]
    return list(zip(cuts, [*cuts[1:], n_entries], strict=True))


def run(work: Callable[[int, int], Result], shares: list[Share]) -> list[Result]:
    """Return ``work(start, stop)`` of every share, in their order."""
    if len(shares) == 1:
        return [work(*shares[0])]
    return _pool.run(work, shares)
