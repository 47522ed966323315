from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fediac.core.rng import Stream
from fediac.partition import (
    MAX_DRAWS,
    by_writer,
    dirichlet,
    draw_shares,
    iid,
    pathological,
)
from tests.support import refuses

SEED = 5
STREAM = Stream(SEED, round_number=0, client=0)
LABELS = np.arange(1000, dtype=np.int64) % 10
# Writers 3, 5, 7, 9 with 2, 4, 3, 1 examples, mixed.
WRITERS = np.array([7, 5, 3, 5, 9, 7, 5, 3, 7, 5], dtype=np.int32)


def as_lists(clients: list[NDArray[np.int64]]) -> list[list[int]]:
    return [rows.tolist() for rows in clients]


class TestIid:
    def test_sizes_differ_by_at_most_one(self) -> None:
        clients = iid(LABELS, 7, seed=SEED)
        assert sorted(len(rows) for rows in clients) == [
            142,
            143,
            143,
            143,
            143,
            143,
            143,
        ]

    def test_examples_are_shuffled_and_then_listed_in_order(self) -> None:
        first = iid(LABELS, 2, seed=SEED)[0]
        assert np.all(np.diff(first) > 0)
        # A client of neighbours would have none of the second half.
        assert np.any(first >= 500)


class TestDirichlet:
    def test_class_is_cut_at_its_cumulative_shares(self) -> None:
        clients = dirichlet(LABELS, 4, beta=0.5, min_size=1, seed=SEED)
        shares = draw_shares(10, 4, beta=0.5, draw=0, stream=STREAM)
        for label in range(10):
            counts = [int(np.sum(LABELS[rows] == label)) for rows in clients]
            ends = np.floor(100 * np.cumsum(shares[label])[:-1])
            assert np.cumsum(counts)[:-1].tolist() == ends.tolist()

    def test_split_is_drawn_again_until_all_clients_have_enough(self) -> None:
        first = dirichlet(LABELS, 8, beta=0.3, min_size=1, seed=SEED)
        smallest = min(len(rows) for rows in first)
        redrawn = dirichlet(LABELS, 8, beta=0.3, min_size=smallest + 1, seed=SEED)
        assert min(len(rows) for rows in redrawn) > smallest

    def test_draws_do_not_share_numbers(self) -> None:
        two = [draw_shares(3, 4, beta=1.0, draw=k, stream=STREAM) for k in (0, 1)]
        assert not np.intersect1d(two[0], two[1]).size

    @pytest.mark.parametrize("beta", [0.01, 1.0, 1e6])
    def test_shares_of_a_class_sum_to_one(self, beta: float) -> None:
        shares = draw_shares(500, 20, beta=beta, draw=3, stream=STREAM)
        assert np.all(shares >= 0.0)
        # 20 roundings of at most 2**-53 each, and the division's.
        assert np.sum(shares, axis=1) == pytest.approx(1.0, abs=21 * 2.0**-53)


class TestByWriter:
    def test_writers_are_taken_in_the_order_of_their_numbers(self) -> None:
        clients = by_writer(WRITERS, 2, writers_per_client=2, seed=SEED)
        assert as_lists(clients) == [[1, 2, 3, 6, 7, 9], [0, 4, 5, 8]]

    def test_writers_beyond_the_last_whole_client_stay_out(self) -> None:
        clients = by_writer(WRITERS, 1, writers_per_client=3, seed=SEED)
        assert as_lists(clients) == [[0, 1, 2, 3, 5, 6, 7, 8, 9]]

    def test_client_is_the_fewest_writers_that_will_do(self) -> None:
        clients = by_writer(WRITERS, 2, min_size=3, seed=SEED)
        assert as_lists(clients) == [[1, 3, 6, 9], [0, 5, 8]]
        clients = by_writer(WRITERS, 2, min_size=4, seed=SEED)
        assert as_lists(clients) == [[1, 2, 3, 6, 7, 9], [0, 4, 5, 8]]

    def test_large_client_keeps_some_of_its_examples(self) -> None:
        kept = {
            tuple(
                by_writer(
                    WRITERS,
                    1,
                    writers_per_client=4,
                    max_size=3,
                    seed=seed,
                )[0].tolist()
            )
            for seed in range(20)
        }
        assert all(len(rows) == 3 for rows in kept)
        assert len(kept) > 1


