"""Output-up runs on cifar10-iid, and the tables of them."""

from collections.abc import Sequence

from rich.console import Console

from fediac.paper.tables import (
    Block,
    list_rows,
    list_tried,
    make_blocks,
    render_block,
)
from fediac.runs.stored import Run
from tests.unit.paper.made_up import make_run

UP = (0.3, 0.5, 0.64, 0.7)
"""Reaches cifar10-iid's 63 % in round 3."""

MISSED = [0.5] * 100
"""Has not reached it when its scenario gives up."""


def compared() -> list[Run]:
    return [
        make_run(UP, entrant="fediac", round_mib=100.0),
        make_run((0.2, *UP), entrant="fediac-tuned", round_mib=90.0),
        make_run(UP[1:], entrant="switchml", round_mib=500.0),
        make_run(MISSED, entrant="omnireduce", round_mib=1.0),
        make_run((0.9,), entrant="fediac-n20-a20", round_mib=1.0),
    ]


def blocks_of(runs: Sequence[Run], switch: str = "fast") -> list[Block]:
    return make_blocks(list_rows(runs, switch), list_tried(runs, switch))


def show(block: Block, *, width: int = 80) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(render_block(block))
    return capture.get()


def swept() -> list[Run]:
    return [
        *compared(),
        make_run(UP, entrant="fediac-topk-a4", round_mib=60.0),
        make_run(UP, entrant="fediac-topk-a5", round_mib=70.0),
        make_run(UP[:2], entrant="fediac-topk-a6", round_mib=1.0),
        make_run(UP, entrant="libra", round_mib=400.0),
        make_run(UP, entrant="libra-k0.1", round_mib=80.0),
        make_run(UP, entrant="switchml-bits12", round_mib=700.0),
        make_run(UP, entrant="libra-k0.1", round_mib=1.0, scenario="cifar10-noniid"),
    ]
