"""Packets a second that one core takes through the switch, beside a memcpy of them.

    python -m benchmarks.bench_switch

Votes are full packets with threshold 3, levels full packets of 8-bit lanes, from four
clients in windows as the protocol has them. With tags, every packet's is checked and
every answer's is made, as whoever reads packets off a network must. Rates are the best
of several runs, after one that is thrown away; ratios differ less than rates.
"""

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fediac import native
from fediac.switch import Switch
from fediac.transports.batches import Batches, Rows, bytes_of, lengths_of
from fediac.transports.packets import Pieces
from fediac.wire.header import Kind
from fediac.wire.tag import check_tags, session_key, tag_packets

N_CLIENTS, N_PACKETS, N_RUNS = 4, 10_000, 5
THRESHOLD, LANE_BITS = 3, 8
KEY = session_key(b"sixteen bytes...", 1)

Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]


def make_packets(switch: Switch, kind: Kind) -> list[Rows]:
    """Return the packets of an exchange, a window of all clients at a time."""
    job = switch.open(N_CLIENTS)
    is_tally = kind == Kind.TALLY
    bits, threshold = (1, THRESHOLD) if is_tally else (LANE_BITS, 1)
    n_bytes = N_PACKETS * switch.payload_bytes
    layout = Pieces(8 * n_bytes // bits, bits, switch.payload_bytes)
    rng = np.random.default_rng(1)
    # The lanes of four clients add up without a carry.
    packed = {i: rng.integers(0, 64, n_bytes, np.uint8) for i in range(N_CLIENTS)}
    maker = Batches({"kind": int(kind), "session": job.session}, switch.payload_bytes)
    window = job.layout.n_slots(kind, threshold) // 2
    batches = [maker.pieces(packed, layout, span) for span in layout.windows(window)]
    for each in batches:
        if is_tally:
            each["header"]["threshold_or_count"] = THRESHOLD
        else:
            each["header"]["bits_up"] = each["header"]["bits"] = LANE_BITS
    return batches


def rate_of(work: Callable[[list[Batch]], object], batches: list[Rows]) -> float:
    """Return the packets a second of the best run; each is an exchange of its own."""
    seconds = []
    for exchange in range(N_RUNS + 1):
        for each in batches:
            each["header"]["exchange"] = exchange
        ready = [(bytes_of(each), lengths_of(each)) for each in batches]
        for rows, lengths in ready:
            tag_packets(rows, lengths, KEY)
        start = time.perf_counter()
        work(ready)
        seconds.append(time.perf_counter() - start)
    return sum(len(each) for each in batches) / min(seconds[1:])


def run(switch: Switch, batches: list[Batch], *, is_tagged: bool) -> None:
    """Let a switch take packets; with tags, check theirs and make its answers'."""
    for rows, lengths in batches:
        if is_tagged and not check_tags(rows, lengths, KEY).all():
            raise SystemExit("a tag was wrong")
        answers = switch.process(rows, lengths)
        if is_tagged:
            tag_packets(answers.packets, answers.lengths, KEY)
    if switch.counters.drops:
        raise SystemExit(f"packets were dropped: {switch.counters.drops}")


def main() -> None:
    """Print a line for each kind of packet."""
    print(f"{'':8}{'switch':>14}{'with tags':>14}{'memcpy':>14}   packets a second")
    with native.single_thread():
        for name, kind in (("votes", Kind.TALLY), ("levels", Kind.SUM)):
            rates = []
            for is_tagged in (False, True):
                switch = Switch()
                batches = make_packets(switch, kind)

                def work(ready: list[Batch], switch: Switch = switch) -> None:
                    run(switch, ready, is_tagged=is_tagged)  # noqa: B023 - used at once

                rates.append(rate_of(work, batches))
            targets = [np.empty_like(bytes_of(each)) for each in batches]

            def copy(ready: list[Batch], to: list[Rows] = targets) -> None:
                for (rows, _), target in zip(ready, to, strict=True):
                    np.copyto(target, rows)

            rates.append(rate_of(copy, batches))
            shown = "".join(f"{rate / 1e6:12.2f} M" for rate in rates)
            ratios = ", ".join(f"{rates[2] / rate:.1f}" for rate in rates[:2])
            print(f"{name:8}{shown}   ({ratios} x a memcpy)")


if __name__ == "__main__":
    main()
