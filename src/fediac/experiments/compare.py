"""The same settings with several algorithms, a folder each, and what came out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fediac.compressors import CATALOG, find
from fediac.errors import ConfigError, UpdateError
from fediac.experiments.naming import named, setting_names
from fediac.experiments.output import FittedTable
from fediac.experiments.records import ROUNDS, SUMMARY, Record, write_summary
from fediac.experiments.report.rounds import parse_object
from fediac.experiments.run import Watcher, run_experiment
from fediac.experiments.run_folder import check_folder
from fediac.experiments.settings import RunSettings


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came out of a comparison.

    Attributes:
        summaries: Algorithm -> its run's summary.
        failures: Algorithm -> why its run could not go on, such as a model that
            diverged.
    """

    summaries: dict[str, Record]
    failures: dict[str, str]


def compare_algorithms(
    settings: RunSettings,
    algorithms: Sequence[str],
    folder: Path,
    *,
    resumes: bool,
    watcher: Watcher | None = None,
) -> Comparison:
    """Run every algorithm into its own folder; return and write their summaries.

    One whose model diverges does not keep the others from running.

    Args:
        settings: Equal for all but the algorithm.
        algorithms: Names in the catalog.
        folder: Gets one folder an algorithm, and ``summary.json``.
        resumes: Go on where runs were interrupted; runs that are complete stay.
        watcher: Is told about every round of every run.

    Raises:
        ConfigError: A name is unknown, or a folder holds another run; nothing has been
            run then.
        UpdateError: No algorithm's model stayed finite.
    """
    if not algorithms:
        raise ConfigError(f"algorithms must name some of {', '.join(CATALOG)}")
    if (folder / ROUNDS).exists():
        raise ConfigError(f"{folder}: holds a single run; give another --out")
    runs = {name: replace(settings, algorithm=name) for name in algorithms}
    for name, each in runs.items():
        find(name)
        check_folder(each, folder / name, resumes=resumes)
    summaries: dict[str, Record] = {}
    errors: dict[str, UpdateError] = {}
    for name, each in runs.items():
        (folder / SUMMARY).unlink(missing_ok=True)  # a run in it may go on
        try:
            with named(setting_names(each)):
                summaries[name] = run_experiment(
                    each, folder / name, resumes=resumes, watcher=watcher
                )
        except UpdateError as error:
            errors[name] = error
        finally:
            ended = _all_summaries(folder, summaries)
            if ended:
                write_summary(folder, {"algorithms": ended})
    if not summaries:
        raise next(iter(errors.values()))
    return Comparison(summaries, {name: str(each) for name, each in errors.items()})


def _all_summaries(folder: Path, new: Mapping[str, Record]) -> list[Record]:
    """Return the summaries of all runs that have ended, earlier comparisons' too."""
    before = {}
    for name in CATALOG:
        path = folder / name / SUMMARY
        if path.exists():
            before[name] = parse_object(path.read_text(encoding="utf-8"), str(path))
    return list((before | dict(new)).values())


def make_table(summaries: Mapping[str, Record]) -> FittedTable:
    """Return the summaries as a table."""
    clocks = next(iter(summaries.values()))["time_s"]
    headings = ["algorithm", "rounds", "accuracy", "payload MiB", "wire MiB"]
    headings += [f"time, {name} switch" for name in clocks]
    target = next(iter(summaries.values()))["target"]
    if target is not None:
        headings.append(f"MiB to {100 * target['accuracy']:g} %")
    rows = []
    for name, summary in summaries.items():
        cells = [
            name,
            str(summary["rounds"]),
            f"{100 * summary['accuracy']:.1f} %",
            f"{summary['payload_mib']:,.1f}",
            f"{summary['wire_mib']:,.1f}",
            *(f"{time:,.1f} s" for time in summary["time_s"].values()),
        ]
        if target is not None:
            reached = summary["target"]
            is_there = reached["reached"]
            cells.append(
                f"{reached['payload_mib']:,.1f}" if is_there else "not reached"
            )
        rows.append(cells)
    return FittedTable(headings, rows)
