import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fediac.core.rng import Stream
from fediac.errors import ConfigError
from fediac.training.datasets import Dataset, Examples, load_dataset
from fediac.training.partition import (
    KINDS,
    Partition,
    make_partition,
    split_by_writer,
    split_dirichlet,
    split_iid,
    split_pathological,
)
from fediac.training.splits import MAX_DRAWS, Clients, draw_shares
from tests.support import refuses

STREAM = Stream(5, round_number=0, client=0)
LABELS = np.arange(1000, dtype=np.int64) % 10
# Writers 3, 5, 7, 9 with 2, 4, 3, 1 examples, mixed.
WRITERS = np.array([7, 5, 3, 5, 9, 7, 5, 3, 7, 5], dtype=np.int32)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits")


def dataset(n: int = 1000, *, writers: bool = True) -> Dataset:
    part = Examples(
        np.zeros((n, 1, 1, 1), np.uint8),
        np.arange(n, dtype=np.int64) % 10,
        np.arange(n, dtype=np.int32) // 100 if writers else None,
    )
    return Dataset("own", part, part, 10, (0.0,), (1.0,))


def as_lists(clients: Clients) -> list[list[int]]:
    return [rows.tolist() for rows in clients]


class TestIid:
    def test_sizes_differ_by_at_most_one(self) -> None:
        clients = split_iid(LABELS, 7, stream=STREAM)
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
        first = split_iid(LABELS, 2, stream=STREAM)[0]
        assert np.all(np.diff(first) > 0)
        # A client of neighbours would have none of the second half.
        assert np.any(first >= 500)


class TestDirichlet:
    def test_class_is_cut_at_its_cumulative_shares(self) -> None:
        clients = split_dirichlet(LABELS, 4, beta=0.5, min_size=1, stream=STREAM)
        shares = draw_shares(10, 4, beta=0.5, draw=0, stream=STREAM)
        for label in range(10):
            counts = [int(np.sum(LABELS[rows] == label)) for rows in clients]
            ends = np.floor(100 * np.cumsum(shares[label])[:-1])
            assert np.cumsum(counts)[:-1].tolist() == ends.tolist()

    def test_split_is_drawn_again_until_all_clients_have_enough(self) -> None:
        first = split_dirichlet(LABELS, 8, beta=0.3, min_size=1, stream=STREAM)
        smallest = min(len(rows) for rows in first)
        redrawn = split_dirichlet(
            LABELS, 8, beta=0.3, min_size=smallest + 1, stream=STREAM
        )
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
        clients = split_by_writer(WRITERS, 2, writers_per_client=2, stream=STREAM)
        assert as_lists(clients) == [[1, 2, 3, 6, 7, 9], [0, 4, 5, 8]]

    def test_writers_beyond_the_last_whole_client_stay_out(self) -> None:
        clients = split_by_writer(WRITERS, 1, writers_per_client=3, stream=STREAM)
        assert as_lists(clients) == [[0, 1, 2, 3, 5, 6, 7, 8, 9]]

    def test_client_is_the_fewest_writers_that_will_do(self) -> None:
        clients = split_by_writer(WRITERS, 2, min_size=3, stream=STREAM)
        assert as_lists(clients) == [[1, 3, 6, 9], [0, 5, 8]]
        clients = split_by_writer(WRITERS, 2, min_size=4, stream=STREAM)
        assert as_lists(clients) == [[1, 2, 3, 6, 7, 9], [0, 4, 5, 8]]

    def test_large_client_keeps_some_of_its_examples(self) -> None:
        kept = {
            tuple(
                split_by_writer(
                    WRITERS,
                    1,
                    writers_per_client=4,
                    max_size=3,
                    stream=Stream(seed, round_number=0, client=0),
                )[0].tolist()
            )
            for seed in range(20)
        }
        assert all(len(rows) == 3 for rows in kept)
        assert len(kept) > 1


