"""Ledgers and networks for tests of the simulator."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from fediac.core.ledger import Ledger, Row
from fediac.sim import RoundTiming

Blocks = Sequence[Sequence[int]]


def exchange(
    kind: str,
    n_items: int,
    bits: int,
    *,
    n_clients: int,
    n_down: int | None = None,
    step: int = 0,
    phase: str | None = None,
    bits_up: int | None = None,
) -> list[Row]:
    """Rows of an exchange in which all clients send the same number of items.

    With ``bits_up`` it is a sum whose lanes are narrower on their way up.
    """
    widths = None if bits_up is None else (bits_up, bits)
    directions: tuple[Literal["up", "down"], ...] = ("up", "down")
    return [
        Row(
            round_number=1,
            client=client,
            phase=phase or kind,
            kind=kind,
            direction=direction,
            destination="server" if kind == "serversum" else "switch",
            n_items=n_items if direction == "up" or n_down is None else n_down,
            bits_per_item=bits_up or bits if direction == "up" else bits,
            widths=widths,
            step=step,
        )
        for direction in directions
        for client in range(n_clients)
    ]


def packets(
    n_packets: int, *, n_clients: int = 1, kind: str = "sum", step: int = 0
) -> list[Row]:
    """Rows of an aligned exchange of full packets: 1,500 bytes of 12-bit levels."""
    return exchange(kind, 1000 * n_packets, 12, n_clients=n_clients, step=step)


def block_sum(blocks: Blocks, *, step: int = 0) -> list[Row]:
    """Rows of a block sum, as a transport bills it."""
    union = np.unique(np.concatenate([np.array(each, np.int64) for each in blocks]))
    n_bare = int(not len(union) or int(union[0]) > 0)
    up = [
        Row(1, i, "blocks", "blocksum", "up", "switch", 360 * len(each), 32,
            blocks=np.array(each, np.int64), n_bare=1, step=step)
        for i, each in enumerate(blocks)
    ]  # fmt: skip
    down = [
        Row(1, i, "blocks", "blocksum", "down", "switch", 360 * len(union), 32,
            blocks=union, n_bare=n_bare, step=step)
        for i in range(len(blocks))
    ]  # fmt: skip
    return up + down


def ledger(*rows: Sequence[Row]) -> Ledger:
    return Ledger(tuple(row for each in rows for row in each))


def contents(timing: RoundTiming) -> dict[str, Any]:
    """Everything in a timing, in a form that compares by value."""
    found = {
        field.name: getattr(timing, field.name) for field in dataclasses.fields(timing)
    }
    found["packets"] = None if timing.packets is None else timing.packets.tolist()
    series = timing.series
    found["series"] = (
        series.bin_s,
        series.waiting.tolist(),
        series.utilization.tolist(),
        series.open_slots.tolist(),
    )
    return found
