"""Run several algorithms with the same settings, each in its own folder."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fediac.compressors import CATALOG
from fediac.console import FittedTable
from fediac.errors import (
    AlgorithmError,
    ConfigError,
    FediacError,
    LocalProtocolError,
    UpdateError,
    named,
)
from fediac.names import ACCURACY, by_short_name, short_name
from fediac.number_words import digits, seconds
from fediac.plugins import require_algorithm
from fediac.report.differences import EXPECTED
from fediac.runs.algorithm import check_algorithm
from fediac.runs.build import prepare_run
from fediac.runs.folder import check_folder
from fediac.runs.loop import run_experiment
from fediac.runs.observers import Observer
from fediac.runs.recording import write_summary
from fediac.runs.records import CONFIG, ROUNDS, SUMMARY, RunTotals, Summary
from fediac.runs.settings import (
    RunSettings,
    as_document,
    by_key,
    list_differing,
    read_settings,
)
from fediac.runs.settings.error_names import setting_names
from fediac.runs.stored import read_summary
from fediac.switch import Switch
from fediac.training.partition import PartitionSummary

_MAY_DIFFER = (
    *EXPECTED,
    "data.download",
    "tuning",  # of fediac alone
    *(f"{name}." for name in CATALOG),
)
"""Prefixes of the settings that may differ between the runs of a comparison."""


@dataclass(frozen=True, slots=True)
class SeveralRuns:
    """What several algorithms made of the same settings.

    Attributes:
        summaries: Algorithm, by its short name -> its run's summary.
        failures: The same -> why its run could not go on, such as a model that
            diverged.
    """

    summaries: dict[str, Summary]
    failures: dict[str, str]


def compare_algorithms(
    settings: RunSettings,
    algorithms: Sequence[str],
    folder: Path,
    *,
    resumes: bool,
    observer: Observer | None = None,
    allows_other_kernels: bool = False,
) -> SeveralRuns:
    """Run every algorithm into its own folder; return and write their summaries.

    One whose model diverges, or the user's own that fails, does not keep the others
    from running.

    Args:
        settings: Equal for all but the algorithm.
        algorithms: Names in the catalog, or ``module:name`` of the user's own.
        folder: Gets one folder an algorithm, and ``summary.json``.
        resumes: Go on where runs were interrupted; runs that are complete stay.
        observer: Is told about every round of every run.
        allows_other_kernels: Go on where the last bits will be others.

    Raises:
        ConfigError: A name is unknown or that of two, a folder holds another run, a
            setting does not fit, or earlier runs in the folder had others; nothing has
            been run then.
        RunError: The summary of an earlier run is damaged; nothing has been run then.
        UpdateError, AlgorithmError, LocalProtocolError: No algorithm got to its end:
            models did not stay finite, or the user's own failed.
    """
    if not algorithms:
        raise ConfigError(f"algorithms must name some of {', '.join(CATALOG)}")
    runs = {
        name: replace(settings, algorithm=algorithm)
        for name, algorithm in by_short_name(algorithms).items()
    }
    return compare_runs(
        runs,
        folder,
        resumes=resumes,
        observer=observer,
        allows_other_kernels=allows_other_kernels,
    )


def compare_runs(
    runs: Mapping[str, RunSettings],
    folder: Path,
    *,
    resumes: bool,
    observer: Observer | None = None,
    allows_other_kernels: bool = False,
) -> SeveralRuns:
    """Run each of ``runs`` into its own folder; see `compare_algorithms`.

    Args:
        runs: Name of a folder -> settings; they differ in algorithms and these's own
            settings alone.
        folder: Gets the folders, and ``summary.json``.
        resumes: Go on where runs were interrupted; runs that are complete stay.
        observer: Is told about every round of every run.
        allows_other_kernels: Go on where the last bits will be others.
    """
    if (folder / ROUNDS).exists():
        raise ConfigError(f"{folder}: holds a single run; give another --out")
    settings = next(iter(runs.values()))
    for name, each in runs.items():
        require_algorithm(each.algorithm)
        check_folder(
            each,
            folder / name,
            resumes=resumes,
            allows_other_kernels=allows_other_kernels,
        )
    before = _read_summaries(folder)
    _check_comparable(settings, [folder / name for name in before if name not in runs])
    _check_algorithms(runs)
    summaries: dict[str, Summary] = {}
    errors: dict[str, FediacError] = {}
    for name, each in runs.items():
        (folder / SUMMARY).unlink(missing_ok=True)  # a run in it may go on
        try:
            with named(setting_names()):
                summaries[name] = run_experiment(
                    each,
                    folder / name,
                    resumes=resumes,
                    observer=observer,
                    allows_other_kernels=allows_other_kernels,
                )
        except (UpdateError, AlgorithmError, LocalProtocolError) as error:
            errors[name] = error
        finally:
            _write_ended(folder, before | summaries)
    if not summaries:
        raise next(iter(errors.values()))
    return SeveralRuns(summaries, {name: str(each) for name, each in errors.items()})


def _read_summaries(folder: Path) -> dict[str, Summary]:
    """Return short name -> summary of all runs that ended in earlier comparisons.

    A folder that does not have its algorithm's name was put there by the user.
    """
    found = {
        path.parent.name: read_summary(path.parent)
        for path in sorted(folder.glob(f"*/{SUMMARY}"))
    }
    return {
        name: summary
        for name, summary in found.items()
        if summary is not None and short_name(summary.algorithm) == name
    }


def _write_ended(folder: Path, summaries: Mapping[str, Summary]) -> None:
    """Write summaries of the runs that have ended; one that goes on has none."""
    known = [name for name in CATALOG if name in summaries]
    ended = [
        summaries[name]
        for name in dict.fromkeys([*known, *summaries])
        if (folder / name / SUMMARY).exists()
    ]
    if ended:
        write_summary(folder, {"algorithms": ended})


def _check_comparable(settings: RunSettings, others: Iterable[Path]) -> None:
    """Refuse to run beside others whose data, training or network were not the same."""
    wanted = as_document(settings)
    for config in (other / CONFIG for other in others):
        had = as_document(read_settings(config))
        differing = list_differing([wanted, had], but=_MAY_DIFFER)
        if differing:
            key = differing[0]
            raise ConfigError(
                f"{config}: {key} was {by_key(had)[key]!r}, got {by_key(wanted)[key]!r}"
                "; a comparison needs the same settings, but for algorithms' own, "
                "[stop] and [save]; give another --out"
            )


def _check_algorithms(runs: Mapping[str, RunSettings]) -> None:
    """Refuse settings that do not fit one of the algorithms, before any of them trains.

    Data and model are equal for all: they are built once.
    """
    first = next(iter(runs.values()))
    with named(setting_names()):
        prepared = prepare_run(first)
    prepared.engine.close()
    federation = prepared.federation
    dim, n_clients = federation.model.dim, federation.n_participants
    switch = Switch(first.network.register_bytes)
    for each in runs.values():
        with named(setting_names()):
            check_algorithm(each, n_clients=n_clients, dim=dim, switch=switch)


def make_table(
    summaries: Mapping[str, RunTotals], *, metric: str = ACCURACY
) -> FittedTable:
    """Return the summaries as a table.

    Args:
        summaries: Name -> its run's.
        metric: What their accuracy is called.
    """
    clocks = next(iter(summaries.values())).time_s
    headings = ["algorithm", "rounds", metric, "payload MiB", "wire MiB"]
    headings += [f"time, {name} switch" for name in clocks]
    target = next(iter(summaries.values())).target
    if target is not None:
        headings.append(f"MiB to {100 * target.accuracy:g} %")
    rows = []
    for name, summary in summaries.items():
        cells = [
            name,
            str(summary.rounds),
            f"{100 * summary.accuracy:.1f} %",
            digits(summary.payload_mib),
            digits(summary.wire_mib),
            *map(seconds, summary.time_s.values()),
        ]
        if summary.target is not None:
            mib = summary.target.payload_mib
            cells.append("not reached" if mib is None else digits(mib))
        rows.append(cells)
    return FittedTable(headings, rows)


N_DIGITS = 16
"""Digits of the hash: enough to tell two splits apart; summary.json has all."""


def describe_partition(facts: PartitionSummary) -> str:
    """Return what a run's summary says about its partition, in one line."""
    return (
        f"{facts.name} partition: {facts.n_used:,} of {facts.n_examples:,} "
        f"examples, {facts.min_size:,} to {facts.max_size:,} a client, sha256 "
        f"{facts.sha256[:N_DIGITS]}..."
    )
