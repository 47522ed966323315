"""The systemd unit and the Dockerfile: the commands in them start a switch."""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.switches import KEY, RunningSwitch, running_switch

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "fediac-switch.service"
PROGRAM = "/opt/fediac/bin/fediac"
ANYWHERE = ("--listen", "[::1]:0", "--http", "0")
"""Options that no two tests fight over."""

INSTRUCTIONS = [
    "FROM",
    "RUN",
    "COPY",
    "USER",
    "EXPOSE",
    "STOPSIGNAL",
    "HEALTHCHECK",
    "CMD",
    "ENTRYPOINT",
]


def unit_lines(name: str) -> list[str]:
    """Return what the unit says of a name."""
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    return [each.partition("=")[2] for each in lines if each.startswith(f"{name}=")]


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions and what follows each."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and line[0] != "#"]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def options_of(command: Sequence[str]) -> list[str]:
    """Return a command's options behind `fediac switch --json`."""
    assert list(command[:3]) == [PROGRAM, "switch", "--json"]
    return list(command[3:])


def test_the_unit_starts_a_switch(tmp_path: Path) -> None:
    key_file = tmp_path / "switch.key"
    key_file.write_text(KEY.hex())
    key_file.chmod(0o400)
    (command,) = unit_lines("ExecStart")
    command = command.replace("${CREDENTIALS_DIRECTORY}", str(tmp_path))
    command = command.replace("/etc/fediac", str(DEPLOY))
    options = options_of(shlex.split(command))
    with running_switch(*options, *ANYWHERE) as switch:
        assert switch.first["register_bytes"] == 4 << 20
        assert switch.first["has_key"]
        code, last, _ = switch.stop()
    assert (code, last["event"]) == (0, "stopped")


def test_the_unit_does_not_start_again_what_is_set_wrongly() -> None:
    (codes,) = unit_lines("RestartPreventExitStatus")
    assert codes.split() == ["2", "4", "5", "6"]
    assert unit_lines("Restart") == ["on-failure"]


def test_systemd_has_nothing_to_say_of_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd: systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    unit.write_text(text.replace(PROGRAM, sys.executable))
    done = subprocess.run(
        [program, "verify", unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_container_starts_a_switch_as_nobody_special() -> None:
    given = instructions()
    assert {name for name, _ in given} <= set(INSTRUCTIONS)
    said = dict(given)
    assert said["USER"] == "fediac"
    options = options_of(json.loads(said["ENTRYPOINT"]) + json.loads(said["CMD"]))
    with running_switch(*options, *ANYWHERE, FEDIAC_KEY=KEY.hex()) as switch:
        assert switch.first["has_key"]
        check = json.loads(said["HEALTHCHECK"].partition("CMD ")[2])
        assert is_healthy(check, switch)
        switch.stop()
        assert not is_healthy(check, switch)


def is_healthy(check: Sequence[str], switch: RunningSwitch) -> bool:
    """Return what the container's check says of a switch."""
    assert check[:2] == ["python", "-c"]
    code = check[2].replace("127.0.0.1:9100", switch.first["page"])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False
    )
    return done.returncode == 0


def test_the_container_has_all_that_is_needed_to_build() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    kept = [line[1:] for line in ignored.splitlines() if line.startswith("!")]
    root = DEPLOY.parent
    assert all((root / each).exists() for each in kept)
    assert {"pyproject.toml", "CMakeLists.txt", "src", "constraints.txt"} <= set(kept)
