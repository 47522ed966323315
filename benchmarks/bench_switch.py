"""Packets a second that one core takes through the switch, beside a memcpy of them.

    python -m benchmarks.bench_switch

Votes are full packets with threshold 3, levels full packets of 8-bit lanes, from four
clients in windows as the protocol has them. With tags, every packet's is checked and
every answer's is made, as whoever reads packets off a network must.

"From buffers" is the pipeline alone: all packets of a window are in buffers that the
next window is then written to, as a loop has them that receives from a socket, and so
in the processor's caches; writing them is not timed. "From memory" has all 58 MB of an
exchange's packets in memory before the first is taken, as those of `fediac.aggregate`
would be at worst. The memcpy is of the same packets, to buffers that are used again or
to as much memory. Rates are of the thread's time on the processor, the best of several
runs after one that is thrown away; ratios differ less than rates.
"""

from collections.abc import Callable, Iterable, Iterator
from time import thread_time_ns

import numpy as np
import numpy.typing as npt

from fediac import native
from fediac.switch import Room, Switch
from fediac.switch.job import Job
from fediac.transports.batches import Batches, Rows, bytes_of, lengths_of
from fediac.transports.packets import Pieces
from fediac.wire.header import Kind
from fediac.wire.tag import check_tags, session_key, tag_packets

N_CLIENTS, N_PACKETS, N_RUNS = 4, 10_000, 15
THRESHOLD, LANE_BITS = 3, 8
KEY = session_key(b"sixteen bytes...", 1)

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int32]
Work = Callable[[Bytes, Lengths], object]
Windows = Callable[[list[Rows], int], Iterable[tuple[Bytes, Lengths]]]
"""From the packets and the number of an exchange: its windows, one after the other."""


def make_packets(job: Job, kind: Kind) -> list[Rows]:
    """Return the packets of an exchange, a window of all clients at a time."""
    is_tally, payload_bytes = kind == Kind.TALLY, job.layout.payload_bytes
    bits, threshold = (1, THRESHOLD) if is_tally else (LANE_BITS, 1)
    window = job.layout.n_slots(kind, threshold) // 2
    n_bytes = N_PACKETS // window * window * payload_bytes
    layout = Pieces(8 * n_bytes // bits, bits, payload_bytes)
    rng = np.random.default_rng(1)
    # The lanes of four clients add up without a carry.
    packed = {i: rng.integers(0, 64, n_bytes, np.uint8) for i in range(N_CLIENTS)}
    maker = Batches({"kind": int(kind), "session": job.session}, payload_bytes)
    batches = [maker.pieces(packed, layout, span) for span in layout.windows(window)]
    for each in batches:
        if is_tally:
            each["header"]["threshold_or_count"] = THRESHOLD
        else:
            each["header"]["bits_up"] = each["header"]["bits"] = LANE_BITS
    return batches


def from_buffers(batches: list[Rows], exchange: int) -> Iterator[tuple[Bytes, Lengths]]:
    """Yield the windows of an exchange, all in the memory of the first."""
    buffer = batches[0].copy()
    for each in batches:
        buffer[:] = each
        yield _seal(buffer, exchange)


def from_memory(batches: list[Rows], exchange: int) -> list[tuple[Bytes, Lengths]]:
    """Return the windows of an exchange, each in memory of its own."""
    return [_seal(each, exchange) for each in batches]


def _seal(batch: Rows, exchange: int) -> tuple[Bytes, Lengths]:
    """Return packets of an exchange with their tags."""
    batch["header"]["exchange"] = exchange
    rows, lengths = bytes_of(batch), lengths_of(batch)
    tag_packets(rows, lengths, KEY)
    return rows, lengths


def rate_of(work: Work, windows: Windows, batches: list[Rows]) -> float:
    """Return the packets a second of the best run; each is an exchange of its own."""
    best_ns = 0
    for exchange in range(N_RUNS + 1):
        ns = 0
        for rows, lengths in windows(batches, exchange):
            start_ns = thread_time_ns()
            work(rows, lengths)
            ns += thread_time_ns() - start_ns
        if exchange:
            best_ns = min(best_ns or ns, ns)
    return 1e9 * sum(len(each) for each in batches) / best_ns


def processing(switch: Switch) -> Work:
    """Return what a switch does with packets."""
    room = Room()
    return lambda rows, lengths: switch.process(rows, lengths, out=room)


def with_tags(switch: Switch) -> Work:
    """Return the same for packets whose tags are checked, and answers that get them."""
    room = Room()

    def work(rows: Bytes, lengths: Lengths) -> None:
        if not check_tags(rows, lengths, KEY).all():
            raise SystemExit("a tag was wrong")
        answers = switch.process(rows, lengths, out=room)
        tag_packets(answers.packets, answers.lengths, KEY)

    return work


def copying(batches: list[Rows], *, is_memory: bool) -> Work:
    """Return a copy of packets, to one buffer or to memory for all."""
    n_targets = len(batches) if is_memory else 1
    targets = [np.empty_like(bytes_of(each)) for each in batches[:n_targets]]
    turns = 0

    def work(rows: Bytes, _: Lengths) -> None:
        nonlocal turns
        np.copyto(targets[turns % n_targets], rows)
        turns += 1

    return work


def rates_of(kind: Kind, windows: Windows) -> list[float]:
    """Return the rates of a switch without and with tags, and of a memcpy."""
    rates = []
    for make in (processing, with_tags):
        switch = Switch()
        batches = make_packets(switch.open(N_CLIENTS), kind)
        rates.append(rate_of(make(switch), windows, batches))
        if switch.counters.drops:
            raise SystemExit(f"packets were dropped: {switch.counters.drops}")
    copy = copying(batches, is_memory=windows is from_memory)
    return [*rates, rate_of(copy, windows, batches)]


def main() -> None:
    """Print a line for each kind of packet and where packets are."""
    print(f"{'':24}{'switch':>10}{'with tags':>12}{'memcpy':>12}   packets a second")
    places = {"from buffers": from_buffers, "from memory": from_memory}
    with native.single_thread():
        for place, windows in places.items():
            for name, kind in (("votes", Kind.TALLY), ("levels", Kind.SUM)):
                rates = rates_of(kind, windows)
                shown = "".join(f"{rate / 1e6:10.2f} M" for rate in rates)
                ratios = ", ".join(f"{rates[2] / rate:.1f}" for rate in rates[:2])
                print(f"{name + ' ' + place:22}{shown}   ({ratios} x a memcpy)")


if __name__ == "__main__":
    main()
