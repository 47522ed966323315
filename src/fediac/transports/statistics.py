"""Batch norm's running statistics: a dense sum beside the round, with its own peak.

They are few, and a vote on them would mean nothing: small changes matter as much.
"""

from collections.abc import Sequence

from fediac.compressors import FedAvg, SwitchML
from fediac.compressors.protocol import Compressor
from fediac.compressors.weighted import WEIGHTS_PHASE, weight_factors
from fediac.core.ledger import Ledger
from fediac.core.types import Update
from fediac.switch.pipeline import Switch
from fediac.transports.protocol import SwitchElsewhere
from fediac.transports.vectors import RoundResult, aggregate_vectors

STATISTICS_BITS = 24
"""Width of a lane for batch norm's statistics: close to float32, as they are few."""

STATISTICS_PHASE = "statistics"


def average_statistics(
    changes: Sequence[Update | None],
    *,
    sent: Ledger,
    switch: Switch | SwitchElsewhere | None,
    seed: int,
    round_number: int,
    phase: str = "",
) -> RoundResult:
    """Return the mean change of clients' statistics in a round.

    It goes where the round's values went: to the switch, or past it to the server.

    Args:
        changes: One vector a client, before − after; None for one that is absent.
        sent: What the round sent.
        switch: Where sums are made.
        seed: The run's seed.
        round_number: The round's.
        phase: That of the round, if it has one.
    """
    n_clients = sum(each is not None for each in changes)
    has_switch = any(
        row.destination == "switch" for row in sent.rows if row.phase != WEIGHTS_PHASE
    )
    compressor: Compressor = (
        SwitchML(n_clients, bits=STATISTICS_BITS, residual=False)
        if has_switch
        else FedAvg(n_clients)
    )
    return aggregate_vectors(
        changes,
        compressor,
        switch=switch,
        seed=seed,
        round_number=round_number,
        phase=f"{phase} {STATISTICS_PHASE}".strip(),
    )


def weigh(
    changes: Sequence[Update | None], weights: Sequence[int | None] | None
) -> Sequence[Update | None]:
    """Return changes times their clients' share of all weights and their number.

    Args:
        changes: One vector a client; None for one that is absent.
        weights: What the round has agreed on; None: clients count alike.
    """
    if weights is None:
        return changes
    present = {
        client: weight
        for client, (each, weight) in enumerate(zip(changes, weights, strict=True))
        if each is not None and weight is not None
    }
    factors = weight_factors(present)
    return [
        None if each is None else each * factors[client]
        for client, each in enumerate(changes)
    ]
