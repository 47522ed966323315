"""How results are shown: for people through a console, for programs as JSON."""

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console


def open_console() -> Console:
    """Return a console on standard output: plain text unless that is a terminal.

    Whoever reads a pipe has no width; lines are then as long as they need to be.
    """
    width = None if sys.stdout.isatty() else 200
    return Console(
        width=width, highlight=False, markup=False, emoji=False, soft_wrap=True
    )


def write_json(document: Mapping[str, Any]) -> None:
    """Write one JSON document to standard output, and nothing else."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def as_mib(n_bytes: float) -> str:
    """Return bytes as text in MiB (2^20 bytes), four digits or all whole ones."""
    mib = n_bytes / 2**20
    n_decimals = max(0, 3 - math.floor(math.log10(mib))) if mib > 0.0 else 0
    return f"{mib:,.{n_decimals}f} MiB"


def as_percent(share: float) -> str:
    """Return a share of 1 as text in percent, three digits that matter."""
    return f"{100.0 * share:.3g} %"
