"""Before the first round: the ways to share a training set out among clients.

Labels (or writers) go in, or data with labels: a pair of inputs and labels, a data set
whose rows have them. An array of example numbers for each client comes out:

    clients = fediac.partition.dirichlet(labels, 20, beta=0.5, seed=1)
    first = images[clients[0]], labels[clients[0]]

Each example goes to at most one client, and a client's examples come in ascending
order: a split is a set of sets, and local training shuffles by itself. The same
arguments give the same split on every machine.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv

from fediac.core.integers import as_whole
from fediac.core.rng import Stream, to_unit
from fediac.errors import ArgumentError, say_count
from fediac.user_data import Data, read_labels

__all__ = ["by_writer", "dirichlet", "iid", "pathological"]

Rows = NDArray[np.int64]
"""Numbers of examples in the training set."""

MAX_DRAWS = 100
"""Draws of a Dirichlet split before it counts as impossible."""

# Below, all gamma variates of a class may underflow; above, every share is the same.
_MIN_BETA, _MAX_BETA = 0.01, 1e6


def iid(labels: Data, n_clients: int, *, seed: int) -> list[Rows]:
    """Return each client's examples: all, shuffled, in parts of one size.

    Every client sees the same mix of classes, as in McMahan et al.,
    "Communication-efficient learning of deep networks from decentralized data",
    AISTATS 2017. Sizes differ by at most one.

    Args:
        labels: Each example's class or any other target, or data with these; only
            their number counts here.
        n_clients: Clients to make.
        seed: Another seed shuffles anew.

    Raises:
        ValueError: There are more clients than examples, or none.
    """
    n_examples = len(read_labels(labels))
    n_clients = _check_clients(n_clients, n_examples)
    order = _shuffled(n_examples, _stream(seed))
    return _ascending(np.array_split(order, n_clients))


def dirichlet(
    labels: Data, n_clients: int, *, beta: float, min_size: int = 1, seed: int
) -> list[Rows]:
    """Return each client's examples, every class shared out by a Dirichlet(β) draw.

    As Li et al. describe it ("Model-contrastive federated learning", CVPR 2021): the
    smaller β, the fewer clients hold most of a class. All examples are shared out.

    Args:
        labels: Each example's class, as numbers or names, or data with these.
        n_clients: Clients to make.
        beta: The concentration: 0.1 is very uneven, 100 nearly even.
        min_size: Examples that each client has at least; until all do, all classes are
            drawn again.
        seed: Another seed draws and shuffles anew.

    Raises:
        ValueError: A setting is out of range, or no draw of ``MAX_DRAWS`` would do.
    """
    labels = _as_vector("labels", read_labels(labels))
    n_clients = _check_clients(n_clients, len(labels))
    require_beta(beta)
    if not 1 <= min_size <= len(labels) // n_clients:
        raise ArgumentError(
            "min_size",
            f"must be in 1..{len(labels) // n_clients} "
            f"({say_count(len(labels), 'example')}, "
            f"{say_count(n_clients, 'client')}), got {min_size}",
        )
    stream = _stream(seed)
    classes = _rows_of_classes(labels, stream)
    sizes = np.array([len(rows) for rows in classes])
    for draw in range(MAX_DRAWS):
        shares = draw_shares(
            len(classes), n_clients, beta=beta, draw=draw, stream=stream
        )
        ends = np.floor(np.cumsum(shares, axis=1) * sizes[:, None]).astype(np.int64)
        ends[:, -1] = sizes
        n_each: Rows = np.sum(np.diff(ends, axis=1, prepend=0), axis=0)
        if np.all(n_each >= min_size):
            return _gather(classes, ends, n_clients)
    raise ArgumentError(
        "beta",
        f"{beta} left a client with fewer than {min_size} examples in each of "
        f"{MAX_DRAWS} draws over {say_count(n_clients, 'client')}; raise it or lower "
        "min_size",
    )


def by_writer(
    writers: ArrayLike,
    n_clients: int,
    *,
    writers_per_client: int | None = None,
    min_size: int = 1,
    max_size: int | None = None,
    seed: int,
) -> list[Rows]:
    """Return clients of whole writers, or of at most ``max_size`` of their examples.

    People who write are natural clients, as in LEAF's FEMNIST (Caldas et al., "LEAF: a
    benchmark for federated settings", 2018). Writers are taken in the order of their
    numbers, ``writers_per_client`` at a time; the first ``n_clients`` such groups with
    at least ``min_size`` examples are the clients. Of a larger group ``max_size``
    examples are drawn.

    Args:
        writers: Each example's writer, as numbers or names.
        n_clients: Clients to make.
        writers_per_client: Writers a client; by default the fewest that will do.
        min_size: Examples a client has at least.
        max_size: Examples a client has at most; None: all of its writers'.
        seed: Another seed draws other examples of large groups.

    Raises:
        ValueError: A setting is out of range, or there are too few groups.
    """
    writers = _as_vector("writers", writers)
    if max_size is not None and max_size < min_size:
        raise ArgumentError(
            "max_size", f"must be at least {min_size} (min_size), got {max_size}"
        )
    numbers, places = np.unique(writers, return_inverse=True)
    n_clients = _check_clients(n_clients, len(numbers), of="writers")
    counts = np.bincount(places)
    n_writers = _group_size(counts, n_clients, writers_per_client, min_size)
    groups = _large_groups(counts, n_writers, min_size)[:n_clients]
    keep = _stream(seed).purpose("partition keep")
    keys = keep.words(0, len(writers), like=np.zeros(0))
    clients = []
    for group in groups:
        rows = np.flatnonzero(places // n_writers == group)
        clients.append(rows[np.argsort(keys[rows], kind="stable")][:max_size])
    return _ascending(clients)


def pathological(
    labels: Data, n_clients: int, *, classes_per_client: int, seed: int
) -> list[Rows]:
    """Return clients that have examples of exactly this many classes each.

    After the "pathological non-IID" split of McMahan et al. (AISTATS 2017), whose
    clients get two shards of the examples sorted by class. Here classes are dealt like
    cards, from one shuffled deck after the other, so that they have nearly the same
    number of owners; a class's examples are shared equally among its owners. Fewer
    hands than classes leave some classes out.

    Args:
        labels: Each example's class, as numbers or names, or data with these.
        n_clients: Clients to make.
        classes_per_client: Different classes each client has.
        seed: Another seed deals and shuffles anew.

    Raises:
        ValueError: A setting is out of range, or a class has too few examples.
    """
    labels = _as_vector("labels", read_labels(labels))
    n_clients = _check_clients(n_clients, len(labels))
    stream = _stream(seed)
    classes = _rows_of_classes(labels, stream)
    if not 1 <= classes_per_client <= len(classes):
        raise ArgumentError(
            "classes_per_client",
            f"must be in 1..{len(classes)} (classes), got {classes_per_client}",
        )
    hands = _deal(len(classes), n_clients, classes_per_client, stream)
    shares: list[list[Rows]] = [[] for _ in range(n_clients)]
    for number, rows in enumerate(classes):
        owners = [client for client, hand in enumerate(hands) if number in hand]
        if len(owners) > len(rows):
            raise ValueError(
                f"class {labels[rows[0]]} has {say_count(len(rows), 'example')} "
                f"but {len(owners)} clients; lower n_clients or classes_per_client"
            )
        for place, client in enumerate(owners):
            shares[client].append(rows[place :: len(owners)])
    return _ascending([np.concatenate(parts) for parts in shares])


def require_beta(beta: float) -> None:
    """Refuse a concentration that no Dirichlet draw here can have, NaN too."""
    if not _MIN_BETA <= beta <= _MAX_BETA:
        rule = f"must be in {_MIN_BETA:g}..{_MAX_BETA:g}, got {beta}"
        raise ArgumentError("beta", rule)


def draw_shares(
    n_classes: int, n_clients: int, *, beta: float, draw: int, stream: Stream
) -> NDArray[np.float64]:
    """Return the clients' shares of each class, (n_classes, n_clients); rows sum to 1.

    Independent Gamma(β) variates over their sum are Dirichlet(β). The gammas invert
    their distribution function at the stream's uniforms: one number each, so that no
    library's generator matters.

    Args:
        n_classes: Rows to draw.
        n_clients: Shares a row.
        beta: The concentration, the same for all clients.
        draw: Which draw this is; each has its own numbers.
        stream: A stream of the run's seed.
    """
    n_shares = n_classes * n_clients
    words = stream.purpose("partition shares").words(
        draw * n_shares, (draw + 1) * n_shares, like=np.zeros(0)
    )
    # The middle of each uniform's step: never 0, where a whole row could vanish.
    gammas = gammaincinv(beta, to_unit(words) + 2.0**-33).reshape(n_classes, n_clients)
    shares: NDArray[np.float64] = gammas / np.sum(gammas, axis=1, keepdims=True)
    return shares


def _group_size(
    counts: NDArray[np.intp], n_clients: int, given: int | None, min_size: int
) -> int:
    """Return how many writers make a client, as given or the fewest that suffice."""
    n_writers = len(counts)
    if given is not None and not 1 <= given <= n_writers:
        raise ArgumentError(
            "writers_per_client", f"must be in 1..{n_writers} (writers), got {given}"
        )
    sizes = range(1, n_writers + 1) if given is None else (given,)
    most = 0
    for size in sizes:
        n_groups = len(_large_groups(counts, size, min_size))
        if n_groups >= n_clients:
            return size
        most = max(most, n_groups)
    raise ArgumentError(
        "n_clients",
        f"must be at most {most} (clients of whole writers with at least "
        f"{say_count(min_size, 'example')}), got {n_clients}; lower min_size",
    )


def _large_groups(
    counts: NDArray[np.intp], n_writers: int, min_size: int
) -> NDArray[np.intp]:
    """Return which groups of ``n_writers`` writers have ``min_size`` examples."""
    whole = counts[: len(counts) // n_writers * n_writers]
    sizes: NDArray[np.intp] = np.sum(whole.reshape(-1, n_writers), axis=1)
    return np.flatnonzero(sizes >= min_size)


def _deal(
    n_cards: int, n_hands: int, hand_size: int, stream: Stream
) -> list[list[int]]:
    """Return hands of distinct cards from shuffled decks, opened one by one.

    A card that a hand already has waits for the next hand.
    """
    cards = stream.purpose("partition classes")
    deck: list[int] = []
    n_decks = 0
    hands = []
    for _ in range(n_hands):
        hand: list[int] = []
        while len(hand) < hand_size:
            free = [card for card in deck if card not in hand]
            if free:
                hand.append(free[0])
                deck.remove(free[0])
                continue
            start = n_decks * n_cards
            words = cards.words(start, start + n_cards, like=np.zeros(0))
            deck += np.argsort(words, kind="stable").tolist()
            n_decks += 1
        hands.append(hand)
    return hands


def _shuffled(n_rows: int, stream: Stream) -> Rows:
    """Return ``0..n_rows-1`` in random order: sorted by one random word each."""
    words = stream.purpose("partition shuffle").words(0, n_rows, like=np.zeros(0))
    return np.argsort(words, kind="stable").astype(np.int64)


def _rows_of_classes(labels: NDArray[Any], stream: Stream) -> list[Rows]:
    """Return the examples of every class that occurs, shuffled."""
    order = _shuffled(len(labels), stream)
    by_class = order[np.argsort(labels[order], kind="stable")]
    _, starts = np.unique(labels[by_class], return_index=True)
    return np.split(by_class, starts[1:])


def _gather(classes: list[Rows], ends: Rows, n_clients: int) -> list[Rows]:
    """Return each client's part of every class, the parts ending at ``ends``."""
    parts = [
        np.split(rows, cuts[:-1]) for rows, cuts in zip(classes, ends, strict=True)
    ]
    return _ascending(
        [
            np.concatenate([part[client] for part in parts])
            for client in range(n_clients)
        ]
    )


def _ascending(clients: list[Rows]) -> list[Rows]:
    return [np.sort(rows) for rows in clients]


def _stream(seed: int) -> Stream:
    return Stream(seed, round_number=0, client=0)


def _as_vector(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return whole numbers or names as a vector: floats and images are a mix-up."""
    vector = np.asarray(values)
    if vector.ndim != 1 or vector.dtype.kind not in "iubUS":
        raise ArgumentError(
            name,
            "must be a vector of whole numbers or names, "
            f"got {vector.dtype} of shape {vector.shape}",
        )
    return vector


def _check_clients(n_clients: int, most: int, *, of: str = "examples") -> int:
    n_clients = as_whole("n_clients", n_clients)
    if not 1 <= n_clients <= most:
        raise ArgumentError(
            "n_clients", f"must be in 1..{most} ({of}), got {n_clients}"
        )
    return n_clients
