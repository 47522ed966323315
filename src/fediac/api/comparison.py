"""Several algorithms on a user's own model and data, and a report over all of them."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from fediac.api.experiment import Experiment, RoundReport
from fediac.api.page import Page, report_finished, report_folders
from fediac.api.several_runs import make_table
from fediac.compressors import Compressor
from fediac.compressors.forecast import doubts_of
from fediac.errors import (
    AlgorithmError,
    ArgumentError,
    FediacError,
    LocalProtocolError,
    UpdateError,
)
from fediac.names import is_folder_name
from fediac.runs.loop import FinishedRun
from fediac.runs.settings import DEFAULT_ROUNDS
from fediac.training.own_data import read_data
from fediac.user_data import Data

_WIDTH = 100
"""Characters of a line of the table."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of a comparison, by the names that algorithms were given.

    Attributes:
        reports: A report for every round.
        modules: The trained models.
        failures: Why an algorithm could not go on, such as a model that diverged.
        runs: What there is to tell of each run.
        out: The folder with all of it, if there is one.
    """

    reports: Mapping[str, list[RoundReport]]
    modules: Mapping[str, nn.Module]
    failures: Mapping[str, str]
    runs: Mapping[str, FinishedRun]
    out: Path | None

    def report(self, path: str | Path | None = None) -> Page:
        """Write a page that compares them; a notebook shows what this returns.

        Args:
            path: The file, which ends in .html, .md or .csv; by default
                ``report.html``, in ``out`` if there is one.
        """
        path = Path(path or (self.out or Path()) / "report.html")
        if self.out is None:
            return report_finished(self.runs, path)
        return report_folders([self.out / name for name in self.runs], path)

    def __str__(self) -> str:
        """Return a line for each algorithm, as a table."""
        # In a notebook, too, this is plain text, which is returned and not shown.
        console = Console(
            file=io.StringIO(),
            width=_WIDTH,
            force_jupyter=False,
            force_terminal=False,
        )
        summaries = {name: each.summary for name, each in self.runs.items()}
        metric = next(iter(self.runs.values())).metric  # the same for all
        with console.capture() as capture:
            console.print(make_table(summaries, metric=metric))
        failed = [f"failed: {name}: {why}" for name, why in self.failures.items()]
        return "\n".join([capture.get().rstrip(), *self._doubts(), *failed])

    def _doubts(self) -> Iterator[str]:
        """Yield what speaks against an algorithm's settings in such a model."""
        for name, run in self.runs.items():
            if run.given is not None:
                for each in doubts_of(run.given.compressor, run.summary.dim):
                    yield f"note: {name}: {each}"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def compare(
    model: Callable[[], nn.Module],
    train: Data,
    test: Data,
    *,
    compressors: Mapping[str, Compressor | Callable[[int], Compressor]],
    n_rounds: int = DEFAULT_ROUNDS,
    out: str | Path | None = None,
    **settings: Any,  # noqa: ANN401 - those of `Experiment`
) -> Comparison:
    """Return what several algorithms make of the same model, data and seed.

    One after the other trains for the same number of rounds. One whose model diverges
    does not keep the others from running.

    Args:
        model: Makes the model, as for `Experiment`.
        train: What clients learn from, as there.
        test: What accuracy is measured on, as there.
        compressors: Name -> algorithm, as there; its folder and its line have the name.
        n_rounds: Rounds of each.
        out: Gets a folder for each, which ``fediac report`` reads.
        settings: All else is as for `Experiment`: ``lr``, ``clients``, ``resume``...

    Raises:
        UpdateError, AlgorithmError, LocalProtocolError: No algorithm got to its end.
    """
    _check_names(compressors)
    data = read_data(
        train,
        test,
        columns=settings.pop("columns", None),
        has_loss=settings.get("loss") is not None,
    )
    if data.clients is not None and settings.setdefault("clients") is None:
        settings["clients"] = data.clients

    def make(name: str) -> Experiment:
        return Experiment(
            model,
            data.dataset.train,
            data.dataset.test,
            compressor=compressors[name],
            out=None if out is None else Path(out) / name,
            **settings,
        )

    n_clients = {}
    for name in compressors:  # none trains before all have been checked
        experiment = make(name)
        experiment.close()
        n_clients[name] = experiment.n_clients
    _check_counts(n_clients)
    folder = None if out is None else Path(out)
    return _train_each(compressors, make, n_rounds, folder)


def _train_each(
    names: Iterable[str],
    make: Callable[[str], Experiment],
    n_rounds: int,
    out: Path | None,
) -> Comparison:
    """Run experiments by their names; raise what the first said if all failed."""
    reports: dict[str, list[RoundReport]] = {}
    modules: dict[str, nn.Module] = {}
    runs: dict[str, FinishedRun] = {}
    errors: dict[str, FediacError] = {}
    for name in names:
        experiment = make(name)
        try:
            reports[name] = list(experiment.run(n_rounds))
        except (UpdateError, AlgorithmError, LocalProtocolError) as error:
            errors[name] = error
            continue
        finally:
            experiment.close()
        modules[name] = experiment.module
        runs[name] = experiment.finished()
    if not runs:
        raise next(iter(errors.values()))
    failures = {name: str(each) for name, each in errors.items()}
    return Comparison(reports, modules, failures, runs, out)


def _check_counts(n_clients: Mapping[str, int]) -> None:
    """Refuse algorithms for which the same examples were shared out differently."""
    first, *others = n_clients.items()
    for name, number in others:
        if number != first[1]:
            raise ArgumentError(
                "compressors",
                "must all be for as many clients, "
                f"got {first[1]} for {first[0]!r} and {number} for {name!r}",
            )


def _check_names(compressors: object) -> None:
    """Refuse names that no folder can have on some system."""
    if not isinstance(compressors, Mapping) or not compressors:
        raise TypeError(
            "compressors must be a dict of name -> compressor, at least one, "
            f"got {type(compressors).__name__}"
        )
    for name in compressors:
        if not isinstance(name, str) or not is_folder_name(name):
            raise ArgumentError(
                "compressors",
                "must have names that are good for a folder on every system (letters, "
                "digits, dots, dashes and underscores; not con, nul, ...), "
                f"got {name!r}",
            )
