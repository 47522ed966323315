"""Federated learning with a user's own model and data, in a few lines of Python."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fediac.api.arguments import (
    check_settings,
    choose_clients,
    choose_task_device,
    finish_task,
    make_algorithm,
    make_module,
    make_task,
    name_network,
    require_participants,
)
from fediac.api.page import Page, report_finished, report_folders
from fediac.compressors import Compressor
from fediac.core.integers import as_whole
from fediac.core.shares import Share
from fediac.errors import RunError
from fediac.files import lock_folder
from fediac.runs.build import count_clients, prepare_given
from fediac.runs.folder import check_folder
from fediac.runs.given import Given, hash_model, name_algorithm, settings_table
from fediac.runs.loop import FinishedRun, OpenRun
from fediac.runs.progress import ProgressBars
from fediac.runs.records import CHECKPOINT, Round
from fediac.runs.settings import (
    ClientSettings,
    DataSettings,
    ModelSettings,
    RunSettings,
    SaveSettings,
    StopSettings,
    TrainSettings,
    Weights,
)
from fediac.sim import Network
from fediac.training.federation import StatisticsRule
from fediac.training.models import draw_weights
from fediac.training.own_data import read_data
from fediac.training.partition import count_classes
from fediac.training.task import Loss, MakeOptimizer, Metric
from fediac.transports import RoundFacts
from fediac.user_data import Columns, Data

_TRAIN, _CLIENTS, _USUAL = TrainSettings(), ClientSettings(), RunSettings()
"""What is not given is as in a settings file."""


@dataclass(frozen=True, slots=True)
class RoundReport:
    """The results of a round.

    Attributes:
        accuracy: What the metric says; by default the share of test examples that the
            model gets right.
        payload_mib: All that was sent and received so far, as the paper counts.
        time_s: Simulated seconds so far.
        facts: The round's numbers: entries chosen, width, error.
    """

    round_number: int
    accuracy: float
    loss: float
    payload_mib: float
    time_s: float
    facts: RoundFacts

    @classmethod
    def of(cls, record: Round) -> "RoundReport":
        """Return what a round's record says."""
        facts = {
            name: getattr(record, name) for name in RoundFacts.__dataclass_fields__
        }
        return cls(
            round_number=record.number,
            accuracy=record.accuracy,
            loss=math.nan if record.loss is None else record.loss,
            payload_mib=record.payload_mib,
            time_s=next(iter(record.time_s.values())),
            facts=RoundFacts(**facts),
        )


