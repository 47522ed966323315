"""Exchange and answer -> ledger rows, the same for every transport."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fediac.core.exchange import (
    Answer,
    BlockSum,
    BlockTotals,
    Exchange,
    IndexedSum,
    IndexedTotals,
    Max,
    ServerSum,
    ServerTotals,
    Sum,
    Tally,
    Totals,
)
from fediac.core.ledger import Direction, Row
from fediac.core.types import Indices


@dataclass(frozen=True, slots=True)
class Bill:
    """What a row says about size: items, bits of an item, widths and block numbers."""

    n_items: int
    bits_per_item: int
    widths: tuple[int, int] | None = None
    blocks: Indices | None = None
    n_bare: int = 0


@dataclass(frozen=True, slots=True)
class _Travel:
    round_number: int
    step: int
    payload_bytes: int


def bill_exchange(
    requests: Mapping[int, Exchange],
    answer: Answer,
    *,
    round_number: int,
    step: int,
    payload_bytes: int,
) -> list[Row]:
    """Return the rows of one exchange: what each client sent, then what each got.

    Args:
        requests: What each client asked.
        answer: What all of them got.
        round_number: Which round it is.
        step: Which exchange of the round, counted from 0; those that travel together
            have the same number.
        payload_bytes: Room for items in the packets that carried it.
    """
    travel = _Travel(round_number, step, payload_bytes)
    uploads = [
        _row(exchange, _upload(exchange), "up", client, travel)
        for client, exchange in requests.items()
    ]
    downloads = [
        _row(exchange, _download(exchange, answer), "down", client, travel)
        for client, exchange in requests.items()
    ]
    return uploads + downloads


def _row(
    exchange: Exchange, bill: Bill, direction: Direction, client: int, travel: _Travel
) -> Row:
    return Row(
        round_number=travel.round_number,
        step=travel.step,
        client=client,
        phase=exchange.phase,
        kind=type(exchange).__name__.lower(),
        direction=direction,
        destination="server" if isinstance(exchange, ServerSum) else "switch",
        n_items=bill.n_items,
        bits_per_item=bill.bits_per_item,
        widths=bill.widths,
        blocks=bill.blocks,
        n_bare=bill.n_bare,
        payload_bytes=travel.payload_bytes,
    )


def _server_bits(asked: ServerSum) -> int:
    """Return the bits of a value, with its index if it has one."""
    bits: int = asked.values.dtype.itemsize * 8 if asked.bits is None else asked.bits
    return bits if asked.indices is None else bits + asked.index_bits


def _upload(exchange: Exchange) -> Bill:
    match exchange:
        case Tally():
            return Bill(exchange.dim, 1)
        case Max():
            return Bill(0, 32)
        case Sum():
            widths = exchange.bits_up, exchange.bits_down
            is_wider = exchange.bits_up < exchange.bits_down
            return Bill(exchange.n_levels, widths[0], widths if is_wider else None)
        case BlockSum():
            # Before its first block a client announces which one that is.
            n_blocks, length = exchange.levels.shape
            return Bill(n_blocks * length, 32, blocks=exchange.blocks, n_bare=1)
        case IndexedSum():
            n_items = exchange.indices.shape[0]
            return Bill(n_items, exchange.bits + exchange.index_bits)
        case ServerSum():
            return Bill(exchange.values.shape[0], _server_bits(exchange))


def _download(exchange: Exchange, answer: Answer) -> Bill:
    sent = _upload(exchange)
    match answer:
        case BlockTotals():
            n_blocks, length = answer.totals.shape
            # When no client has block 0, the switch first says where blocks begin.
            n_bare = int(not n_blocks or int(answer.blocks[0]) > 0)
            return Bill(n_blocks * length, 32, blocks=answer.blocks, n_bare=n_bare)
        case IndexedTotals():
            return replace(sent, n_items=answer.indices.shape[0])
        case ServerTotals():
            return replace(sent, n_items=answer.values.shape[0])
        case Totals():
            return replace(sent, bits_per_item=answer.bits)
        case _:
            return sent
