"""One run, from settings to a folder of results; and going on with one."""

import sys
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from msgspec import structs

from fediac.compressors.forecast import doubts_of, tally_threshold
from fediac.console import count
from fediac.errors import RunError
from fediac.files import lock_folder
from fediac.names import ACCURACY, is_own
from fediac.plan.networks import NetworkDescription, make_network
from fediac.plugins import require_finite
from fediac.runs.build import PreparedRun, prepare_run
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
from fediac.runs.given import Given
from fediac.runs.observers import NoObserver, Observer
from fediac.runs.recording import (
    RoundLog,
    make_round,
    save_updates,
    stop_reason,
    write_rounds,
    write_summary,
)
from fediac.runs.records import ROUNDS, SUMMARY, Round, Summary, summarize
from fediac.runs.schedule import CheckpointSchedule
from fediac.runs.settings import RunSettings, StopSettings
from fediac.runs.settled import (
    NOTHING,
    Settled,
    is_tuned_by_server,
    settle_beforehand,
    settle_by_first_round,
)
from fediac.runs.tensorboard import open_log
from fediac.sim.network import Network
from fediac.sim.simulate import simulate_round
from fediac.sim.timing import RoundTiming
from fediac.training.federation import FederatedRound, Progress
from fediac.transports.protocol import SwitchElsewhere


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
        _networks(prepared, NOTHING)  # refuses those that cannot be
        with lock_folder(folder):
            check()  # nobody was faster
            run = OpenRun(prepared, folder, keeps_model=keeps_model)
            for _ in run.rounds(settings.stop, observer=observer, began=began):
                pass
            return run.end()
    finally:
        prepared.engine.close()


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What there is to tell of a run: its settings, rounds and summary."""

    settings: RunSettings
    given: Given | None
    records: tuple[Round, ...]
    summary: Summary

    @property
    def metric(self) -> str:
        """What its accuracy is called: that, or as a metric of the user's own."""
        return ACCURACY if self.given is None else self.given.metric

    def write(self, folder: Path) -> None:
        """Put it where a report finds it; the run cannot go on from there."""
        folder.mkdir(parents=True, exist_ok=True)
        write_config(self.settings, folder, 0, self.given)
        write_rounds(folder, self.records)
        write_summary(folder, self.summary)


