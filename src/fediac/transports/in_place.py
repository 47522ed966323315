"""Residuals that a round overwrites, if it fails: nothing may be counted twice.

A round that works in place writes update + residual over the residual before it asks
anything. A second try after a failure would add the update again. To take it off again
is not exact in floats, and nothing else has the old residual any more.

A user's own algorithm may fail at any step, so its clients' residuals are copied first,
and put back. Those of this package have their arguments, updates and registers checked
before anything is written: a copy would cost every round a fifth of its time, and as
much memory as working in place saves, for the sake of an interrupt. What they leave
when they fail all the same is made NaN, which every round refuses.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from array_api_compat import array_namespace

from fediac.compressors.catalog import CATALOG
from fediac.compressors.protocol import Compressor, State
from fediac.core.types import Update
from fediac.transports.shared_memory import is_same_memory


@contextmanager
def left_alone_on_failure(
    compressor: Compressor,
    states: Sequence[State],
    buffers: Mapping[int, Update | None],
) -> Iterator[None]:
    """If the round inside fails, let residuals be what they were, or be refused.

    Args:
        compressor: Its algorithm.
        states: What clients have before it.
        buffers: Client that takes part -> where its next residual goes, if anywhere.
    """
    is_ours = type(compressor) in CATALOG.values()
    in_place = [
        buffer
        for client, buffer in buffers.items()
        if buffer is not None and is_same_memory(buffer, states[client].residual)
    ]
    if is_ours and not getattr(compressor, "residual", False):
        in_place = []  # it writes none
    saved = None
    if not is_ours:
        saved = [array_namespace(each).asarray(each, copy=True) for each in in_place]
    has_ended = False
    try:
        yield
        has_ended = True
    finally:
        for place, buffer in enumerate(() if has_ended else in_place):
            buffer[...] = float("nan") if saved is None else saved[place]
