"""What `run` and `compare` do around a run: show it, and say how to go on."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from fediac.errors import ConfigError
from fediac.experiments.compare import compare_algorithms, make_table
from fediac.experiments.output import open_console, write_json
from fediac.experiments.progress import ProgressBars
from fediac.experiments.records import Record
from fediac.experiments.run import CONFIG, run_experiment
from fediac.experiments.settings import read_settings

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended."""


def run_command(
    config: Path,
    *,
    out: Path | None,
    overrides: Sequence[str],
    resumes: bool,
    as_json: bool,
) -> None:
    """Run one configuration and show what came out."""
    settings = read_settings(config, overrides)
    folder = out or Path("runs") / config.stem
    if resumes and not (folder / CONFIG).exists():
        raise ConfigError(f"{folder}: holds no run to resume")
    try:
        with ProgressBars(is_quiet=as_json) as bars:
            summary = run_experiment(settings, folder, resumes=resumes, watcher=bars)
    except KeyboardInterrupt:
        _say_how_to_go_on(["run", str(config)], folder, overrides)
    if as_json:
        write_json(summary)
    else:
        console = open_console()
        console.print(make_table({settings.algorithm: summary}))
        console.print(f"{folder}: {summary['stopped']} in {summary['real_s']:.0f} s")


def compare_command(
    config: Path,
    algorithms: str,
    *,
    out: Path | None,
    overrides: Sequence[str],
    resumes: bool,
    as_json: bool,
) -> None:
    """Run several algorithms on one configuration and show them side by side."""
    settings = read_settings(config, overrides)
    names = [name.strip() for name in algorithms.split(",") if name.strip()]
    folder = out or Path("runs") / f"{config.stem}-compared"
    try:
        with ProgressBars(is_quiet=as_json) as bars:
            summaries = compare_algorithms(
                settings, names, folder, resumes=resumes, watcher=bars
            )
    except KeyboardInterrupt:
        command = ["compare", str(config), "--algorithms", ",".join(names)]
        _say_how_to_go_on(command, folder, overrides)
    if as_json:
        documents: list[Record] = list(summaries.values())
        write_json({"algorithms": documents})
    else:
        console = open_console()
        console.print(make_table(summaries))
        console.print(f"{folder}: fediac report {folder} -o report.html draws it")


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