class TestPathological:
    def test_every_client_has_its_number_of_classes(self) -> None:
        clients = split_pathological(LABELS, 7, classes_per_client=3, stream=STREAM)
        assert [len(set(LABELS[rows])) for rows in clients] == [3] * 7

    def test_class_is_shared_equally(self) -> None:
        clients = split_pathological(LABELS, 20, classes_per_client=2, stream=STREAM)
        assert [len(rows) for rows in clients] == [50] * 20

    def test_classes_that_nobody_was_dealt_stay_out(self) -> None:
        clients = split_pathological(LABELS, 2, classes_per_client=3, stream=STREAM)
        assert [len(rows) for rows in clients] == [300, 300]


EXAMPLES = "n_clients must be in 1..1000 (examples), got "
BETA = "beta must be in 0.01..1e+06, got "
SIZE = "min_size must be in 1..100 (1000 examples, 10 clients), got "
CLASSES = "classes_per_client must be in 1..10 (classes), got "


@pytest.mark.parametrize(
    ("split", "of", "settings", "text"),
    [
        *((split_iid, LABELS, {"n_clients": n}, f"{EXAMPLES}{n}") for n in (0, 1001)),
        *(
            (split_dirichlet, LABELS, {"beta": beta, "min_size": 1}, f"{BETA}{beta}")
            for beta in (0.0, 0.009, 1.1e6, float("nan"), float("inf"))
        ),
        *(
            (split_dirichlet, LABELS, {"beta": 1.0, "min_size": n}, f"{SIZE}{n}")
            for n in (0, 101)
        ),
        (
            split_dirichlet,
            LABELS,
            {"beta": 0.01, "min_size": 90},
            "beta 0.01 left a client with fewer than 90 examples in each of "
            f"{MAX_DRAWS} draws over 10 clients; raise it or lower min_size",
        ),
        (
            split_by_writer,
            WRITERS,
            {"n_clients": 5},
            "n_clients must be in 1..4 (writers), got 5",
        ),
        (
            split_by_writer,
            WRITERS,
            {"n_clients": 3, "min_size": 3},
            "n_clients must be at most 2 (clients of whole writers with at least 3 "
            "examples), got 3; lower min_size",
        ),
        (
            split_by_writer,
            WRITERS,
            {"n_clients": 1, "writers_per_client": 0},
            "writers_per_client must be in 1..4 (writers), got 0",
        ),
        (
            split_by_writer,
            WRITERS,
            {"n_clients": 1, "min_size": 5, "max_size": 4},
            "max_size must be at least 5 (min_size), got 4",
        ),
        *(
            (split_pathological, LABELS, {"classes_per_client": n}, f"{CLASSES}{n}")
            for n in (0, 11)
        ),
        (
            split_pathological,
            np.array([4, 4, 4, 6], dtype=np.int64),
            {"n_clients": 3, "classes_per_client": 2},
            "class 6 has 1 example but 3 clients; lower n_clients or "
            "classes_per_client",
        ),
    ],
)
def test_settings_out_of_range_are_refused(
    split: Callable[..., Clients],
    of: NDArray[Any],
    settings: dict[str, float],
    text: str,
) -> None:
    with refuses(text):
        split(of, **({"n_clients": 10} | settings), stream=STREAM)


