"""What the page on deployment says exists, and its Compose files are Compose files."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fediac.flower import CompressedStrategy

DOCS = Path(__file__).parents[2] / "docs"
COMPOSE = sorted((DOCS / "docker").glob("compose*.yml"))


def check_schema(file: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "check_jsonschema"]
    command += ["--builtin-schema", "vendor.compose-spec", "-o", "json", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("file", COMPOSE, ids=lambda each: each.name)
def test_compose_files_have_their_schema(file: Path, tmp_path: Path) -> None:
    assert check_schema(file).returncode == 0
    wrong = tmp_path / file.name  # the check itself can fail
    wrong.write_text(file.read_text().replace("restart:", "restrat:"))
    done = check_schema(wrong)
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "fail"


def test_there_are_compose_files() -> None:
    assert [each.name for each in COMPOSE] == ["compose.site.yml", "compose.yml"]


def test_the_page_s_settings_are_those_of_the_strategy() -> None:
    from flwr.serverapp.strategy import FedAvg

    text = (DOCS / "deploy.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    given = tomllib.loads(block)["tool"]["flwr"]["app"]["config"]["fediac"]
    config = {f"fediac.{name}": value for name, value in given.items()}
    assert CompressedStrategy.from_config(FedAvg(), config)


@pytest.mark.parametrize(
    "command", ["flower-superlink", "flower-supernode", "flwr list", "fediac switch"]
)
def test_the_page_s_options_are_those_of_the_commands(command: str) -> None:
    texts = [(DOCS / "deploy.md").read_text().replace("\\\n", " ")]
    texts += [re.sub(r"\n *- ", " ", each.read_text()) for each in COMPOSE]
    uses = [
        line
        for text in texts
        for line in text.splitlines()
        if command in line and "--" in line
    ]
    options = {name for use in uses for name in re.findall(r"--[a-z-]+", use)}
    assert options
    first, *rest = command.split()
    program = str(Path(sys.executable).parent / first)
    shown = subprocess.run(
        [program, *rest, "--help"], capture_output=True, text=True, timeout=60
    ).stdout
    missing = {each for each in options if each not in shown}
    assert not missing
