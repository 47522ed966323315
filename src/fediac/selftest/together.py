"""Rounds whose clients are all in one process, each with a socket of its own.

This is how `fediac run --switch` sends a simulation's rounds, and how more clients take
part than a machine has room for processes.
"""

import time
from collections.abc import Callable

from fediac.compressors.catalog import find
from fediac.compressors.protocol import Compressor, State
from fediac.remote.switch import RemoteSwitch
from fediac.selftest.comparison import say_difference
from fediac.selftest.results import Trial
from fediac.selftest.settings import SelftestSettings
from fediac.selftest.updates import make_update
from fediac.transports.vectors import RoundResult, aggregate_vectors

_WAIT_S = 120.0


def run_together(
    name: str,
    settings: SelftestSettings,
    switch: RemoteSwitch,
    trial: Trial,
    tell: Callable[[str], None],
) -> None:
    """Run rounds through a switch and in memory, and note what differs."""
    compressor: Compressor = find(name)(settings.n_clients)
    states = [State()] * settings.n_clients
    for number in range(1, settings.n_rounds + 1):
        tell(f"{name}: round {number} of {settings.n_rounds}")
        updates = [
            make_update(
                settings.dim, seed=settings.seed, client=client, round_number=number
            )
            for client in range(settings.n_clients)
        ]
        results = []
        for where in (switch, None):
            start_s = time.monotonic()
            results.append(
                aggregate_vectors(
                    updates,
                    compressor,
                    seed=settings.seed,
                    round_number=number,
                    switch=where,
                    states=states,
                )
            )
            if where is switch:
                took_s = time.monotonic() - start_s
                trial.seconds += took_s
                trial.longest_wait_s = max(trial.longest_wait_s, took_s)
        got, expected = results
        trial.differences += _compare(f"{name}, round {number}", got, expected)
        trial.rounds += 1
        states = list(expected.states)
    trial.rounds_retried, trial.retransmissions = switch.n_retries, switch.n_resent
    trial.note_buffer(switch.buffer_bytes)


def _compare(where: str, got: RoundResult, expected: RoundResult) -> list[str]:
    found = [say_difference(f"{where}: mean", got.mean, expected.mean)]
    for client, (mine, theirs) in enumerate(
        zip(got.states, expected.states, strict=True)
    ):
        what = f"{where}: residual of client {client}"
        found.append(say_difference(what, mine.residual, theirs.residual))
    return [each for each in found if each is not None]


def remote_switch(address: str, key: bytes) -> RemoteSwitch:
    """Return the switch at an address, for clients of this process."""
    return RemoteSwitch(address, key=key, wait_s=_WAIT_S)
