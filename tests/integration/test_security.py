"""Where keys of running processes are not; and what the threat model names is there."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from fediac.cli.entry import app
from tests.integration.command import Command
from tests.switches import KEY, joined, running_switch

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_no_option_takes_a_key() -> None:
    import typer

    def options(command: object) -> list[str]:
        inner = getattr(command, "commands", {})
        own = [opt for each in command.params for opt in each.opts]  # type: ignore[attr-defined] # typer's
        return own + [opt for each in inner.values() for opt in options(each)]

    found = {name for name in options(typer.main.get_command(app)) if "key" in name}
    assert found == {"--key-file"}


def test_a_switch_says_nothing_of_its_key(fediac: Command, tmp_path: Path) -> None:
    path = tmp_path / "switch.key"
    path.write_text(KEY.hex() + "\n")
    path.chmod(0o600)
    for options, environment in (
        (("--key-file", str(path)), {}),
        ((), {"FEDIAC_KEY": KEY.hex()}),
    ):
        with running_switch(*options, **environment) as switch:
            with joined(switch.endpoint, key=KEY):
                first = json.dumps(switch.first)
                words = command_line(switch.process.pid)
            code, last, err = switch.stop()
        said = first + words + json.dumps(last) + err
        assert code == 0
        assert first.count("has_key") == 1
        assert KEY.hex() not in said
        assert KEY.hex()[:16] not in said
    wrong = fediac("switch", "--key-file", path, "--listen", "192.0.2.1:0")
    assert wrong.code == 5
    assert KEY.hex()[:16] not in wrong.out + wrong.err


def command_line(pid: int) -> str:
    """Return what every user of a machine can read of a process."""
    if sys.platform != "linux":
        return ""
    return (Path("/proc") / str(pid) / "cmdline").read_bytes().decode()


def test_what_the_threat_model_names_is_there() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    named = NAMED.findall(text)
    assert len(named) > 12
    for file, test in named:
        source = (ROOT / file).read_text()
        assert not test or f"def {test}(" in source, (file, test)
    alone = re.findall(r"`(test_\w+)`", text)
    everything = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for test in alone:
        assert f"def {test}(" in everything, test


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_what_clients_keep_is_theirs_alone(tmp_path: Path) -> None:
    from fediac.remote.journal_file import FileJournal

    journal = FileJournal(tmp_path / "journal")
    journal.close()
    assert (tmp_path / "journal").stat().st_mode & 0o077 == 0
