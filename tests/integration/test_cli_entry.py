"""The way into the commands and out of them: help, usage, exit codes, imports."""

import builtins
import json
import os
import signal
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from fediac.cli import main
from fediac.cli.entry import app, describe_usage
from fediac.native import dispatch, library
from fediac.runs.settings import RunSettings, read_settings
from tests.integration.command import Command, Result

COMMANDS = [str(info.name) for info in app.registered_commands]


def test_the_version_is_that_of_the_package(fediac: Command) -> None:
    assert fediac("--version") == Result(0, f"fediac {version('fediac')}\n", "")


def test_without_a_command_there_is_help(
    fediac: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = fediac()
    assert (result.code, result.err) == (0, "")
    assert result == fediac("--help")
    _, _, commands = result.out.partition("Commands:\n")
    lines = commands.splitlines()
    assert {line.split()[0] for line in lines} >= set(COMMANDS)
    assert not any(line.endswith("...") for line in lines)
    assert lines[0].split()[0] == "demo"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(fediac: Command, command: str) -> None:
    result = fediac(command, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"Usage: fediac {command}")


@pytest.mark.parametrize(
    ("arguments", "message", "command"),
    [
        (["tain"], "no such command 'tain'", "fediac"),
        (
            ["simulat"],
            "no such command 'simulat'; did you mean 'simulate'?",
            "fediac",
        ),
        (["--quiet"], "no such option: --quiet", "fediac"),
        (["run"], "missing argument 'CONFIG.toml'", "fediac run"),
        (
            ["run", "a.toml", "--resum"],
            "no such option: --resum; did you mean --resume?",
            "fediac run",
        ),
        (["run", "a", "b"], "got unexpected extra argument (b)", "fediac run"),
        (["report"], "missing argument 'RUN'", "fediac report"),
        (
            ["simulate", "--switch"],
            "option '--switch' requires an argument",
            "fediac simulate",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line_and_where_help_is(
    fediac: Command, arguments: list[str], message: str, command: str
) -> None:
    result = fediac(*arguments)
    lines = f"error: {message}\nsee {command} --help\n"
    # Typer's versions do not agree on whether one argument is several.
    found = result.err.replace("argument(s)", "argument")
    assert (result.code, result.out, found) == (2, "", lines)


def test_numbers_beyond_what_is_counted_are_one_line(fediac: Command) -> None:
    result = fediac("simulate", "--algorithm=topk", "--dim=1e11", "--clients=1024")
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert line.startswith("error: one of the numbers is too large or too small (")


def test_a_terminal_without_some_character_shows_the_rest() -> None:
    run = Path(__file__).parents[2] / "results" / "runs" / "cifar10-iid.zip" / "fedavg"
    done = subprocess.run(
        [sys.executable, "-m", "fediac", "report", run / "seed1", "--format=md", "-o-"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"20 clients ? 11,173,962 parameters" in done.stdout


@pytest.mark.parametrize("n_levels", [100, 5000, 100_000])
def test_files_that_are_nested_too_deeply_are_one_line(
    fediac: Command, tmp_path: Path, n_levels: int
) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(f"a = {'[' * n_levels}{']' * n_levels}\n")
    text = "tables and lists must be nested at most 10 deep, got more"
    assert fediac("run", path) == Result(2, "", f"error: {path}: {text}\n")


@pytest.mark.parametrize(
    ("line", "name", "what"),
    [
        ("run", "CONFIG.toml", "a file"),
        ("compare", "CONFIG.toml", "a file"),
        ("run config.toml --data", "--data", "a folder"),
        ("compare config.toml --data", "--data", "a folder"),
        ("report", "RUN", "a folder"),
        ("report runs", "RUN", "a folder"),
        ("report runs -o", "--output", "a file"),
        ("paper table1 --quick --data", "--data", "a folder"),
        ("tune", "UPDATES", "a file or a folder"),
        ("simulate --plot", "--plot", "a file"),
        ("motivation --plot", "--plot", "a file"),
    ],
)
@pytest.mark.parametrize("path", ["", " "])
def test_a_path_that_is_empty_is_not_the_current_folder(
    fediac: Command, line: str, name: str, what: str, path: str
) -> None:
    assert fediac(*line.split(), path) == Result(
        2, "", f"error: {name} must name {what}, got {path!r}\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "run config.toml --out made",
        "compare config.toml --out made",
        "demo --out made",
        "paper fig-noniid --quick --out made",
        "round --dim=1000",
        "bench --dim=1000",
        "doctor",
    ],
)
@pytest.mark.parametrize("value", ["2", "false"])
def test_a_wrong_environment_is_one_line_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fediac: Command,
    line: str,
    value: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").touch()
    monkeypatch.setattr(library, "_loader", library._Loader())
    monkeypatch.setattr(dispatch, "_switch", dispatch._Switch())
    monkeypatch.setenv("FEDIAC_NATIVE", value)
    assert fediac(*line.split()) == Result(
        2, "", f"error: FEDIAC_NATIVE must be 0 or 1, got {value!r}\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


def test_a_number_that_is_none_is_shown(fediac: Command) -> None:
    result = fediac("paper", "fig-noniid", "--until", "noon")
    assert result == Result(2, "", "error: --until must be a number, got 'noon'\n")


def test_an_unknown_format_or_list_says_what_there_is(fediac: Command) -> None:
    assert fediac("report", "runs", "--format", "pdf") == Result(
        2, "", "error: --format must be html or md or csv, got 'pdf'\n"
    )
    assert fediac("list", "models") == Result(
        2, "", "error: WHAT must be algorithms or settings, got 'models'\n"
    )


@pytest.mark.parametrize("columns", [None, 80, 60])
@pytest.mark.parametrize(
    "line",
    [
        "list",
        "doctor",
        "theory --dim=1e9 --clients=20 --n-votes=5% --threshold=3 --alpha=-0.4",
        "simulate --dim=20000 --clients=3 --rounds=2",
        "motivation --sizes=1000,20000 --clients=3",
        "round --dim=20000 --clients=3",
        "bench --dim=2000",
    ],
)
def test_nothing_is_cut_off(
    fediac: Command, monkeypatch: pytest.MonkeyPatch, line: str, columns: int | None
) -> None:
    if columns is not None:
        monkeypatch.setenv("COLUMNS", str(columns))
    result = fediac(*line.split())
    assert (result.code, result.err) == (0, "")
    assert "\u2026" not in result.out
    if columns is not None:
        assert max(map(len, result.out.splitlines())) <= columns


@pytest.mark.parametrize(
    "line",
    [
        "run config.toml",
        "run config.toml --resume",
        "compare config.toml",
        "demo",
        "paper table1 --quick",
        "paper table1 --quick --dry-run",
        "paper table1 --no-run",
    ],
)
def test_out_is_a_folder(
    fediac: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").touch()
    Path("afile").write_text("mine\n")
    for out, message in (
        ("afile", "--out must be a folder, got afile, which is a file"),
        ("", "--out must name a folder, got ''"),
        (" ", "--out must name a folder, got ' '"),
    ):
        result = fediac(*line.split(), "--out", out)
        assert (result.code, result.out, result.err) == (2, "", f"error: {message}\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["afile", "config.toml"]
    assert Path("afile").read_text() == "mine\n"


class TestSettings:
    def test_the_list_is_a_settings_file_of_defaults(
        self, fediac: Command, tmp_path: Path
    ) -> None:
        result = fediac("list", "settings")
        assert (result.code, result.err) == (0, "")
        assert max(map(len, result.out.splitlines())) <= 80
        path = tmp_path / "all.toml"
        path.write_text(result.out)
        assert read_settings(path) == RunSettings()

    def test_every_key_has_a_type_a_default_and_a_meaning(
        self, fediac: Command
    ) -> None:
        found = {
            each["key"]: each for each in fediac.json("list", "settings")["settings"]
        }
        assert found["fediac.n_votes"] == {
            "key": "fediac.n_votes",
            "table": "fediac",
            "name": "n_votes",
            "kind": 'a whole number, a share such as "5%", "auto" or "few"',
            "default": "auto",
            "meaning": "Entries a client votes for (k): a count, or a share of all "
            "entries. 'auto' is the paper's 5 % and 'few' 3 %, but at least 1,024 "
            "entries, or all there are: fewer save no packet, and in models of a few "
            "thousand entries they cost much of the progress.",
        }
        assert found["train.lr_decay"]["meaning"].endswith("; 0: it stays at 'lr'.")
        assert found["stop.target"]["default"] is None
        assert found["network.switches"]["default"] == ["fast"]
        assert all(each["meaning"].endswith(".") for each in found.values())
        text = fediac("list", "settings").out
        named = {
            f"{table}.{key}"
            for table, keys in tomllib.loads(text).items()
            if isinstance(keys, dict)
            for key in keys
        }
        assert named <= set(found)


def test_ctrl_c_while_importing_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    really = builtins.__import__

    def interrupt(name: str, *args: Any, **named: Any) -> Any:
        if name == "fediac.cli.entry":
            raise KeyboardInterrupt
        return really(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", interrupt)
    with pytest.raises(SystemExit) as ended:
        main(["list"])
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "stopped\n")


def test_ctrl_c_in_a_command_is_one_line(
    fediac: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*, as_json: bool) -> None:
        raise KeyboardInterrupt(as_json)

    monkeypatch.setattr("fediac.plan.doctor.run_doctor", interrupt)
    assert fediac("doctor") == Result(130, "", "stopped\n")


def test_sigterm_in_a_command_does_what_ctrl_c_does(
    fediac: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    went_on = []

    def terminate(*, as_json: bool) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)  # as some schedulers do
            went_on.append(as_json)

    monkeypatch.setattr("fediac.plan.doctor.run_doctor", terminate)
    assert fediac("doctor") == Result(143, "", "stopped\n")
    assert went_on == [False]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_sigterm_that_is_there_stays(
    fediac: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = []

    def terminate(*, as_json: bool) -> None:
        assert not as_json
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("fediac.plan.doctor.run_doctor", terminate)
    before = signal.signal(signal.SIGTERM, lambda *_: came.append("mine"))
    try:
        assert fediac("doctor") == Result(0, "", "")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == ["mine"]


def test_an_argument_is_called_what_help_calls_it() -> None:
    error = typer.BadParameter("path 'x' is not readable", param_hint="CONFIG.toml")
    assert describe_usage(error) == "CONFIG.toml: path 'x' is not readable"
    assert describe_usage(typer.BadParameter("Too many.")) == "invalid value: Too many"


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_command_may_have_nowhere_to_write(closed: str) -> None:
    options = "--dim=9 --clients=2 --n-votes=3 --threshold=1 --alpha=-1"
    code = f"""
import sys
sys.{closed} = None
from fediac.cli.entry import run_app
run_app(["theory", *{options.split()}])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ("gamma" in ended.stdout) == (closed == "stderr")


def test_a_command_runs_in_any_thread(fediac: Command) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(fediac, "--version").result().code == 0


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "no space left on device"),
        (
            PermissionError(13, "Permission denied", "r.html"),
            "r.html: permission denied",
        ),
        (MemoryError(), "not enough memory for this"),
        (
            MemoryError("Unable to allocate 1 PiB"),
            "not enough memory for this (Unable to allocate 1 PiB)",
        ),
        (ValueError("two\nlines"), "two lines"),
    ],
)
def test_what_goes_wrong_inside_is_one_line(
    fediac: Command, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def fail(*, as_json: bool) -> None:
        assert not as_json
        raise error

    monkeypatch.setattr("fediac.plan.doctor.run_doctor", fail)
    assert fediac("doctor") == Result(2, "", f"error: {message}\n")


IMPORTED = """
import json, sys
from fediac.cli import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    names = ("numpy", "scipy.stats", "torch", "matplotlib", "jinja2")
    found = [name for name in names if name in sys.modules]
    sys.stderr.write(json.dumps(found))
"""


def imported_by(*arguments: str | Path) -> list[str]:
    """What of the slow packages a command imports."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(done.stderr.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("arguments", "modules"),
    [
        (["--help"], []),
        (["run", "--help"], []),
        (["--version"], []),
        (["list", "settings"], ["numpy"]),
        (["run"], []),
        (["simulate", "--dim=1000", "--clients=2"], ["numpy"]),
        (["round", "--dim=1000", "--clients=2"], ["numpy"]),
    ],
)
def test_commands_import_only_what_they_need(
    arguments: list[str], modules: list[str]
) -> None:
    assert imported_by(*arguments) == modules


def test_wrong_settings_are_found_before_pytorch_is_imported(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text("[train]\nlr = 'fast'\n")
    assert "torch" not in imported_by("run", config)
    config.write_text("algorithm = 'fediak'\n")
    assert "torch" not in imported_by("run", config)
    assert "torch" not in imported_by("compare", config, "--algorithms=fediak")
