"""A job as words of a command, and how long its processes wait."""

from pathlib import Path

import pytest

from fediac.selftest.roles import Job

JOB = Job("switchml", 5, 1_000_000, 3, Path("a folder/of it"), is_rough=True)


@pytest.mark.parametrize("is_rough", [True, False])
def test_a_job_is_read_as_it_was_written(is_rough: bool) -> None:  # noqa: FBT001
    job = Job("fediac", 2, 30, 4, Path("here"), is_rough=is_rough)
    assert Job.read(job.words()) == job


def test_where_processes_are_killed_rounds_go_on_without_the_dead() -> None:
    calm = Job("switchml", 5, 1_000_000, 3, Path("here"), is_rough=False)
    assert (JOB.enough, calm.enough) == (2, 5)
    assert JOB.bounds.gather_s < calm.bounds.gather_s
    assert JOB.bounds.member_s < calm.bounds.member_s


def test_updates_are_the_same_whenever_they_are_asked_for() -> None:
    job = Job("fediac", 2, 500, 4, Path("here"), is_rough=False)
    assert job.update(1, 2).tobytes() == job.update(1, 2).tobytes()
    others = {job.update(i, n).tobytes() for i in (0, 1) for n in (1, 2)}
    assert len(others) == 4
