"""run, compare, demo and report: from a settings file to a report."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.cli.options import (
    algorithms_option,
    count_option,
    file_option,
    folder_option,
    path_argument,
)

_Config = Annotated[Path, path_argument("CONFIG.toml", "a file", "The settings file.")]
_Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting: train.lr=0.05 or stop.rounds=10. May be repeated.",
    ),
]
_Data = Annotated[
    Path | None,
    folder_option(
        "Where data sets are; sets data.folder.  [default: $FEDIAC_DATA or "
        "~/.cache/fediac]"
    ),
]
_Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Continue an interrupted run; the result is bit-identical."
    ),
]
_OtherKernels = Annotated[
    bool,
    typer.Option(
        "--allow-other-kernels",
        help="Let --resume continue with other kernels, another processor or another "
        "PyTorch. The last bits of the results change, and the report says so.",
    ),
]
_Tensorboard = Annotated[
    bool,
    typer.Option(
        "--tensorboard", help="Also write TensorBoard logs; sets save.tensorboard."
    ),
]


def _all_overrides(
    overrides: list[str], *, data: Path | None, tensorboard: bool
) -> list[str]:
    """Return all overrides, with those options that set a single setting."""
    everything = list(overrides)
    if data is not None:
        # JSON's strings are TOML's: a folder called 2024 stays one.
        everything.append(f"data.folder={json.dumps(str(data), ensure_ascii=False)}")
    if tensorboard:
        everything.append("save.tensorboard=true")
    return everything


@app.command("run")
def _run(  # noqa: PLR0913 - one parameter for each option
    *,
    config: _Config,
    out: Annotated[
        Path | None, folder_option("Where results go.  [default: runs/CONFIG]")
    ] = None,
    overrides: _Overrides = [],  # noqa: B006 - typer copies it
    data: _Data = None,
    resume: _Resume = False,
    allow_other_kernels: _OtherKernels = False,
    tensorboard: _Tensorboard = False,
    switch: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Send all packets over UDP to a 'fediac switch' there, for the same "
            "bits. FEDIAC_KEY in the environment is its key, if it has one.",
        ),
    ] = None,
    wait: Annotated[
        int | None,
        count_option(
            "With --switch: seconds to wait for a switch that does not answer.  "
            "[default: 60]",
            at_least=0,
        ),
    ] = None,
    processes: Annotated[
        bool,
        typer.Option(
            "--processes",
            help="With --switch: every client compresses and sends in a process of its "
            "own.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train with one algorithm, from a settings file.

    Writes config.toml (all settings, resolved), rounds.jsonl (one line per round),
    summary.json, model.safetensors and a checkpoint. A run that Ctrl-C or a
    scheduler's SIGTERM stopped can be continued with --resume. The path of CONFIG.toml
    may lead into a .zip archive as into a folder.

    \b
    A small settings file; every key has a default, see 'fediac list settings':
      algorithm = "fediac"     # or a class or function of your own: "my_file:Mine"
      [data]
      name = "digits"          # comes with the package; or cifar10, cifar100, ...
      [clients]
      n_clients = 20
      n_participants = "50%"   # of all clients in each round; or a number: 10
      [network]
      switches = ["fast", "slow"]
      [stop]
      rounds = 20
      target = 0.9             # or "90%"
      [fediac]
      n_votes = "5%"           # a share is a string, a count is a number
      threshold = 3

    \b
    Examples:
      fediac run digits.toml
      fediac run digits.toml --set algorithm=libra --set seed=2 --out runs/libra-2
      fediac run digits.toml --set 'network.switches=["fast", "slow"]'
      fediac run digits.toml --resume
      fediac run digits.toml --switch 127.0.0.1:4900
      fediac run digits.toml --switch 127.0.0.1:4900 --processes
      fediac run results/runs/cifar10-iid.zip/fediac/seed1/config.toml
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.api.commands import run_command
    from fediac.remote.options import remote_switch

    run_command(
        config,
        out=out,
        overrides=_all_overrides(overrides, data=data, tensorboard=tensorboard),
        resumes=resume,
        as_json=as_json,
        allows_other_kernels=allow_other_kernels,
        elsewhere=remote_switch(switch, wait_s=wait, processes=processes),
    )


@app.command("compare")
def _compare(  # noqa: PLR0913 - one parameter for each option
    *,
    config: _Config,
    algorithms: Annotated[str | None, algorithms_option()] = None,
    out: Annotated[
        Path | None,
        folder_option(
            "Where results go, a folder for each algorithm.  [default: "
            "runs/CONFIG-compared]"
        ),
    ] = None,
    overrides: _Overrides = [],  # noqa: B006 - typer copies it
    data: _Data = None,
    resume: _Resume = False,
    allow_other_kernels: _OtherKernels = False,
    tensorboard: _Tensorboard = False,
    as_json: AsJson = False,
) -> None:
    """Train with several algorithms, on the same data and network.

    \b
    Examples:
      fediac compare digits.toml
      fediac compare digits.toml --algorithms fediac,switchml,libra
      fediac compare digits.toml --algorithms fediac,my_file:Mine

    my_file.py must be in the current folder or installed. Mine is a class or function
    that may take n_clients (clients in a round) and dim (entries in an update), and
    returns a compressor. README and CONTRIBUTING show an example.
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.api.commands import compare_command

    compare_command(
        config,
        algorithms,
        out=out,
        overrides=_all_overrides(overrides, data=data, tensorboard=tensorboard),
        resumes=resume,
        as_json=as_json,
        allows_other_kernels=allow_other_kernels,
    )