class OpenRun:
    """A run that goes on round by round, in a folder or in memory alone.

    It begins where its folder is: at the last checkpoint, or at the start.

    Args:
        prepared: The run, ready to start.
        folder: Where all of it is kept; None: nowhere.
        keeps_model: Leave the model and the last checkpoint behind.

    Attributes:
        records: All rounds that are done.
    """

    def __init__(
        self, prepared: PreparedRun, folder: Path | None, *, keeps_model: bool = True
    ) -> None:
        self._prepared = prepared
        self._folder = folder
        self._keeps_model = keeps_model
        self._point, self.records = _load(prepared, folder)
        self._saved = self._point.round_number
        self._reason = ""
        self._began = 0.0
        self._observer: Observer = NoObserver()

    def rounds(
        self,
        stop: StopSettings,
        *,
        observer: Observer | None = None,
        began: float | None = None,
    ) -> Generator[Round, None, None]:
        """Run round after round and yield their records, until there is a stop.

        Whoever leaves it early, by an error or otherwise, loses no round that is done.

        Args:
            stop: When to stop.
            observer: Is told about every round.
            began: What the clock of the machine said when it began; None: now.
        """
        settings = replace(self._prepared.settings, stop=stop)
        self._prepared = replace(self._prepared, settings=settings)
        self._observer = NoObserver() if observer is None else observer
        self._begin(settings, began)
        schedule = CheckpointSchedule(settings.save.checkpoint_every)
        with open_log(self._folder, settings.save, self._point.round_number) as log:
            try:
                while not self._reason:
                    record = self._one_round()
                    log(record)
                    self._reason = stop_reason(stop, record)
                    is_due = schedule.is_due(record.number)
                    if self._keeps_model if self._reason else is_due:
                        with schedule.saving():
                            self._save()
                    yield record
            except (KeyboardInterrupt, GeneratorExit, Exception):
                self._save()  # lose no round that is done
                raise

    def _begin(self, settings: RunSettings, began: float | None) -> None:
        """Write the settings, and find out whether there is anything to do."""
        before = self.records[-1] if self.records else None
        if self._folder is not None:  # who cannot go on has written nothing
            RoundLog(self._folder).require_length(len(self.records))
            write_config(
                settings, self._folder, len(self.records), self._prepared.given
            )
        # A run over several sessions has taken as long as all of them.
        now = time.perf_counter() if began is None else began
        self._began = now - (before.real_s if before else 0.0)
        n_clients = self._prepared.federation.n_participants
        self._observer.start(settings, n_clients, before)
        self._reason = stop_reason(settings.stop, before) if before else ""
        if self._reason:
            return
        compressor = self._prepared.make_compressor(self._point.settled)
        for doubt in doubts_of(compressor, self._prepared.federation.model.dim):
            self._observer.doubt(doubt)
        if self._folder is not None:
            # An earlier stop's; from here on it is not where the run ends.
            (self._folder / SUMMARY).unlink(missing_ok=True)

    def end(self) -> Summary:
        """Leave in the folder what is to be kept; return the summary.

        It is called after the last round, or after one that was to be the last.
        """
        folder = self._folder
        self.load_model()
        summary = self.finished().summary
        if folder is None:
            return summary
        if self._keeps_model:
            self._save()
            save_model(folder / MODEL, self._prepared.federation.model.module)
        write_summary(folder, summary)
        if not self._keeps_model:
            drop_model(folder)
        return summary

    def finished(self) -> "FinishedRun":
        """Return what there is to tell of the rounds so far."""
        reason = self._reason or f"{count(len(self.records), 'round')} done"
        summary = _summarize(self._prepared, self.records, reason)
        settings, given = self._prepared.settings, self._prepared.given
        return FinishedRun(settings, given, tuple(self.records), summary)

    def load_model(self) -> None:
        """Give the model the weights that it has after the last round."""
        self._prepared.federation.load(self._point.progress)

    def _one_round(self) -> Round:
        """Run and log one more round."""
        prepared, point = self._prepared, self._point
        settings = prepared.settings
        done = prepared.federation.run_round(
            point.progress,
            prepared.make_compressor(point.settled),
            client_done=self._observer.client_done,
        )
        if is_own(settings.algorithm):
            require_finite(settings.algorithm, done.result.mean)
        before = self.records[-1] if self.records else None
        start = time.perf_counter()
        timings = _time(done, point.networks, before, seed=settings.seed)
        simulate_s = time.perf_counter() - start
        after, tuned = replace(point, progress=done.progress), None
        if is_tuned_by_server(settings) and not before:
            settled = settle_by_first_round(settings, prepared.federation, done)
            after = _Point(done.progress, settled, _networks(prepared, settled))
            tuned = dict(settled.numbers)
        record = make_round(
            done,
            timings,
            before,
            simulate_s=simulate_s,
            real_s=time.perf_counter() - self._began,
            tuned=tuned,
        )
        if self._folder is not None:
            if record.number <= settings.save.updates:
                save_updates(self._folder, record.number, done.trained)
            RoundLog(self._folder).append(record)
        self.records.append(record)
        self._point = after
        self._observer.round_done(record)
        return record

    def _save(self) -> None:
        """Write a checkpoint, unless there is one of this round."""
        if self._folder is None or self._point.round_number == self._saved:
            return
        point = self._point
        save_checkpoint(self._folder, Checkpoint(point.progress, point.settled))
        self._saved = point.round_number


def _networks(prepared: PreparedRun, settled: Settled) -> dict[str, Network]:
    """Return the network of every switch that the settings list.

    How long a slot of a tally is depends on the algorithm's threshold.
    """
    settings, network = prepared.settings, prepared.settings.network
    if prepared.given is not None and prepared.given.network is not None:
        return {network.switches[0]: prepared.given.network}
    threshold = tally_threshold(prepared.make_compressor(settled))
    is_bounded = network.memory == "bounded"
    return {
        switch: make_network(
            NetworkDescription(
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


def _load(prepared: PreparedRun, folder: Path | None) -> tuple[_Point, list[Round]]:
    """Return where the run is: at its last checkpoint, or at the start."""
    federation = prepared.federation
    checkpoint = None
    if folder is not None:
        device = federation.model.parameters.device
        checkpoint = load_checkpoint(folder, device=device)
        _say_dropped(
            folder, 0 if checkpoint is None else checkpoint.progress.round_number
        )
    if checkpoint is None or folder is None:
        if folder is not None:
            RoundLog(folder).keep_until(0)
        progress = federation.start()
        settled = settle_beforehand(
            prepared.settings.algorithm,
            prepared.make_compressor(),
            federation,
            progress,
        )
        return _Point(progress, settled, _networks(prepared, settled)), []
    if checkpoint.progress.parameters.shape != federation.model.parameters.shape:
        raise RunError(f"{folder}: the checkpoint is of another model")
    progress, settled = checkpoint.progress, checkpoint.settled
    point = _Point(progress, settled, _networks(prepared, settled))
    return point, RoundLog(folder).keep_until(progress.round_number)


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


def _time(
    done: FederatedRound,
    networks: Mapping[str, Network],
    before: Round | None,
    *,
    seed: int,
) -> dict[str, RoundTiming]:
    """Return how long a round takes on every switch, after the round before."""
    return {
        name: simulate_round(
            done.ledger,
            network,
            seed=seed,
            round_number=done.progress.round_number,
            start_s=0.0 if before is None else before.time_s[name],
            pauses=done.pauses,
        )
        for name, network in networks.items()
    }


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
        partition=prepared.partition.summary(),
        stopped=reason,
        real_s=records[-1].real_s,
    )
