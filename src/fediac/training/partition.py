"""Before the first round: which examples each client trains on, and their hash.

A seed always gives the same partition; the hash tells whether two people have the same
one, given that their datasets have the same hash.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fediac import partition as splits
from fediac.errors import ArgumentError, ConfigError, hint_name, say_count
from fediac.training.datasets import Dataset

KINDS = ("iid", "dirichlet", "writer", "pathological", "client")
"""Kinds of partition, by their name in the settings."""

MIN_SIZES = {"iid": 1, "dirichlet": 50, "writer": 300, "pathological": 1, "client": 1}
"""Fewest examples of a client, by default.

One batch where chance decides; the paper's 300 to 400 images by writer (Sec. V).
"""

MAX_WRITER_SIZE = 400
"""Most examples of a client in the writer partition, by default."""


@dataclass(frozen=True, slots=True)
class ClientSummary:
    """One client's share: its examples, their classes, and examples per class."""

    size: int
    n_classes: int
    class_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """What a run stores of its partition; `dataclasses.asdict` makes it JSON.

    Attributes:
        n_examples: Examples to share.
        n_used: Examples that some client has.
    """

    name: str
    sha256: str
    n_clients: int
    n_examples: int
    n_used: int
    min_size: int
    max_size: int
    mean_size: float
    clients: tuple[ClientSummary, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Each client's examples.

    Attributes:
        name: The kind of split and its setting.
        clients: For every client the numbers of its training examples, ascending.
        class_counts: Examples of each client and class, (n_clients, n_classes).
        n_examples: Examples of the training set, used or not.
    """

    name: str
    clients: tuple[splits.Rows, ...]
    class_counts: NDArray[np.int64]
    n_examples: int

    @property
    def sha256(self) -> str:
        """The hash of all clients' sizes and example numbers, in hexadecimal.

        Hashed are the number of clients, then for each its size and its examples, as
        64-bit little-endian integers.
        """
        digest = hashlib.sha256(len(self.clients).to_bytes(8, "little"))
        for rows in self.clients:
            digest.update(len(rows).to_bytes(8, "little"))
            digest.update(rows.astype("<i8").tobytes())
        return digest.hexdigest()

    def summary(self) -> PartitionSummary:
        """Return sizes and class counts of all clients."""
        sizes = [len(rows) for rows in self.clients]
        clients = tuple(
            ClientSummary(size, sum(count > 0 for count in counts), tuple(counts))
            for size, counts in zip(sizes, self.class_counts.tolist(), strict=True)
        )
        return PartitionSummary(
            name=self.name,
            sha256=self.sha256,
            n_clients=len(sizes),
            n_examples=self.n_examples,
            n_used=sum(sizes),
            min_size=min(sizes),
            max_size=max(sizes),
            mean_size=sum(sizes) / len(sizes),
            clients=clients,
        )


def make_partition(  # noqa: PLR0913 - one parameter for each setting of a run
    dataset: Dataset,
    *,
    partition: str,
    n_clients: int,
    beta: float = 0.5,
    classes_per_client: int = 2,
    min_size: int | None = None,
    max_size: int | None = MAX_WRITER_SIZE,
    seed: int,
) -> Partition:
    """Return a partition of a dataset's training examples.

    Args:
        dataset: What to share out.
        partition: One of `KINDS`.
        n_clients: Clients to make.
        beta: For ``dirichlet``: how evenly the classes are shared.
        classes_per_client: For ``pathological``: how many classes a client has.
        min_size: Examples a client has at least; by default those of `MIN_SIZES`.
        max_size: For ``writer``: the most examples a client has; None: no limit.
        seed: The run's seed.

    Raises:
        ConfigError: There is no such partition.
        ArgumentError: A setting is out of range for this dataset, or the partition
            needs writers that are not known.
    """
    if partition not in KINDS:
        hint = hint_name(partition, KINDS)
        raise ConfigError(f"unknown partition {partition!r}{hint}")
    least = MIN_SIZES[partition] if min_size is None else min_size
    labels = dataset.train.labels
    name = partition
    if partition == "iid":
        clients = splits.iid(labels, n_clients, seed=seed)
    elif partition == "dirichlet":
        name = f"dirichlet(beta={beta:g})"
        clients = splits.dirichlet(
            labels, n_clients, beta=beta, min_size=least, seed=seed
        )
    elif partition == "pathological":
        name = f"pathological(classes_per_client={classes_per_client})"
        clients = splits.pathological(
            labels, n_clients, classes_per_client=classes_per_client, seed=seed
        )
    elif partition == "client":
        clients = _as_they_are(_writers(dataset, partition), n_clients)
    else:
        clients = splits.by_writer(
            _writers(dataset, partition),
            n_clients,
            min_size=least,
            max_size=max_size,
            seed=seed,
        )
    _check_sizes(clients, least, name)
    return count_classes(name, clients, labels, n_classes=dataset.n_classes)


def count_classes(
    name: str, clients: Sequence[splits.Rows], labels: NDArray[Any], *, n_classes: int
) -> Partition:
    """Return a split as a partition, with the examples of each client and class.

    Args:
        name: What the split is called.
        clients: For every client the numbers of its training examples.
        labels: One for every training example.
        n_classes: How many classes there are; 0 for targets that are no classes.
    """
    class_counts = np.zeros((len(clients), n_classes), dtype=np.int64)
    if n_classes:
        for counts, rows in zip(class_counts, clients, strict=True):
            counts[:] = np.bincount(labels[rows], minlength=n_classes)
    return Partition(name, tuple(clients), class_counts, len(labels))


def _writers(dataset: Dataset, partition: str) -> NDArray[np.int32]:
    if dataset.train.writers is None:
        raise ArgumentError(
            "partition",
            f"{partition!r} needs a dataset with {partition}s, {dataset.name} has "
            "none; take iid, dirichlet or pathological",
        )
    return dataset.train.writers


def _as_they_are(owners: NDArray[np.int32], n_clients: int) -> list[splits.Rows]:
    """Return one client for each that the data name, with all it has."""
    names = np.unique(owners)
    if len(names) != n_clients:
        raise ArgumentError(
            "n_clients",
            f"must be {len(names)} (those in the data) for partition 'client', "
            f"got {n_clients}",
        )
    return [np.flatnonzero(owners == name) for name in names]


def _check_sizes(clients: Sequence[splits.Rows], min_size: int, name: str) -> None:
    smallest = min(len(rows) for rows in clients)
    if smallest < min_size:
        raise ArgumentError(
            "min_size",
            f"must be at most {smallest} for {name} "
            f"over {say_count(len(clients), 'client')}, got {min_size}",
        )
