"""run, compare, demo and report: training from settings to a page to look at."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.cli.options import (
    count_option,
    file_option,
    folder_option,
    path_argument,
)

_Config = Annotated[Path, path_argument("CONFIG.toml", "a file", "The settings.")]
_Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting: train.lr=0.05, stop.rounds=10. May be repeated.",
    ),
]
_Data = Annotated[
    Path | None,
    folder_option(
        "The data folder, as data.folder.  [default: $FEDIAC_DATA or ~/.cache/fediac]"
    ),
]
_Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on with an interrupted run, to the same bits."),
]
_OtherKernels = Annotated[
    bool,
    typer.Option(
        "--allow-other-kernels",
        help="Go on with --resume though kernels, processor or PyTorch are others; the "
        "last bits change, and the report says so.",
    ),
]
_Tensorboard = Annotated[
    bool,
    typer.Option(
        "--tensorboard", help="Also write TensorBoard logs, as save.tensorboard does."
    ),
]


def _all_overrides(
    overrides: list[str], *, data: Path | None, tensorboard: bool
) -> list[str]:
    """Return the options that stand for a setting as overrides too."""
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
    as_json: AsJson = False,
) -> None:
    """Train one algorithm as a TOML file says, and write all down.

    The folder gets config.toml (all settings, resolved), rounds.jsonl (a line a round),
    summary.json, model.safetensors and a checkpoint. Ctrl-C, or SIGTERM of a scheduler,
    leaves a run that --resume continues.

    \b
    A small configuration; every key has a default, 'fediac list settings' shows all:
      algorithm = "fediac"     # or your own file's class or function: "my_file:Mine"
      [data]
      name = "digits"          # inside the package; cifar10, cifar100, ...
      [clients]
      n_clients = 20
      n_participants = "50%"   # of the clients in a round; a number counts: 10
      [network]
      switches = ["fast", "slow"]
      [stop]
      rounds = 20
      target = 0.9             # or "90%"
      [fediac]
      n_votes = "5%"           # a share is a string; a number is a count
      threshold = 3

    \b
    Examples:
      fediac run digits.toml
      fediac run digits.toml --set algorithm=libra --set seed=2 --out runs/libra-2
      fediac run digits.toml --set 'network.switches=["fast", "slow"]'
      fediac run digits.toml --resume
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.api.commands import run_command

    run_command(
        config,
        out=out,
        overrides=_all_overrides(overrides, data=data, tensorboard=tensorboard),
        resumes=resume,
        as_json=as_json,
        allows_other_kernels=allow_other_kernels,
    )


@app.command("compare")
def _compare(  # noqa: PLR0913 - one parameter for each option
    *,
    config: _Config,
    algorithms: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Names, see 'fediac list', or module:name of your own; all of the "
            "list by default.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        folder_option(
            "Gets a folder for each algorithm.  [default: runs/CONFIG-compared]"
        ),
    ] = None,
    overrides: _Overrides = [],  # noqa: B006 - typer copies it
    data: _Data = None,
    resume: _Resume = False,
    allow_other_kernels: _OtherKernels = False,
    tensorboard: _Tensorboard = False,
    as_json: AsJson = False,
) -> None:
    """Train several algorithms on the same data and network.

    \b
    Examples:
      fediac compare digits.toml
      fediac compare digits.toml --algorithms fediac,switchml,libra
      fediac compare digits.toml --algorithms fediac,my_file:Mine

    my_file.py is in the current folder or installed. Mine is a class or function that
    is called with what it takes of n_clients (in a round) and dim (entries of an
    update), and returns a compressor; README and CONTRIBUTING show one.
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
    out: Annotated[Path, folder_option("Where results go; made anew.")] = Path(
        "runs/demo"
    ),
    rounds: Annotated[int, count_option("Rounds of each algorithm.", at_least=1)] = 10,
    as_json: AsJson = False,
) -> None:
    """Train on digits with every algorithm, and write a page about it.

    20 clients with the digits of three real writers each, a fast switch, uplinks that
    follow New York traces. Ends with DIR/report.html and DIR/summary.json.
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
            "Folders that runs wrote, or folders with runs up to 2 folders down.",
        ),
    ],
    output: Annotated[
        Path | None,
        file_option(
            "Where to write; - is standard output.  [default: report.html]",
            "--output",
            "-o",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="html|md|csv",
            help="What to write.  [default: by FILE's name]",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="ACC",
            help="Accuracy to compare traffic at: 0.63 or 63%.  [default: the runs' "
            "own, or the highest whole percent that all reached]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write what runs did as one offline page, Markdown or CSV.

    The page has a summary in words, traffic and time to the target accuracy, charts
    of accuracy, bytes, entries, errors and times, and the settings. Runs that are not
    finished are shown as far as they got.

    \b
    html  charts and tables in one file; needs no network
    md    the summary and the tables, without rounds
    csv   every field of every round, a line each

    \b
    Examples:
      fediac report runs/fediac
      fediac report runs/comparison -o comparison.html --target 63%
      fediac report runs/fediac runs/switchml --format md -o -
      fediac report results/runs/cifar10-iid --target 63%
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.report.write import parse_format, write_report

    write_report(
        runs,
        output=output,
        kind=None if kind is None else parse_format(kind),
        target=target,
        as_json=as_json,
    )
