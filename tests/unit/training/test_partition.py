import dataclasses
import json
from collections.abc import Callable

import numpy as np
import pytest

from fediac.errors import ConfigError
from fediac.training.datasets import Dataset, Examples, load_dataset
from fediac.training.partition import KINDS, Partition, make_partition
from tests.support import refuses


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
        facts = partition.summary()
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
            if kind != "client"  # has as many clients as the data
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
        text = (
            "partition 'writer' needs a dataset with writers, own has none; take iid, "
            "dirichlet or pathological"
        )
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
        facts = make([0, 3], [1]).summary()
        assert (facts.n_clients, facts.n_examples, facts.n_used) == (2, 9, 3)
        assert (facts.min_size, facts.max_size, facts.mean_size) == (1, 2, 1.5)
        assert [client.size for client in facts.clients] == [2, 1]
        assert [client.n_classes for client in facts.clients] == [1, 1]
        assert facts.clients[0].class_counts == (2, 0)

    def test_statistics_are_json(self, make: Callable[..., Partition]) -> None:
        document = json.loads(
            json.dumps(dataclasses.asdict(make([0, 3], [1]).summary()))
        )
        assert document["clients"][1] == {
            "size": 1,
            "n_classes": 1,
            "class_counts": [1, 0],
        }
