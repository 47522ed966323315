"""Theory against measurement: what the paper's formulas predict for real rounds.

A run is trained as always. In the rounds asked about, the clients' corrected updates
are looked at: their power laws are fitted, the formulas of Sec. IV-B say which ranks
should be voted for and agreed on, and the votes that were cast say which ones were.
"""

from collections.abc import Sequence
from dataclasses import replace

from fediac.compressors import FediAC
from fediac.errors import ConfigError
from fediac.paper.theory.rounds import check_round
from fediac.paper.theory.stored import Measurement, RoundCheck
from fediac.plan.networks import NetworkDescription, make_network
from fediac.runs.build import PreparedRun, choose_device, prepare_run
from fediac.runs.observers import NoObserver, Observer
from fediac.runs.recording import make_round
from fediac.runs.records import Round
from fediac.runs.settings import RunSettings, StopSettings
from fediac.runs.versions import describe_versions
from fediac.sim.simulate import simulate_round
from fediac.training.federation import FederatedRound


def measure(
    settings: RunSettings, rounds: Sequence[int], observer: Observer | None = None
) -> Measurement:
    """Train with FediAC until the last of ``rounds``; return what they were like.

    Args:
        settings: The run's settings; its stops are ignored.
        rounds: Numbers of the rounds to look at, from 1 on.
        observer: Is told about every round.

    Raises:
        ConfigError: The run is none that the theory speaks of, or no round is asked
            about.
        RunError: A client's update follows no power law.
    """
    wanted = _check(settings, rounds)
    settings = replace(settings, stop=StopSettings(rounds=wanted[-1]))
    observer = NoObserver() if observer is None else observer
    prepared = prepare_run(settings)
    try:
        checks = _run(prepared, wanted, observer)
    finally:
        prepared.engine.close()
    compressor = _fediac(prepared)
    dim = prepared.federation.model.dim
    return Measurement(
        settings=settings,
        dim=dim,
        n_votes=compressor.count_votes(dim),
        threshold=compressor.votes_needed,
        rounds=tuple(checks),
        versions=describe_versions(choose_device(settings.train.device)),
    )


def _check(settings: RunSettings, rounds: Sequence[int]) -> list[int]:
    """Return the rounds in order, each once."""
    if settings.algorithm != "fediac":
        raise ConfigError(
            f"algorithm must be fediac to check its theory, got {settings.algorithm}"
        )
    if settings.tuning == "server":
        raise ConfigError(
            "tuning must be local or none to check the theory, got server: its first "
            "round has no votes"
        )
    fediac = settings.of("fediac")
    if fediac.law == "topk":
        raise ConfigError(
            "fediac.law must be bernoulli or draws to check the theory, got topk: it "
            "votes by another"
        )
    if fediac.entries_per_vote != 1:
        raise ConfigError(
            "fediac.entries_per_vote must be 1 to check the theory, got "
            f"{fediac.entries_per_vote}: it is about single entries"
        )
    if fediac.lanes == "words":
        raise ConfigError(
            "fediac.lanes must be same or dense to check the theory, got words: its "
            "levels take what room is left"
        )
    if not rounds or min(rounds) < 1:
        raise ConfigError(
            "rounds must name at least one round, from 1 on, got "
            f"{', '.join(map(str, rounds)) or 'none'}"
        )
    return sorted(set(rounds))


def _run(
    prepared: PreparedRun, wanted: Sequence[int], observer: Observer
) -> list[RoundCheck]:
    federation = prepared.federation
    clock = _Clock(prepared)
    observer.start(prepared.settings, federation.n_participants, None)
    progress = federation.start()
    checks: list[RoundCheck] = []
    while progress.round_number < wanted[-1]:
        compressor = _fediac(prepared)
        done = federation.run_round(
            progress, compressor, client_done=observer.client_done
        )
        if done.progress.round_number in wanted:
            seed = prepared.settings.seed
            checks.append(check_round(progress, done, compressor, seed=seed))
        progress = done.progress
        observer.round_done(clock.record(done))
    return checks


def _fediac(prepared: PreparedRun) -> FediAC:
    compressor = prepared.make_compressor()
    if not isinstance(compressor, FediAC):
        raise TypeError(f"compressor must be FediAC, got {type(compressor).__name__}")
    return compressor


class _Clock:
    """Keeps the lines that an observer is told: simulated time on the first switch."""

    def __init__(self, prepared: PreparedRun) -> None:
        settings = prepared.settings
        self._seed = settings.seed
        self._switch = settings.network.switches[0]
        setting = NetworkDescription(
            switch=self._switch,
            rates=settings.network.rates,
            compute_s=settings.network.compute_s,
        )
        self._network = make_network(
            setting, n_clients=settings.clients.n_clients, threshold=1, seed=self._seed
        )
        self._before: Round | None = None

    def record(self, done: FederatedRound) -> Round:
        """Return the line of one more round."""
        before = self._before
        timing = simulate_round(
            done.ledger,
            self._network,
            seed=self._seed,
            round_number=done.progress.round_number,
            start_s=0.0 if before is None else before.time_s[self._switch],
        )
        timings = {self._switch: timing}
        self._before = make_round(done, timings, before, simulate_s=0.0, real_s=0.0)
        return self._before
