"""Computation of clients in the middle of a round, and how long it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fediac.errors import ArgumentError
from fediac.sim.clock import MAX_PS, PS_PER_S, to_s
from fediac.sim.network import Network
from fediac.sim.packet_groups import Step


@dataclass(frozen=True, slots=True)
class Pause:
    """Computation before a client continues a round.

    Attributes:
        phase: It comes before the first exchange of this phase.
        shares: Client -> how long, as a share of its local training; others go on.
    """

    phase: str
    shares: Mapping[int, Fraction]

    def time_ps(self, client: int, network: Network) -> int:
        """Return how long a client computes, in whole picoseconds."""
        return int(self.shares.get(client, 0) * network.compute_ps(client))


def first_steps(plan: Sequence[Step]) -> dict[str, int]:
    """Return the number of the step in which each phase begins."""
    first: dict[str, int] = {}
    for number, step in enumerate(plan):
        for exchange in step.exchanges:
            first.setdefault(exchange.phase, number)
    return first


def check_pauses(
    pauses: Sequence[Pause], plan: Sequence[Step], network: Network
) -> None:
    """Check that pauses are in the round, and that computing ends before the clock.

    Raises:
        ValueError: A phase is not there, or some client computes for longer.
    """
    phases = first_steps(plan)
    for pause in pauses:
        if pause.phase not in phases:
            raise ArgumentError(
                "pauses",
                f"must come before a phase of the round ({', '.join(phases)}), "
                f"got {pause.phase!r}",
            )
    for client in range(network.n_clients):
        time_ps = network.compute_ps(client)
        time_ps += sum(pause.time_ps(client, network) for pause in pauses)
        if time_ps > MAX_PS:
            raise ArgumentError(
                "compute_s",
                f"must let client {client} compute at most "
                f"{MAX_PS // PS_PER_S} s in a round (the clock's end), "
                f"got {to_s(time_ps):.0f}",
            )
