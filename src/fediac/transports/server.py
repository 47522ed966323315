"""The far parameter server behind the switch: unlimited memory, and floats."""

from collections.abc import Mapping

from array_api_compat import array_namespace, device

from fediac.core.chunks import chunks
from fediac.core.exact import divide
from fediac.core.exchange import ServerSum, ServerTotals
from fediac.core.types import Indices, Update


def serve(requests: Mapping[int, ServerSum]) -> ServerTotals:
    """Return the mean of what clients sent, added in the order of client numbers.

    Sums are taken in float64, a chunk of entries at a time.
    """
    asked = [requests[client] for client in sorted(requests)]
    if asked[0].indices is None:
        return ServerTotals(_dense_mean(asked), None)
    return _sparse_mean(asked)


def _dense_mean(asked: list[ServerSum]) -> Update:
    first = asked[0].values
    xp = array_namespace(first)
    mean = xp.empty_like(first)
    for start, stop in chunks(first.shape[0], first):
        total = xp.zeros(stop - start, dtype=xp.float64, device=device(first))
        for request in asked:
            total += xp.astype(request.values[start:stop], xp.float64)
        mean[start:stop] = xp.astype(divide(total, len(asked)), mean.dtype)
    return mean


def _sparse_mean(asked: list[ServerSum]) -> ServerTotals:
    first = asked[0].values
    xp = array_namespace(first)
    parts: list[tuple[Indices, Update]] = []
    places = [0] * len(asked)
    sent: list[tuple[Indices, Update]] = [(r.indices, r.values) for r in asked]
    stop_entry = max((int(each[-1]) + 1 for each, _ in sent if len(each)), default=0)
    for start, stop in chunks(stop_entry, first):
        total = xp.zeros(stop - start, dtype=xp.float64, device=device(first))
        is_sent = xp.zeros(stop - start, dtype=xp.bool, device=device(first))
        edge = xp.asarray([stop], dtype=xp.int64, device=device(first))
        for i, (entries, values) in enumerate(sent):
            end = int(xp.searchsorted(entries, edge)[0])
            inside = entries[places[i] : end] - start
            total[inside] += xp.astype(values[places[i] : end], xp.float64)
            is_sent[inside] = True
            places[i] = end
        union = xp.nonzero(is_sent)[0]
        mean = xp.astype(divide(total[union], len(asked)), first.dtype)
        parts.append((union + start, mean))
    if not parts:
        return ServerTotals(first[:0], sent[0][0][:0])
    indices = xp.concat([union for union, _ in parts])
    means = xp.concat([mean for _, mean in parts])
    return ServerTotals(means, xp.astype(indices, xp.int64))
