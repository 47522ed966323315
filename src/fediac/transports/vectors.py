"""One round, all clients in lockstep: vectors in, mean and residuals and bill out."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from array_api_compat import device, is_torch_array

from fediac import native
from fediac.compressors.forecast import check_dim, doubts_of
from fediac.compressors.protocol import Compressor, Facts, Outcome, State
from fediac.compressors.weighted import Weighted
from fediac.core.ledger import Ledger
from fediac.core.rng import Stream
from fediac.core.types import Update
from fediac.switch.counters import Counters
from fediac.switch.pipeline import Switch
from fediac.transports.argument_checks import (
    check_arguments,
    check_finite,
    check_kept,
    check_round,
    check_states,
    check_weights,
)
from fediac.transports.arrays import ArrayTransport
from fediac.transports.capacity import require_capacity
from fediac.transports.in_place import left_alone_on_failure
from fediac.transports.lockstep import run_lockstep
from fediac.transports.memory import MemoryTransport
from fediac.transports.protocol import (
    ClientRound,
    ClientsElsewhere,
    SessionTransport,
    SwitchElsewhere,
)

_Ran: TypeAlias = tuple[dict[int, Outcome], Update, Ledger, Counters]


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """The numbers of one round, over all clients that took part.

    Attributes:
        votes: Votes of all clients together, or entries that they picked.
        chosen: Entries one client sent: the size of the gia for FediAC, the mean over
            clients where they send different ones.
        gamma: Σ‖U − sent‖² / Σ‖U‖²; 0 when all updates are zero.
        aggregations: What the switch counted this round.
        register_bytes: The most register bytes in use at a time.
        clamped: Levels of all clients together that were cut to the limit.
    """

    votes: int
    chosen: int
    bits: int
    peak: float
    scale: float
    gamma: float
    aggregations: int
    register_bytes: int
    clamped: int


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of one round.

    Attributes:
        mean: The mean update, in the form that updates had; subtract it from the model.
        states: Every client's state for the next round.
        ledger: Who sent what to whom.
        facts: The round's numbers.
        client_facts: The same for each client; None for one that was absent.
        model: The model after the round, in the form of ``base``; None without it.
    """

    mean: Update
    states: tuple[State, ...]
    ledger: Ledger
    facts: RoundFacts
    client_facts: tuple[Facts | None, ...]
    model: Any = None