class TestMakePartition:
    @pytest.mark.parametrize(
        ("kind", "sha256"),
        [
            (
                "iid",
                "15459284e901b02d22119225eeb1417b892299c061a17d893fe63a107f4ddc15",
            ),
            (
                "dirichlet",
                "6124662ca525a947a44cd1dbb77d8ce23e5d5c02e7be64992e18d419a085c7b6",
            ),
            (
                "writer",
                "04e1bd9fd37f004306868ed68d0b4e4c9ce25182e7f1f275c723a243818334c6",
            ),
            (
                "pathological",
                "a0a172825f5999976151afcecd7adbb869cbb64be253819579c9b83565ce6939",
            ),
        ],
    )
    def test_partition_of_the_digits_is_known(
        self, digits: Dataset, kind: str, sha256: str
    ) -> None:
        assert (
            make_partition(digits, partition=kind, n_clients=20, seed=1).sha256
            == sha256
        )

    def test_digits_give_twenty_clients_of_three_writers(self, digits: Dataset) -> None:
        partition = make_partition(digits, partition="writer", n_clients=20, seed=1)
        assert digits.train.writers is not None
        writers = [set(digits.train.writers[rows]) for rows in partition.clients]
        assert [len(each) for each in writers] == [3] * 20
        facts = partition.statistics()
        assert (facts.min_size, facts.max_size, facts.n_used) == (313, 365, 6_850)

    @pytest.mark.parametrize("kind", ["iid", "dirichlet", "pathological"])
    def test_another_seed_is_another_partition(self, kind: str) -> None:
        one, again, two = (
            make_partition(dataset(), partition=kind, n_clients=4, seed=seed)
            for seed in (1, 1, 2)
        )
        assert one.sha256 == again.sha256 != two.sha256

    def test_names_say_the_setting(self) -> None:
        made = [
            make_partition(dataset(), partition=kind, n_clients=2, seed=1, min_size=50)
            for kind in KINDS
        ]
        assert [partition.name for partition in made] == [
            "iid",
            "dirichlet(beta=0.5)",
            "writer",
            "pathological(classes_per_client=2)",
        ]

    def test_client_of_writers_is_limited_unless_told_otherwise(self) -> None:
        def sizes(max_size: int | None) -> list[int]:
            data = dataset(5000)
            writers = np.arange(5000, dtype=np.int32) // 500
            train = dataclasses.replace(data.train, writers=writers)
            data = dataclasses.replace(data, train=train)
            partition = make_partition(
                data, partition="writer", n_clients=2, max_size=max_size, seed=1
            )
            return [len(rows) for rows in partition.clients]

        assert sizes(400) == [400, 400]
        assert sizes(None) == [500, 500]

    def test_unknown_kind_is_told_the_nearest(self) -> None:
        text = "unknown partition 'dirchlet'; did you mean 'dirichlet'?"
        with refuses(text, ConfigError):
            make_partition(dataset(), partition="dirchlet", n_clients=2, seed=1)

    def test_writers_must_be_known(self) -> None:
        text = "partition 'writer' needs a dataset with writers, own has none"
        with refuses(text):
            make_partition(
                dataset(writers=False), partition="writer", n_clients=2, seed=1
            )

    @pytest.mark.parametrize(
        ("kind", "name"),
        [("iid", "iid"), ("pathological", "pathological(classes_per_client=2)")],
    )
    def test_size_that_a_split_cannot_reach_is_refused(
        self, kind: str, name: str
    ) -> None:
        text = f"min_size must be at most 100 for {name} over 10 clients, got 101"
        with refuses(text):
            make_partition(
                dataset(), partition=kind, n_clients=10, min_size=101, seed=1
            )


class TestPartition:
    @pytest.fixture
    def make(self) -> Callable[..., Partition]:
        def make(*clients: list[int]) -> Partition:
            rows = tuple(np.array(each, dtype=np.int64) for each in clients)
            counts = np.array([[len(each), 0] for each in clients], dtype=np.int64)
            return Partition("by hand", rows, counts, 9)

        return make

    def test_hash_tells_where_a_client_ends(
        self, make: Callable[..., Partition]
    ) -> None:
        assert make([1, 2], [3]).sha256 != make([1], [2, 3]).sha256

    def test_hash_is_of_little_endian_sizes_and_examples(
        self, make: Callable[..., Partition]
    ) -> None:
        # sha256 of the eight-byte integers 2, 2, 0, 3, 1, 1.
        assert make([0, 3], [1]).sha256 == (
            "e913a0c56eb73a40390642553abf68bafe23f4ff222e30ff5bb2a79f66722eee"
        )

    def test_statistics_count_examples_and_classes(
        self, make: Callable[..., Partition]
    ) -> None:
        facts = make([0, 3], [1]).statistics()
        assert (facts.n_clients, facts.n_examples, facts.n_used) == (2, 9, 3)
        assert (facts.min_size, facts.max_size, facts.mean_size) == (1, 2, 1.5)
        assert [client.size for client in facts.clients] == [2, 1]
        assert [client.n_classes for client in facts.clients] == [1, 1]
        assert facts.clients[0].class_counts == (2, 0)

    def test_statistics_are_json(self, make: Callable[..., Partition]) -> None:
        document = json.loads(
            json.dumps(dataclasses.asdict(make([0, 3], [1]).statistics()))
        )
        assert document["clients"][1] == {
            "size": 1,
            "n_classes": 1,
            "class_counts": [1, 0],
        }