@app.command("demo")
def _demo(
    *,
    out: Annotated[
        Path, folder_option("Where results go; an earlier demo there is replaced.")
    ] = Path("runs/demo"),
    rounds: Annotated[int, count_option("Rounds for each algorithm.", at_least=1)] = 12,
    as_json: AsJson = False,
) -> None:
    """Train a digit classifier with every algorithm and write a report.

    FediAC has the paper's settings, and in fediac-lean those of its preset lean.
    There are 20 clients, each with the digits of three real writers, a fast switch, and
    uplinks that follow traces from New York. The results are DIR/report.html and
    DIR/summary.json.
    """
    from fediac.runs.requirements import require_torch

    require_torch()
    from fediac.api.demo import run_demo

    run_demo(out, n_rounds=rounds, as_json=as_json)


@app.command("report")
def _report(
    *,
    runs: Annotated[
        list[Path],
        path_argument(
            "RUN",
            "a folder",
            "Folders of runs, or folders or .zip archives that contain runs up to two "
            "levels down.",
        ),
    ],
    output: Annotated[
        Path | None,
        file_option(
            "Where to write the report; - is standard output.  [default: report.html]",
            "--output",
            "-o",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="html|md|csv",
            help="What to write.  [default: what FILE's name ends in]",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="ACC",
            help="Accuracy at which to compare traffic: 0.63 or 63%.  [default: the "
            "runs' own target, or the highest whole percent that all reached]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a report about runs, as one offline HTML page, Markdown or CSV.

    The page begins with who needs the least traffic and time to the target accuracy,
    beside the best other algorithm. Then come everybody's traffic and time, charts of
    accuracy, bytes, entries, errors and times, and the settings. Runs that differ only
    in their seed are one line: mean and range. Unfinished runs are shown as far as they
    got. --json prints the same numbers.

    \b
    html  charts and tables in one file that needs no network
    md    the summary and the tables, without single rounds
    csv   every field of every round, one line per round

    \b
    Examples:
      fediac report runs/fediac
      fediac report runs/comparison -o comparison.html --target 63%
      fediac report runs/fediac runs/switchml --format md -o -
      fediac report results/runs/cifar10-iid.zip --target 63%
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.report.write import parse_format, write_report

    write_report(
        runs,
        output=output,
        kind=None if kind is None else parse_format(kind),
        target=target,
        as_json=as_json,
    )
