"""``fediac theory``: what the paper's formulas predict for given numbers."""

from dataclasses import asdict, dataclass

from rich.table import Table

from fediac.console import (
    count,
    open_console,
    write_json,
)
from fediac.core.bounds import (
    MAX_BITS,
    Setting,
    expected_chosen,
    gamma,
    min_bits,
    register_fills,
    smallest_bits,
)
from fediac.core.ledger import MIB
from fediac.core.tuning import round_payload_bytes
from fediac.errors import ArgumentError
from fediac.number_words import mib, rough_percent


@dataclass(frozen=True, slots=True)
class Theory:
    """Settings, and what the theory predicts for them.

    Attributes:
        expected_chosen: Entries the clients agree on in a round, on average.
        expected_share: The same as a share of ``dim``.
        min_bits: What ``bits`` must exceed, a real number.
        bits: The width used: as given, or the smallest integer above the bound.
        gamma: Relative squared error of the compression with ``bits``.
        payload_bytes: What all clients send and receive in a round, without headers.
        dense_register_fills: How often a switch with 1 MB would fill its registers
            in a round without compression, 4 bytes a value.
    """

    dim: int
    n_clients: int
    n_votes: int
    threshold: int
    alpha: float
    phi: float
    peak: float
    expected_chosen: float
    expected_share: float
    min_bits: float
    bits: int
    gamma: float
    payload_bytes: float
    dense_register_fills: int


def predict(
    setting: Setting,
    *,
    phi: float = 1.0,
    peak: float | None = None,
    bits: int | None = None,
) -> Theory:
    """Return the theory's predictions.

    Args:
        setting: Sizes, votes, threshold and decay.
        phi: The law's magnitude at rank 1.
        peak: The largest magnitude; None: φ, as the law has it.
        bits: The width; None: the smallest above the bound.
    """
    peak = phi if peak is None else peak
    least = smallest_bits(setting, phi=phi, peak=peak)
    if bits is None and least > MAX_BITS:
        raise ArgumentError(
            "peak",
            f"must be smaller relative to phi ({phi:g}): no width of up to {MAX_BITS} "
            f"bits is enough, got {peak:g}",
        )
    bits = least if bits is None else bits
    n_chosen = expected_chosen(setting)
    return Theory(
        dim=setting.dim,
        n_clients=setting.n_clients,
        n_votes=setting.n_votes,
        threshold=setting.threshold,
        alpha=setting.alpha,
        phi=phi,
        peak=peak,
        expected_chosen=n_chosen,
        expected_share=n_chosen / setting.dim,
        min_bits=min_bits(setting, phi=phi, peak=peak),
        bits=bits,
        gamma=gamma(setting, phi=phi, peak=peak, bits=bits),
        payload_bytes=round_payload_bytes(
            dim=setting.dim, n_clients=setting.n_clients, bits=bits, n_chosen=n_chosen
        ),
        dense_register_fills=register_fills(setting.dim),
    )


def show_theory(theory: Theory, *, as_json: bool) -> None:
    """Write the predictions to standard output, as JSON or in words."""
    if as_json:
        write_json(asdict(theory))
        return
    console = open_console()
    console.print(
        f"Each of {count(theory.n_clients, 'client')} votes for {theory.n_votes:,} of "
        f"{theory.dim:,} entries; an entry is sent if it gets "
        f"{count(theory.threshold, 'vote')} or more."
    )
    console.print(
        f"The magnitude of rank l is {theory.phi:g} * l^{theory.alpha:g}, "
        f"the largest is {theory.peak:g}."
    )
    console.print()
    console.print(_table(theory))
    if theory.gamma >= 1.0:
        console.print()
        console.print(
            "With these settings training does not converge: "
            f"bits must be above {theory.min_bits:.2f}."
        )


def _table(theory: Theory) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in ("left", "right"):
        table.add_column(justify=justify, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(
        "expected_chosen",
        f"{theory.expected_chosen:,.0f}",
        f"entries sent, {rough_percent(theory.expected_share)} of all",
    )
    table.add_row("min_bits", f"{theory.min_bits:.2f}", "bits must be above this")
    table.add_row("bits", f"{theory.bits}", "width of the sums, used for the rest")
    table.add_row("gamma", f"{theory.gamma:.4g}", "squared error; must be below 1")
    table.add_row(
        "payload", mib(theory.payload_bytes / MIB), "a round, all clients, up and down"
    )
    table.add_row(
        "register fills",
        f"{theory.dense_register_fills:,}",
        "of 1 MB, if all entries were sent as 4 bytes",
    )
    return table