def aggregate_vectors(  # noqa: PLR0913 - as `fediac.aggregate`, see there
    updates: Sequence[Update | None],
    compressor: Compressor,
    *,
    seed: int,
    round_number: int,
    weights: Sequence[int | None] | None = None,
    switch: Switch | SwitchElsewhere | None = None,
    states: Sequence[State] | None = None,
    out: Sequence[State] | None = None,
    phase: str = "",
    warns: bool = False,
) -> RoundResult:
    """Return the aggregated update of one round, and its other results.

    All clients run in lockstep: NumPy arrays and CPU tensors as packets through
    ``switch``, tensors on an accelerator as whole arrays there, with the same bits.

    Args:
        updates: One vector a client, w − w_local; None for a client that is absent.
        compressor: The algorithm.
        seed: The run's seed.
        round_number: Tells the random numbers of rounds apart.
        weights: How much each client counts in the mean; None: all the same.
        switch: Where sums are made: in this process, by default in a new one with 1 MiB
            of registers, or elsewhere.
        states: What the last round returned; fresh ones by default.
        out: ``states`` again, to put the next residuals where the old ones are.
        phase: For a second aggregation in the same round: its name in the ledger, and
            what keeps its random numbers apart from the first one's.
        warns: Whether to warn of settings that do not fit updates of such a size.
    """
    check_arguments(
        updates, compressor, switch, seed=seed, round_number=round_number, phase=phase
    )
    for name, given in (("states", states), ("out", out)):
        if given is not None:
            check_states(name, given)
    switch = Switch() if switch is None else switch
    states = [State()] * len(updates) if states is None else states
    buffers = [None] * len(updates) if out is None else [each.residual for each in out]
    present = check_round(updates, states, buffers, compressor)
    counted = check_weights(weights, updates, n_clients=compressor.n_clients)
    every = {
        i: compressor if counted is None else Weighted(compressor, counted[i])
        for i in present
    }
    streams = {i: Stream(seed, round_number, i, phase) for i in present}
    if out is not None:
        check_finite(present, states, streams)
    first = next(iter(present))
    dim = present[first].shape[0]
    check_dim(compressor, dim)
    if warns:
        _warn_of_settings(compressor, dim)
    # Elsewhere a session may be lost, and the same round run again.
    targets = buffers if isinstance(switch, Switch) else [None] * len(updates)
    written = {i: targets[i] for i in present}

    def run(transport: SessionTransport) -> _Ran:
        require_capacity(every[first], transport.layout)
        # Clients side by side would wait for one accelerator.
        n_threads = 1 if isinstance(transport, ArrayTransport) else native.n_threads()
        with left_alone_on_failure(compressor, states, written):
            clients = {
                i: every[i].run_round(update, states[i], streams[i], out=targets[i])
                for i, update in present.items()
            }
            outcomes, ledger = run_lockstep(
                clients, transport, round_number=round_number, n_threads=n_threads
            )
            check_kept({i: each.state for i, each in outcomes.items()}, present)
            mean = outcomes[first].mean.dense(present[first])
        return outcomes, mean, ledger, transport.counters

    if isinstance(switch, Switch):
        with _session(switch, len(updates), present) as transport:
            outcomes, mean, ledger, counters = run(transport)
    elif isinstance(switch, ClientsElsewhere):
        clients = {
            i: ClientRound(every[i], update, states[i], streams[i])
            for i, update in present.items()
        }
        ran = switch.run_clients(clients, round_number=round_number)
        outcomes, ledger, counters = dict(ran.outcomes), ran.ledger, ran.counters
        check_kept({i: each.state for i, each in outcomes.items()}, present)
        mean = outcomes[first].mean.dense(present[first])
    else:
        outcomes, mean, ledger, counters = switch.run_session(tuple(present), run)
    facts = _round_facts(outcomes, counters)
    ledger = ledger.with_phase(phase) if phase else ledger
    after = tuple(
        _in_place(outcomes[i].state, buffers[i]) if i in outcomes else states[i]
        for i in range(len(updates))
    )
    client_facts = tuple(
        outcomes[i].facts if i in outcomes else None for i in range(len(updates))
    )
    return RoundResult(mean, after, ledger, facts, client_facts)


def _warn_of_settings(compressor: Compressor, dim: int) -> None:
    """Warn who calls `fediac.aggregate`, before anything is changed.

    Where warnings are errors, the round then leaves everything as it was. Python shows
    it once for each line that calls, not in every round.
    """
    for doubt in doubts_of(compressor, dim):
        warnings.warn(doubt, stacklevel=4)


@contextmanager
def _session(
    switch: Switch, n_clients: int, present: Mapping[int, Update]
) -> Iterator[SessionTransport]:
    """Give what carries the exchanges of a session of a switch in this process."""
    switch.forget_peak()
    job = switch.open(n_clients, present=sum(1 << client for client in present))
    update = next(iter(present.values()))
    is_on_device = is_torch_array(update) and device(update).type != "cpu"
    try:
        yield ArrayTransport(job) if is_on_device else MemoryTransport(switch, job)
    finally:
        switch.close(job)


def _in_place(state: State, buffer: Update | None) -> State:
    """Return the state with its residual in ``buffer``, if there is one."""
    if buffer is None or state.residual is None or state.residual is buffer:
        return state
    buffer[:] = state.residual
    return replace(state, residual=buffer)


def _round_facts(outcomes: Mapping[int, Outcome], counters: Counters) -> RoundFacts:
    every = [outcome.facts for outcome in outcomes.values()]
    energy = sum(facts.energy for facts in every)
    left = sum(facts.left_energy for facts in every)
    return RoundFacts(
        votes=sum(facts.n_votes for facts in every),
        chosen=round(sum(facts.n_chosen for facts in every) / len(every)),
        bits=every[0].bits,
        peak=every[0].peak,
        scale=every[0].scale,
        gamma=left / energy if energy else 0.0,
        aggregations=counters.aggregations,
        register_bytes=counters.register_bytes,
        clamped=sum(facts.n_clamped for facts in every),
    )
