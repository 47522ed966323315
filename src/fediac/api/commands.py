"""What `run` and `compare` do around a run: show it, and say how to continue it.

Settings are read and checked first: PyTorch takes seconds to import, a typing error
should not.
"""

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import to_builtins

from fediac.console import FAILED, open_console, write_json
from fediac.errors import INTERRUPTED, ConfigError, RunError, named
from fediac.files import require_folder
from fediac.names import by_short_name, short_name
from fediac.plugins import list_named, require_algorithm
from fediac.remote.switch import RemoteSwitch
from fediac.report.consensus import died_out
from fediac.runs.progress import ProgressBars
from fediac.runs.records import CONFIG
from fediac.runs.requirements import require_torch
from fediac.runs.settings import EXPERIMENT, RunSettings, read_settings
from fediac.runs.settings.error_names import setting_names
from fediac.runs.settings.toml_tables import read_table
from fediac.runs.stored import read_run

if TYPE_CHECKING:
    from fediac.api.several_runs import SeveralRuns


def run_command(  # noqa: PLR0913 - one parameter for each option
    config: Path,
    *,
    out: Path | None,
    overrides: Sequence[str],
    resumes: bool,
    as_json: bool,
    allows_other_kernels: bool = False,
    elsewhere: RemoteSwitch | None = None,
) -> None:
    """Run one configuration and show the result."""
    settings = read_settings(config, overrides)
    if not resumes:
        _refuse_experiment(config)
    require_algorithm(settings.algorithm)
    folder = out or Path("runs") / config.stem
    require_folder(folder)
    if resumes and not (folder / CONFIG).exists():
        raise ConfigError(f"{folder}: holds no run to resume")
    _require(settings)
    from fediac.api.several_runs import describe_partition, make_table
    from fediac.runs.loop import run_experiment

    try:
        with (
            ProgressBars(is_quiet=as_json) as bars,
            named(setting_names()),
            _connected(elsewhere, bars),
        ):
            summary = run_experiment(
                settings,
                folder,
                resumes=resumes,
                observer=bars,
                allows_other_kernels=allows_other_kernels,
                elsewhere=elsewhere,
            )
    except KeyboardInterrupt:
        _require_begun([folder])
        _say_how_to_go_on(["run", str(config)], folder, overrides)
    _say_notes([folder])
    if as_json:
        write_json(to_builtins(summary))
    else:
        console = open_console()
        console.print(make_table({short_name(settings.algorithm): summary}))
        console.print(describe_partition(summary.partition), soft_wrap=True)
        line = f"{folder}: {summary.stopped} in {summary.real_s:.0f} s"
        console.print(line, soft_wrap=True)


@contextmanager
def _connected(elsewhere: RemoteSwitch | None, bars: ProgressBars) -> Iterator[None]:
    """Say when a switch elsewhere is waited for; in the end, leave it."""
    if elsewhere is None:
        yield
        return
    elsewhere.on_retry = lambda why: bars.say(f"{why}; trying again")
    try:
        yield
    finally:
        elsewhere.close()


def compare_command(  # noqa: PLR0913 - one parameter for each option
    config: Path,
    algorithms: str | None,
    *,
    out: Path | None,
    overrides: Sequence[str],
    resumes: bool,
    as_json: bool,
    allows_other_kernels: bool = False,
) -> None:
    """Run several algorithms on one configuration and show them side by side.

    Args:
        config: The settings.
        algorithms: Names with commas between them; None: all in the catalog.
        out: Gets a folder for each algorithm.
        overrides: Settings that differ from the file's.
        resumes: Go on where runs were interrupted.
        as_json: Print one JSON document instead of a table.
        allows_other_kernels: Go on where the last bits will be others.
    """
    settings = read_settings(config, overrides)
    _refuse_experiment(config)
    names = list_named(algorithms)
    folder = out or Path("runs") / f"{config.stem}-compared"
    require_folder(folder)
    _require(settings)
    from fediac.api.several_runs import compare_algorithms

    try:
        with ProgressBars(is_quiet=as_json) as bars:
            compared = compare_algorithms(
                settings,
                names,
                folder,
                resumes=resumes,
                observer=bars,
                allows_other_kernels=allows_other_kernels,
            )
    except KeyboardInterrupt:
        _require_begun(folder / name for name in by_short_name(names))
        command = ["compare", str(config), "--algorithms", ",".join(names)]
        _say_how_to_go_on(command, folder, overrides)
    _say_notes(folder / name for name in (*compared.summaries, *compared.failures))
    if as_json:
        summaries = list(compared.summaries.values())
        document = {"algorithms": summaries, "failed": compared.failures}
        write_json(to_builtins(document))
    else:
        _show_compared(compared, folder)
    if compared.failures:
        sys.exit(FAILED)


def _show_compared(compared: "SeveralRuns", folder: Path) -> None:
    from fediac.api.several_runs import describe_partition, make_table

    console = open_console()
    console.print(make_table(compared.summaries))
    first = next(iter(compared.summaries.values()))
    lines = [
        describe_partition(first.partition),  # equal for all
        f"{folder}: fediac report {folder} -o report.html draws it",
        *(f"failed: {name}: {why}" for name, why in compared.failures.items()),
    ]
    for line in lines:
        console.print(line, soft_wrap=True)


def _refuse_experiment(config: Path) -> None:
    """Refuse the settings of a run that came from Python: they are not all of it."""
    if EXPERIMENT in read_table(config):
        raise ConfigError(
            f"{config}: is of a fediac.Experiment, whose model and data are in Python; "
            "run it there"
        )


def _say_notes(folders: Iterable[Path]) -> None:
    """Warn on standard error if consensus died out in a run, as its report would.

    What speaks against its settings was said when it began.
    """
    for folder in folders:
        # There may be no round yet; what is wrong with a file, the report says.
        with suppress(RunError):
            run = read_run(folder)
            if run is None:
                continue
            for note in died_out(run):
                sys.stderr.write(f"note: {short_name(run.algorithm)}: {note}\n")


def _require(settings: RunSettings) -> None:
    """Refuse what cannot be trained or logged on this machine, before anything else."""
    require_torch()
    if settings.save.tensorboard and find_spec("tensorboard") is None:
        raise ConfigError(
            "save.tensorboard needs TensorBoard: pip install 'fediac[tensorboard]'"
        )


def _require_begun(folders: Iterable[Path]) -> None:
    """Exit if Ctrl-C came before there was a run that could be continued."""
    if not any((folder / CONFIG).exists() for folder in folders):
        sys.stderr.write("stopped before anything was written\n")
        sys.exit(INTERRUPTED)


def _say_how_to_go_on(
    command: Sequence[str], folder: Path, overrides: Sequence[str]
) -> NoReturn:
    words = ["fediac", *command, "--out", str(folder)]
    for override in overrides:
        words += ["--set", override]
    sys.stderr.write(
        f"stopped; everything up to the last checkpoint is in {folder}; go on with\n"
        f"  {shlex.join([*words, '--resume'])}\n"
    )
    sys.exit(INTERRUPTED)
