"""The protocol on bad networks: everyone is counted once and gets every answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.transports.packets import hidden_max_places
from fediac.wire.header import Kind
from fediac.wire.packet import Packet
from tests.packets import (
    gia,
    index_width,
    indexed_totals,
    lanes,
    levels,
    pairs,
    peak,
    totals,
    votes,
)
from tests.planes import PLANES, data_plane
from tests.property.network import (
    Aligned,
    Asking,
    Blocks,
    Client,
    Indexed,
    Links,
    numbered,
    observe,
    run,
)

PAYLOAD_BYTES = 8
BLOCK_LENGTH = 2
MAX_THRESHOLD = 4
Answers = Mapping[int, Packet]


@dataclass(frozen=True)
class Question:
    """One exchange of all clients, and the right answer."""

    askings: Sequence[Asking]
    read: Callable[[Answers], object]
    expected: object


@dataclass(frozen=True)
class Setting:
    """What a question is made from."""

    job: Job
    exchange: int
    n_packets: int
    n_clients: int
    rng: np.random.Generator

    def aligned(
        self,
        kind: Kind,
        threshold: int,
        packets: list[list[Packet]],
        widths: tuple[int, int] | None = None,
        n_parts: Sequence[int] | None = None,
    ) -> Sequence[Asking]:
        n_slots = self.job.layout.n_slots(kind, threshold, widths)
        return [Aligned(numbered(each), n_slots, n_parts) for each in packets]


def ask_tally(setting: Setting) -> Question:
    """Random votes of 60 entries a packet; peaks and widths differ by client."""
    n_clients, rng = setting.n_clients, setting.rng
    threshold = int(rng.integers(1, min(n_clients, MAX_THRESHOLD) + 1))
    masks = rng.integers(0, 2, (n_clients, setting.n_packets, 60))
    packets = [
        [
            votes(
                setting.job,
                client,
                "".join(map(str, mask)),
                threshold=threshold,
                exchange=setting.exchange,
                peak=100 + client,
                bits=8 + client,
            )
            for mask in of_client
        ]
        for client, of_client in enumerate(masks)
    ]
    agreed = (masks.sum(axis=0) >= threshold).astype(int)
    return Question(
        setting.aligned(Kind.TALLY, threshold, packets),
        lambda answers: [
            (gia(each), each.aux, each.bits, each.count)
            for _, each in sorted(answers.items())
        ],
        [
            ("".join(map(str, mask)), 99 + n_clients, 7 + n_clients, n_clients)
            for mask in agreed
        ],
    )


def ask_sum(setting: Setting) -> Question:
    """Lanes of 12 bits, which straddle bytes."""
    n_clients = setting.n_clients
    limit = (1 << 12) // n_clients
    values = setting.rng.integers(0, limit, (n_clients, setting.n_packets, 5))
    packets = [
        [
            lanes(
                setting.job, client, each.tolist(), bits=12, exchange=setting.exchange
            )
            for each in of_client
        ]
        for client, of_client in enumerate(values)
    ]
    return Question(
        setting.aligned(Kind.SUM, 1, packets),
        lambda answers: [totals(each) for _, each in sorted(answers.items())],
        values.sum(axis=0).tolist(),
    )


def ask_wide_sum(setting: Setting) -> Question:
    """Lanes of 3 bits whose sums take 8: sixteen a packet, in two parts each.

    The last packet has five, which one part holds.
    """
    n_clients, lengths = setting.n_clients, [16] * (setting.n_packets - 1) + [5]
    values = [
        [setting.rng.integers(0, 8, length).tolist() for length in lengths]
        for _ in range(n_clients)
    ]
    packets = [
        [
            lanes(
                setting.job,
                client,
                each,
                bits=3,
                bits_down=8,
                exchange=setting.exchange,
            )
            for each in of_client
        ]
        for client, of_client in enumerate(values)
    ]
    sums = [sum(map(np.array, of_packet)) for of_packet in zip(*values, strict=True)]
    n_parts = [2] * (setting.n_packets - 1) + [1]
    return Question(
        setting.aligned(Kind.SUM, 1, packets, (3, 8), n_parts),
        lambda answers: [
            total for _, each in sorted(answers.items()) for total in totals(each)
        ],
        np.concatenate(sums).tolist(),
    )


def ask_max(setting: Setting) -> Question:
    # Bits of finite, non-negative floats.
    values = setting.rng.integers(0, 0x7F800000, setting.n_clients).tolist()
    packets = [
        [peak(setting.job, client, value, exchange=setting.exchange)]
        for client, value in enumerate(values)
    ]
    return Question(
        setting.aligned(Kind.MAX, 1, packets),
        lambda answers: [each.aux for each in answers.values()],
        [max(values)],
    )


def ask_blocks(setting: Setting) -> Question:
    """Each client has some blocks; some have none, and some blocks nobody has."""
    rng, n_blocks = setting.rng, 3 * setting.n_packets
    share = rng.random(setting.n_clients) * rng.random()
    askings, expected = [], dict[int, list[int]]()
    for client in range(setting.n_clients):
        chosen = np.flatnonzero(rng.random(n_blocks) < share[client]).tolist()
        values = {i: rng.integers(-9, 10, BLOCK_LENGTH).tolist() for i in chosen}
        for number, added in values.items():
            old = expected.get(number, [0] * BLOCK_LENGTH)
            expected[number] = [a + b for a, b in zip(old, added, strict=True)]
        askings.append(Blocks(setting.job, client, values, n_blocks, setting.exchange))
    return Question(
        askings,
        lambda answers: {
            i: levels(each) for i, each in answers.items() if each.n_items
        },
        expected,
    )


def ask_indexed(setting: Setting) -> Question:
    """One pair a packet, some addresses from several clients."""
    size, expected = 2 * setting.n_packets, dict[int, int]()
    is_narrow = bool(setting.rng.integers(2))
    width = index_width(size, is_narrow=is_narrow) + (8 if is_narrow else 32)
    n_ranges = -(-size // (8 * PAYLOAD_BYTES // width))
    askings = []
    for client in range(setting.n_clients):
        indices = setting.rng.choice(size, setting.n_packets, replace=False).tolist()
        packets = numbered(
            [
                pairs(
                    setting.job,
                    client,
                    {index: client + 1},
                    size=size,
                    exchange=setting.exchange,
                    bits=8 if is_narrow else 32,
                    is_narrow=is_narrow,
                    is_last=place == len(indices) - 1,
                )
                for place, index in enumerate(indices)
            ]
        )
        for index in indices:
            expected[index] = expected.get(index, 0) + client + 1
        askings.append(Indexed(packets, n_ranges))
    return Question(askings, lambda answers: indexed_totals(answers.values()), expected)


ASK = {
    "tally": ask_tally,
    "sum": ask_sum,
    "wide sum": ask_wide_sum,
    "max": ask_max,
    "blocks": ask_blocks,
    "indexed": ask_indexed,
}
KINDS = {
    "tally": Kind.TALLY,
    "sum": Kind.SUM,
    "wide sum": Kind.SUM,
    "max": Kind.MAX,
    "blocks": Kind.BLOCK_SUM,
    "indexed": Kind.INDEXED_SUM,
}


def with_hidden_max(names: Sequence[str]) -> list[str]:
    """Return the exchanges, and a maximum wherever there must be one."""
    places = hidden_max_places([KINDS[name] for name in names])
    hidden = [["max"] * (place in places) for place in range(len(names))]
    both = zip(hidden, names, strict=True)
    return [each for before, name in both for each in (*before, name)]


@dataclass(frozen=True)
class Case:
    """Clients, observers, slots and a network."""

    n_clients: int
    n_slots: int
    links: Links
    seed: int
    n_observers: int = 0
    keeps_early: bool = False


cases = st.builds(
    Case,
    n_clients=st.integers(1, 5),
    n_slots=st.integers(2, 6),
    links=st.builds(
        Links,
        loss=st.floats(0, 0.4),
        duplication=st.floats(0, 0.4),
        max_delay=st.integers(1, 10),
    ),
    seed=st.integers(0, 2**32 - 1),
    n_observers=st.integers(0, 2),
    keeps_early=st.booleans(),
)


@dataclass(frozen=True)
class Session:
    """Clients and observers of a switch, and what they ask."""

    switch: Switch
    job: Job
    questions: Sequence[Question]
    watching: Mapping[int, Sequence[Asking]]
    clients: Mapping[int, Client]


def begin(names: Sequence[str], case: Case) -> Session:
    """Return a session in which all clients ask these exchanges in turn."""
    # Slots of a tally with three planes, the longest of all.
    half_bytes = case.n_slots * (24 + 8 + 3 * PAYLOAD_BYTES)
    # Words for what early blocks name, so that there are as many slots of blocks, too.
    half_bytes += case.keeps_early * case.n_slots * 4 * (case.n_clients + 3)
    switch = Switch(1 << 16, payload_bytes=PAYLOAD_BYTES)
    job = switch.open(
        case.n_clients,
        n_observers=case.n_observers,
        register_bytes=128 + 2 * half_bytes,
        keeps_early=case.keeps_early,
    )
    rng = np.random.default_rng(case.seed)
    questions = [
        ASK[name](
            Setting(
                job, place, int(rng.integers(1, 4 * case.n_slots)), case.n_clients, rng
            )
        )
        for place, name in enumerate(names)
    ]
    clients = {
        client: Client([question.askings[client] for question in questions])
        for client in range(case.n_clients)
    }
    watching = {
        client: [observe(question.askings[0], client) for question in questions]
        for client in range(case.n_clients, case.n_clients + case.n_observers)
    }
    clients |= {client: Client(askings) for client, askings in watching.items()}
    return Session(switch, job, questions, watching, clients)


def check(names: Sequence[str], case: Case) -> None:
    """Let clients ask in turn; compare what each of them was told."""
    session = begin(names, case)
    switch, questions = session.switch, session.questions
    assert run(switch, session.clients, case.links, case.seed) is not None
    for question in questions:
        for asking in question.askings:
            assert question.read(asking.answers) == question.expected
    for askings in session.watching.values():
        for question, asking in zip(questions, askings, strict=True):
            assert question.read(asking.answers) == question.expected
    assert switch.counters.register_bytes <= session.job.layout.register_bytes


@pytest.mark.parametrize("plane", PLANES)
@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(
        st.sampled_from(["tally", "sum", "wide sum", "max", "blocks"]),
        min_size=1,
        max_size=5,
    ),
    case=cases,
)
def test_any_sequence_of_streamed_exchanges_survives_a_bad_network(
    plane: str, names: list[str], case: Case
) -> None:
    with data_plane(plane):
        check(names, case)


@pytest.mark.parametrize("plane", PLANES)
@settings(max_examples=15, deadline=None)
@given(case=cases)
def test_two_rounds_with_statistics_survive_a_bad_network(
    plane: str, case: Case
) -> None:
    with data_plane(plane):
        check(2 * ["tally", "wide sum", "max", "sum"], case)


@pytest.mark.parametrize("plane", PLANES)
@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(st.sampled_from([*ASK, "indexed"]), min_size=1, max_size=4),
    case=cases,
)
def test_with_hidden_maxima_indexed_sums_may_stand_anywhere(
    plane: str, names: list[str], case: Case
) -> None:
    with data_plane(plane):
        check(with_hidden_max(names), case)


def ends(names: Sequence[str], case: Case) -> bool:
    """Return whether all clients get all answers in 4,000 ticks."""
    session = begin(names, case)
    ticks = run(session.switch, session.clients, case.links, case.seed, max_ticks=4000)
    return ticks is not None


@pytest.mark.parametrize(
    "names", [["sum", "indexed"], ["indexed", "sum"], ["indexed", "indexed"]]
)
def test_without_them_a_client_waits_for_ever(names: list[str]) -> None:
    links = Links(loss=0.4, duplication=0.0, max_delay=5)
    hidden = with_hidden_max(names)
    cases = [Case(n_clients=3, n_slots=2, links=links, seed=i) for i in range(10)]
    assert not all(ends(names, case) for case in cases)
    assert all(ends(hidden, case) for case in cases)


@pytest.mark.parametrize("plane", PLANES)
@settings(max_examples=15, deadline=None)
@given(case=cases)
def test_indexed_sums_between_peaks_survive_a_bad_network(
    plane: str, case: Case
) -> None:
    with data_plane(plane):
        check(["sum", "max", "indexed", "max", "indexed", "max", "blocks"], case)
