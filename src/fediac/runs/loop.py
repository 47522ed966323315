"""One run, from settings to a folder of results; and going on with one."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec import structs

from fediac.compressors import LearnsHot
from fediac.compressors.forecast import tally_threshold
from fediac.core.shares import parse_share
from fediac.errors import FediacError, RunError
from fediac.files import lock_folder
from fediac.names import is_own
from fediac.plan.networks import NetworkSetting, make_network
from fediac.plugins import require_finite
from fediac.runs.algorithm import Settled, is_tuned_by_server
from fediac.runs.build import (
    PreparedRun,
    find_hot,
    prepare_run,
)
from fediac.runs.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
    save_model,
)
from fediac.runs.folder import (
    MODEL,
    check_folder,
    drop_model,
    write_config,
)
from fediac.runs.recording import RoundLog, make_round, stop_reason, write_summary
from fediac.runs.records import ROUNDS, SUMMARY, Round, Summary, summarize
from fediac.runs.schedule import CheckpointSchedule
from fediac.runs.server_tuning import tune_on_server
from fediac.runs.settings import RunSettings
from fediac.runs.tensorboard import open_log
from fediac.sim.network import Network
from fediac.sim.simulate import simulate_round
from fediac.training.federation import FederatedRound, Progress
from fediac.transports.protocol import SwitchElsewhere


class Observer(Protocol):
    """An observer of a run: it is told what happens, and changes nothing."""

    def start(
        self, settings: RunSettings, n_clients: int, before: Round | None
    ) -> None:
        """A run starts, or goes on after the round ``before``."""
        ...

    def client_done(self) -> None:
        """One more client of the round has finished its training."""
        ...

    def round_done(self, record: Round) -> None:
        """A round is over."""
        ...


class NoObserver:
    """For runs that nobody observes."""

    def start(
        self, settings: RunSettings, n_clients: int, before: Round | None
    ) -> None:
        """Do nothing."""

    def client_done(self) -> None:
        """Do nothing."""

    def round_done(self, record: Round) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class _Run:
    """The parts of a run while it goes on.

    Attributes:
        began: What the clock of the machine said when the run had taken no time.
        keeps_model: Leave the model and the last checkpoint behind.
    """

    prepared: PreparedRun
    folder: Path
    observer: Observer
    began: float
    keeps_model: bool


@dataclass(frozen=True, slots=True)
class _Point:
    """Where a run is: what its next round starts from.

    Attributes:
        progress: The model and what clients keep.
        settled: What is settled about the algorithm.
        networks: Switch -> what rounds with this algorithm are timed on.
    """

    progress: Progress
    settled: Settled
    networks: Mapping[str, Network]

    @property
    def round_number(self) -> int:
        """Rounds done."""
        return self.progress.round_number


def run_experiment(  # noqa: PLR0913 - how to run is said by name
    settings: RunSettings,
    folder: Path,
    *,
    resumes: bool,
    observer: Observer | None = None,
    keeps_model: bool = True,
    allows_other_kernels: bool = False,
    elsewhere: SwitchElsewhere | None = None,
) -> Summary:
    """Run until a stop is reached, write everything to ``folder``, return the summary.

    Args:
        settings: What to run.
        folder: Where results go.
        resumes: Go on with the run in the folder, to the same bits as without a break.
        observer: Is told about every round.
        keeps_model: Leave the model and a checkpoint in the folder. Without them, what
            is measured stays, but a complete run cannot go on for longer.
        allows_other_kernels: Go on where the last bits will be others, with other
            kernels or on another processor; ``config.toml`` then says so.
        elsewhere: Where sums are made; None: in this process. The bits are the same.

    Raises:
        ConfigError: The folder holds a run and ``resumes`` is False, or another run.
        RunError: Another process is running there.
        KeyboardInterrupt: Stopped by the user; the folder can be resumed.
    """
    observer = NoObserver() if observer is None else observer
    began = time.perf_counter()
    check = partial(
        check_folder,
        settings,
        folder,
        resumes=resumes,
        allows_other_kernels=allows_other_kernels,
    )
    check()
    prepared = prepare_run(settings, elsewhere)
    try:
        _networks(prepared, Settled())  # refuses those that cannot be
        run = _Run(prepared, folder, observer, began, keeps_model)
        with lock_folder(folder):
            check()  # another process may have been faster
            return _go_on(run)
    finally:
        prepared.engine.close()


def _go_on(run: _Run) -> Summary:
    """Run from the last checkpoint to a stop, write and return the summary."""
    settings, federation = run.prepared.settings, run.prepared.federation
    point, records = _load(run)
    write_config(
        settings, run.folder, len(records)
    )  # who cannot go on has written nothing
    # A run over several sessions has taken as long as all of them.
    before = records[-1] if records else None
    run = replace(run, began=run.began - (before.real_s if before else 0.0))
    run.observer.start(settings, federation.n_participants, before)
    point, reason = _train(run, point, records)
    if run.keeps_model:
        federation.load(point.progress)
        save_model(run.folder / MODEL, federation.model.module)
    summary = _summarize(run.prepared, records, reason)
    write_summary(run.folder, summary)
    if not run.keeps_model:
        drop_model(run.folder)
    return summary


def _train(run: _Run, point: _Point, records: list[Round]) -> tuple[_Point, str]:
    """Run rounds until a stop; return where that is and why it is the end."""
    settings = run.prepared.settings
    reason = stop_reason(settings.stop, records[-1]) if records else ""
    if not reason:  # an earlier stop's; from here on it is not where the run ends
        (run.folder / SUMMARY).unlink(missing_ok=True)
    saved = point.round_number
    schedule = CheckpointSchedule(settings.save.checkpoint_every)
    with open_log(run.folder, settings.save, point.round_number) as log:
        try:
            while not reason:
                point = _one_round(run, point, records)
                log(records[-1])
                reason = stop_reason(settings.stop, records[-1])
                is_due = schedule.is_due(point.round_number)
                if run.keeps_model if reason else is_due:
                    with schedule.saving():
                        _save(run, point)
                    saved = point.round_number
        except (KeyboardInterrupt, Exception):
            if point.round_number > saved:  # lose no round that is done
                _save(run, point)
            raise
    return point, reason


def _networks(prepared: PreparedRun, settled: Settled) -> dict[str, Network]:
    """Return the network of every switch that the settings list.

    How long a slot of a tally is depends on the algorithm's threshold.
    """
    settings, network = prepared.settings, prepared.settings.network
    threshold = tally_threshold(prepared.make_compressor(settled))
    is_bounded = network.memory == "bounded"
    return {
        switch: make_network(
            NetworkSetting(
                switch=switch,
                rates=network.rates,
                register_bytes=network.register_bytes if is_bounded else None,
                compute_s=network.compute_s,
            ),
            n_clients=settings.clients.n_clients,
            threshold=threshold,
            seed=settings.seed,
        )
        for switch in network.switches
    }


def _load(run: _Run) -> tuple[_Point, list[Round]]:
    """Return where the run is: at its last checkpoint, or at the start."""
    prepared = run.prepared
    federation = prepared.federation
    device = federation.model.parameters.device
    checkpoint = load_checkpoint(run.folder, device=device)
    log = RoundLog(run.folder)
    _say_dropped(
        run.folder, 0 if checkpoint is None else checkpoint.progress.round_number
    )
    if checkpoint is None:
        log.keep_until(0)
        progress = federation.start()
        settled = _settle_beforehand(prepared, progress)
        return _Point(progress, settled, _networks(prepared, settled)), []
    if checkpoint.progress.parameters.shape != federation.model.parameters.shape:
        raise RunError(f"{run.folder}: the checkpoint is of another model")
    progress, settled = checkpoint.progress, checkpoint.settled
    point = _Point(progress, settled, _networks(prepared, settled))
    return point, log.keep_until(progress.round_number)


def _settle_beforehand(prepared: PreparedRun, progress: Progress) -> Settled:
    """Return what is settled before the first round: which entries are hot."""
    nothing = Settled()
    compressor = prepared.make_compressor(nothing)
    if is_own(prepared.settings.algorithm) or not isinstance(compressor, LearnsHot):
        return nothing
    return Settled(hot=find_hot(prepared.federation, compressor, progress))


def _say_dropped(folder: Path, saved: int) -> None:
    """Tell a person which rounds a run lost when it was killed after its checkpoint.

    Args:
        folder: The run's folder.
        saved: The round of the checkpoint; 0 without one.
    """
    path = folder / ROUNDS
    last = path.read_bytes().count(b"\n") if path.exists() else 0
    if last <= saved:
        return
    first = saved + 1
    lost = f"round {last} is" if first == last else f"rounds {first} to {last} are"
    sys.stderr.write(f"{folder}: {lost} in no checkpoint, and run again\n")


def _one_round(run: _Run, point: _Point, records: list[Round]) -> _Point:
    """Run and log one more round; return where the run is after it."""
    settings, prepared = run.prepared.settings, run.prepared
    done = prepared.federation.run_round(
        point.progress,
        prepared.make_compressor(point.settled),
        client_done=run.observer.client_done,
    )
    if is_own(settings.algorithm):
        require_finite(settings.algorithm, done.result.mean)
    before = records[-1] if records else None
    start = time.perf_counter()
    timings = {
        name: simulate_round(
            done.ledger,
            network,
            seed=settings.seed,
            round_number=done.progress.round_number,
            start_s=0.0 if before is None else before.time_s[name],
            pauses=done.pauses,
        )
        for name, network in point.networks.items()
    }
    simulate_s = time.perf_counter() - start
    after, tuned = replace(point, progress=done.progress), None
    if is_tuned_by_server(settings) and not before:
        settled = _tune(prepared, done)
        after = _Point(done.progress, settled, _networks(prepared, settled))
        tuned = dict(settled.numbers)
    record = make_round(
        done,
        timings,
        before,
        simulate_s=simulate_s,
        real_s=time.perf_counter() - run.began,
        tuned=tuned,
    )
    records.append(record)
    RoundLog(run.folder).append(record)
    run.observer.round_done(record)
    return after


def _tune(prepared: PreparedRun, done: FederatedRound) -> Settled:
    """Return what the server sets by the first round's updates: threshold and bits."""
    given = prepared.settings.of("fediac")
    candidates = tune_on_server(
        [each.update for each in done.trained],
        n_votes=parse_share(
            given.n_votes, of=prepared.federation.model.dim, name="n_votes"
        ),
        law=given.law,
        seed=prepared.settings.seed,
        entries_per_vote=given.entries_per_vote,
    )
    if not candidates:
        raise FediacError("no threshold has gamma below 1 on the first round's updates")
    best = candidates[0]
    return Settled({"threshold": best.threshold, "bits": best.bits})


def _save(run: _Run, point: _Point) -> None:
    save_checkpoint(run.folder, Checkpoint(point.progress, point.settled))


def _summarize(prepared: PreparedRun, records: list[Round], reason: str) -> Summary:
    settings = prepared.settings
    return Summary(
        **structs.asdict(summarize(records, settings.stop.target)),
        algorithm=settings.algorithm,
        dataset=prepared.dataset.name,
        model=settings.model.name,
        dim=prepared.federation.model.dim,
        n_clients=settings.clients.n_clients,
        seed=settings.seed,
        partition=prepared.partition.statistics(),
        stopped=reason,
        real_s=records[-1].real_s,
    )