class Experiment:
    """Clients that train a model together through a switch.

    Args:
        model: Makes the model. All clients get its initial weights, and what PyTorch
            draws for them depends on ``seed``.
        train: Inputs and labels, NumPy arrays or tensors; or a data set with rows of
            both (PyTorch's, a ``Subset``, a Hugging Face one), or a ``DataLoader``; or
            a list with one of these for each client. It is read into memory once.
            Inputs of uint8 are images and get normalized; other whole numbers reach the
            model as int64, all else as float32.
        test: The same, to measure accuracy on.
        compressor: The algorithm, for example
            ``fediac.FediAC(10, n_votes="5%", threshold=2)``, or a function that makes
            it for so many parameters. Its ``n_clients`` is how many take part in a
            round.
        clients: For each client the numbers of its training examples, as
            `fediac.partition` gives them; or how many clients there are, which then get
            equal shares by ``partition.iid`` with ``seed``. By default as many as the
            compressor has.
        n_participants: How many clients take part in a round, drawn anew each time: a
            count, or a share like ``"50%"``.
        weights: How much clients count in a mean: ``equal``, all the same, or by their
            number of ``examples``.
        columns: Names of input and target, for rows that are dicts.
        lr: Learning rate; at round t it is ``lr / (1 + sqrt(t) / lr_decay)``.
        lr_decay: How slowly it falls; 0: it stays at ``lr``.
        epochs: Passes over a client's examples in a round.
        steps: Mini-batches of a round instead of epochs.
        batch_size: Examples of a mini-batch, also where data come from a loader.
        optimizer: Makes what takes a client's steps, anew for each client and round; it
            is called with parameters and ``lr``, like ``torch.optim.Adam``. By default
            plain SGD.
        loss: What clients minimize: a function of outputs and targets, a mean over
            examples. By default cross entropy. With a loss of your own targets may be
            anything: floats, or several numbers an example.
        metric: How good outputs on the test set are: a function of outputs and targets,
            at most 1, higher is better; what is below 0 counts as 0. By default the
            share that is right, or R² where targets are floats. It goes by its
            function's name in progress, tables and pages. The three need a CPU.
        network: What a round's time is simulated on; by default the paper's fast
            switch and traces, as in a file without ``[network]``.
        statistics: Batch norm's running statistics: ``average``, ``local``, or
            ``recalibrate``, see `Federation`. Sparse algorithms are scored better early
            on when they are recalibrated.
        seed: Seed for everything random.
        device: ``cpu``, ``cuda``, or ``auto``: the GPU when there is one.
        out: A folder for all of it, as ``fediac run`` writes one: settings, rounds,
            checkpoints and the model. ``fediac report`` reads it.
        resume: Go on with the run in ``out``, to the same bits as without a break; it
            begins where there is none. Rounds that are done are not run again: `run`
            yields them from the folder.
        allow_other_kernels: Go on where the last bits will be others, with other
            kernels or on another processor.
        save_updates: First rounds whose updates are kept in ``out``, for
            ``fediac tune``.
        progress: Show bars where standard error is a terminal, and in a notebook a
            line below the cell.
    """

    def __init__(  # noqa: PLR0913 - made once, settings by name
        self,
        model: Callable[[], nn.Module],
        train: Data,
        test: Data,
        *,
        compressor: Compressor | Callable[[int], Compressor],
        clients: int | Sequence[NDArray[np.int64]] | None = None,
        n_participants: Share = _CLIENTS.n_participants,
        weights: Weights = _CLIENTS.weights,
        columns: Columns | None = None,
        lr: float = _TRAIN.lr,
        lr_decay: float = _TRAIN.lr_decay,
        epochs: int = _TRAIN.epochs,
        steps: int | None = None,
        batch_size: int = _TRAIN.batch_size,
        optimizer: MakeOptimizer | None = None,
        loss: Loss | None = None,
        metric: Metric | None = None,
        network: Network | None = None,
        statistics: StatisticsRule = _TRAIN.statistics,
        seed: int = _USUAL.seed,
        device: str = _TRAIN.device,
        out: str | Path | None = None,
        resume: bool = False,
        allow_other_kernels: bool = False,
        save_updates: int = _USUAL.save.updates,
        progress: bool = True,
    ) -> None:
        check_settings(
            network,
            statistics=statistics,
            weights=weights,
            seed=seed,
            device=device,
            out=out,
        )
        task = make_task(loss, optimizer, metric)
        device = choose_task_device(device, task)
        data = read_data(train, test, columns=columns, has_loss=loss is not None)
        task = finish_task(task, data.dataset)
        with draw_weights(seed):
            initial = make_module(model)
        dim = sum(each.numel() for each in initial.parameters() if each.requires_grad)
        algorithm = make_algorithm(compressor, dim)
        rows, partition = choose_clients(clients, data, algorithm, n_participants, seed)
        n_clients = len(rows)
        n_in_round = count_clients(n_participants, of=n_clients, name="n_participants")
        require_participants(algorithm, n_in_round, n_clients)
        labels, n_classes = data.dataset.train.labels, data.dataset.n_classes
        split = count_classes(partition, rows, labels, n_classes=n_classes)
        self._out = None if out is None else Path(out)
        hashes = None
        if self._out is not None:
            hashes = {
                "data_sha256": data.dataset.sha256,
                "clients_sha256": split.sha256,
                "model_sha256": hash_model(initial),
            }
        self._given = Given(algorithm, network, task, hashes)
        self._settings = RunSettings(
            algorithm=name_algorithm(algorithm),
            seed=seed,
            data=DataSettings(name=data.dataset.name, partition=partition),
            model=ModelSettings(type(initial).__name__),
            clients=ClientSettings(n_clients, n_in_round, weights),
            train=TrainSettings(
                epochs=epochs,
                steps=steps,
                batch_size=batch_size,
                lr=lr,
                lr_decay=lr_decay,
                device=device,
                statistics=statistics,
            ),
            network=name_network(network),
            save=SaveSettings(updates=save_updates),
            tables=settings_table(algorithm),
        )
        self._may_resume, self._progress = resume, progress
        self._allows_other_kernels = allow_other_kernels
        self._check_folder()
        self._prepared = prepare_given(
            self._settings,
            self._given,
            module=initial,
            dataset=data.dataset,
            partition=split,
        )
        self._opened: OpenRun | None = None
        self._n_seen = 0
        if self._out is not None and (self._out / CHECKPOINT).exists():
            with self._locked():
                self._open()

    @property
    def n_clients(self) -> int:
        """How many clients there are, of whom all or some take part in a round."""
        return self._settings.clients.n_clients

    @property
    def module(self) -> nn.Module:
        """The global model; after `run` it is the trained one."""
        return self._prepared.engine.model.module

    def run(self, n_rounds: int) -> Iterator[RoundReport]:
        """Return an iterator that runs one round per step and yields its report.

        Called again, it goes on where the last one stopped. What is done when somebody
        stops early, or is interrupted, is kept in ``out``.
        """
        as_whole("n_rounds", n_rounds, at_least=1)
        return self._rounds(self._n_seen + n_rounds)

    def report(self, path: str | Path | None = None) -> Page:
        """Write a page on the rounds so far; a notebook shows what this returns.

        Args:
            path: The file, which ends in .html, .md or .csv; by default
                ``report.html``, in ``out`` if there is one.
        """
        run = self.finished()
        path = Path(path or (self._out or Path()) / "report.html")
        if self._out is not None:
            return report_folders([self._out], path)
        return report_finished({run.settings.algorithm.rpartition(":")[2]: run}, path)

    def finished(self) -> FinishedRun:
        """Return what there is to tell of the rounds so far."""
        if self._opened is None or not self._opened.records:
            raise RunError("there must be at least one round to report on, run one")
        return self._opened.finished()

    def close(self) -> None:
        """End the threads of training; the model stays, no round can follow."""
        self._prepared.engine.close()

    def _rounds(self, last: int) -> Iterator[RoundReport]:
        """Yield reports up to round ``last``, first of those that are done already."""
        done = self._opened.records if self._opened is not None else []
        while self._n_seen < min(last, len(done)):
            self._n_seen += 1
            yield RoundReport.of(done[self._n_seen - 1])
        if self._n_seen == last:
            return
        shown = ProgressBars(is_quiet=not self._progress, metric=self._given.metric)
        with self._locked(), shown as bars:
            run = self._open()
            stop = StopSettings(rounds=last)
            try:
                observer = bars if self._progress else None
                with closing(run.rounds(stop, observer=observer)) as records:
                    for record in records:
                        self._n_seen += 1
                        yield RoundReport.of(record)
            except GeneratorExit:  # enough for whoever asked
                run.end()
                raise
            run.end()

    def _open(self) -> OpenRun:
        """Return the run, where its folder is or at the start."""
        if self._opened is None:
            self._check_folder()  # nobody was faster
            self._opened = OpenRun(self._prepared, self._out)
            self._opened.load_model()
        return self._opened

    def _check_folder(self) -> None:
        if self._out is None:
            return
        check_folder(
            self._settings,
            self._out,
            resumes=self._may_resume,
            allows_other_kernels=self._allows_other_kernels,
            given=self._given,
        )

    def _locked(self) -> AbstractContextManager[None]:
        return nullcontext() if self._out is None else lock_folder(self._out)
