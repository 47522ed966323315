"""The compiled simulator: found where the library has it, done without elsewhere."""

import pytest

from fediac import native
from fediac.native import library, queueing
from fediac.native.queueing import queue_kernels


def test_kernels_are_not_used_where_they_are_disabled() -> None:
    assert queue_kernels() is not None
    with native.disabled():
        assert queue_kernels() is None


def test_structures_of_other_lengths_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reasons: list[str] = []
    monkeypatch.setattr(queueing, "_STRUCTURES", (queueing.Draws,) * 9)
    monkeypatch.setattr(library, "reject", reasons.append)
    assert queue_kernels() is None
    assert reasons == ["its C kernels were built from older sources"]
