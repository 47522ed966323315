"""Whatever the labels and settings, a split hands out each example at most once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fediac.partition import by_writer, dirichlet, iid, pathological

seeds = st.integers(0, 2**64 - 1)
labels_of = st.lists(st.integers(0, 6), min_size=1, max_size=120).map(
    lambda values: np.array(values, dtype=np.int64)
)


def is_a_split(
    clients: list[NDArray[np.int64]], n_clients: int, n_examples: int
) -> bool:
    """Claims: as many clients as asked for, ascending, disjoint, inside the set."""
    rows = np.concatenate(clients)
    return (
        len(clients) == n_clients
        and all(each.dtype == np.int64 for each in clients)
        and all(bool(np.all(np.diff(each) > 0)) for each in clients)
        and len(np.unique(rows)) == len(rows)
        and bool(np.all((rows >= 0) & (rows < n_examples)))
    )


@settings(deadline=None)  # a busy machine is no bug
@given(labels_of, st.data(), seeds)
def test_iid_covers_all_in_equal_parts(
    labels: NDArray[np.int64], data: st.DataObject, seed: int
) -> None:
    n_clients = data.draw(st.integers(1, len(labels)))
    clients = iid(labels, n_clients, seed=seed)
    assert is_a_split(clients, n_clients, len(labels))
    sizes = [len(rows) for rows in clients]
    assert sum(sizes) == len(labels)
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None)  # a busy machine is no bug
@given(labels_of, st.data(), seeds)
def test_dirichlet_covers_all_and_serves_everybody(
    labels: NDArray[np.int64], data: st.DataObject, seed: int
) -> None:
    n_clients = data.draw(st.integers(1, min(len(labels), 12)))
    min_size = data.draw(st.integers(1, len(labels) // n_clients))
    beta = data.draw(st.sampled_from((0.01, 0.3, 1.0, 20.0, 1e6)))
    try:
        clients = dirichlet(labels, n_clients, beta=beta, min_size=min_size, seed=seed)
    except ValueError as error:
        if not str(error).endswith("raise it or lower min_size"):
            raise
        return
    assert is_a_split(clients, n_clients, len(labels))
    assert sum(len(rows) for rows in clients) == len(labels)
    assert min(len(rows) for rows in clients) >= min_size


@settings(deadline=None)  # a busy machine is no bug
@given(labels_of, st.data(), seeds)
def test_writers_stay_whole_within_the_limits(
    writers: NDArray[np.int64], data: st.DataObject, seed: int
) -> None:
    n_clients = data.draw(st.integers(1, len(np.unique(writers))))
    min_size = data.draw(st.integers(0, 40))
    max_size = data.draw(st.none() | st.integers(min_size, 60))
    try:
        clients = by_writer(
            writers.astype(np.int32),
            n_clients,
            min_size=min_size,
            max_size=max_size,
            seed=seed,
        )
    except ValueError as error:
        if not str(error).endswith("lower min_size"):
            raise
        return
    assert is_a_split(clients, n_clients, len(writers))
    owners = [set(writers[rows].tolist()) for rows in clients]
    assert sum(len(each) for each in owners) == len(set.union(*owners))
    for rows, each in zip(clients, owners, strict=True):
        assert len(rows) >= min_size
        whole = int(np.sum(np.isin(writers, list(each))))
        assert len(rows) == whole or len(rows) == max_size


@settings(deadline=None)  # a busy machine is no bug
@given(labels_of, st.data(), seeds)
def test_pathological_clients_have_their_classes_and_fair_parts(
    labels: NDArray[np.int64], data: st.DataObject, seed: int
) -> None:
    labels = np.concatenate([labels] * 9)  # enough of every class for all owners
    classes = np.unique(labels)
    n_clients = data.draw(st.integers(1, 9))
    hand = data.draw(st.integers(1, len(classes)))
    clients = pathological(labels, n_clients, classes_per_client=hand, seed=seed)
    assert is_a_split(clients, n_clients, len(labels))
    assert all(len(np.unique(labels[rows])) == hand for rows in clients)
    n_owners = [sum(number in labels[rows] for rows in clients) for number in classes]
    assert max(n_owners) - min(n_owners) <= 2
    if n_clients * hand >= len(classes):
        assert sum(len(rows) for rows in clients) == len(labels)
    for number in classes:
        parts = [int(np.sum(labels[rows] == number)) for rows in clients]
        owned = [size for size in parts if size]
        assert not owned or max(owned) - min(owned) <= 1