class TestPathological:
    def test_every_client_has_its_number_of_classes(self) -> None:
        clients = pathological(LABELS, 7, classes_per_client=3, seed=SEED)
        assert [len(set(LABELS[rows])) for rows in clients] == [3] * 7

    def test_class_is_shared_equally(self) -> None:
        clients = pathological(LABELS, 20, classes_per_client=2, seed=SEED)
        assert [len(rows) for rows in clients] == [50] * 20

    def test_classes_that_nobody_was_dealt_stay_out(self) -> None:
        clients = pathological(LABELS, 2, classes_per_client=3, seed=SEED)
        assert [len(rows) for rows in clients] == [300, 300]


EXAMPLES = "n_clients must be in 1..1000 (examples), got "
BETA = "beta must be in 0.01..1e+06, got "
SIZE = "min_size must be in 1..100 (1000 examples, 10 clients), got "
CLASSES = "classes_per_client must be in 1..10 (classes), got "


@pytest.mark.parametrize(
    ("split", "of", "settings", "text"),
    [
        *((iid, LABELS, {"n_clients": n}, f"{EXAMPLES}{n}") for n in (0, 1001)),
        *(
            (dirichlet, LABELS, {"beta": beta, "min_size": 1}, f"{BETA}{beta}")
            for beta in (0.0, 0.009, 1.1e6, float("nan"), float("inf"))
        ),
        *(
            (dirichlet, LABELS, {"beta": 1.0, "min_size": n}, f"{SIZE}{n}")
            for n in (0, 101)
        ),
        (
            dirichlet,
            LABELS,
            {"beta": 0.01, "min_size": 90},
            "beta 0.01 left a client with fewer than 90 examples in each of "
            f"{MAX_DRAWS} draws over 10 clients; raise it or lower min_size",
        ),
        (
            by_writer,
            WRITERS,
            {"n_clients": 5},
            "n_clients must be in 1..4 (writers), got 5",
        ),
        (
            by_writer,
            WRITERS,
            {"n_clients": 3, "min_size": 3},
            "n_clients must be at most 2 (clients of whole writers with at least 3 "
            "examples), got 3; lower min_size",
        ),
        (
            by_writer,
            WRITERS,
            {"n_clients": 1, "writers_per_client": 0},
            "writers_per_client must be in 1..4 (writers), got 0",
        ),
        (
            by_writer,
            WRITERS,
            {"n_clients": 1, "min_size": 5, "max_size": 4},
            "max_size must be at least 5 (min_size), got 4",
        ),
        *(
            (pathological, LABELS, {"classes_per_client": n}, f"{CLASSES}{n}")
            for n in (0, 11)
        ),
        (
            pathological,
            np.array([4, 4, 4, 6], dtype=np.int64),
            {"n_clients": 3, "classes_per_client": 2},
            "class 6 has 1 example but 3 clients; lower n_clients or "
            "classes_per_client",
        ),
    ],
)
def test_settings_out_of_range_are_refused(
    split: Callable[..., list[NDArray[np.int64]]],
    of: NDArray[Any],
    settings: dict[str, float],
    text: str,
) -> None:
    with refuses(text):
        split(of, **({"n_clients": 10} | settings), seed=SEED)


def test_number_of_clients_must_be_whole() -> None:
    with refuses("n_clients must be a whole number, got 2.5", TypeError):
        iid(LABELS, 2.5, seed=SEED)  # type: ignore[arg-type] # what is refused


@pytest.mark.parametrize(
    ("values", "got"),
    [
        (np.zeros((4, 2), np.int64), "int64 of shape (4, 2)"),
        (np.zeros(4), "float64 of shape (4,)"),
    ],
)
@pytest.mark.parametrize(
    ("split", "name"),
    [
        (partial(dirichlet, beta=1.0), "labels"),
        (partial(pathological, classes_per_client=1), "labels"),
        (by_writer, "writers"),
    ],
)
def test_what_is_no_vector_of_classes_is_refused(
    split: Callable[..., Any], name: str, values: NDArray[Any], got: str
) -> None:
    with refuses(f"{name} must be a vector of whole numbers or names, got {got}"):
        split(values, 2, seed=SEED)


@pytest.mark.parametrize("kind", [list, torch.tensor, np.uint8])
def test_labels_may_be_of_any_kind(kind: Callable[..., Any]) -> None:
    given = dirichlet(kind(LABELS), 4, beta=0.5, seed=SEED)
    assert as_lists(given) == as_lists(dirichlet(LABELS, 4, beta=0.5, seed=SEED))


def test_names_are_as_good_as_numbers() -> None:
    named = pathological(LABELS.astype(str), 4, classes_per_client=2, seed=SEED)
    numbered = pathological(LABELS, 4, classes_per_client=2, seed=SEED)
    assert as_lists(named) == as_lists(numbered)
