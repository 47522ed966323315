import json
import warnings

import pytest

from fediac import native
from fediac.plan.bench import run_bench, step_names, time_kernels
from tests.support import refuses


def test_json_names_every_kernel_and_its_ratio(
    capsys: pytest.CaptureFixture[str],
) -> None:
    timings = run_bench(dim=5000, n_repeats=1, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["dim"] == 5000
    assert document["isa"] == native.isa()
    assert document["statistic"] == "best of 1, cold caches"
    assert len(document["kernels"]) == len(timings)
    for row in document["kernels"]:
        expected = row["ns_per_entry"] / document["memcpy_ns_per_entry"]
        assert row["ratio_to_memcpy"] == expected
    assert {row["name"] for row in document["kernels"]} == set(step_names())


def test_without_kernels_only_core_is_timed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with native.disabled():
        timings = run_bench(dim=1000, n_repeats=1)
    assert {timing.backend for timing in timings} == {"core"}
    assert "none, kernels not in use" in capsys.readouterr().out


def test_kernels_are_timed_with_one_thread_and_with_two() -> None:
    before = native.n_threads()
    _, timings = time_kernels(dim=1000, n_repeats=1, with_core=False)
    if native.isa() is not None:
        assert {timing.threads for timing in timings} == {1, 2}
    assert native.n_threads() == before


def test_small_vectors_are_timed_without_a_word_on_learning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_bench(dim=3000, n_repeats=1, with_core=False)
    assert capsys.readouterr().err == ""


def test_there_must_be_something_to_time() -> None:
    with refuses("dim must be at least 1, got 0"):
        time_kernels(dim=0)
    with refuses("n_repeats must be at least 1, got 0"):
        time_kernels(n_repeats=0)
