from pathlib import Path

import pytest

from fediac.errors import StartError
from fediac.network.key_file import (
    BAD_KEY,
    find_keys,
    is_read_by_group,
    read_key_file,
)
from fediac.switch.keys import Keyring
from tests.support import refuses

ONE, OTHER = bytes(range(16)), bytes(range(64))
MAKES = "; python3 -c 'import secrets; print(secrets.token_hex(32))' makes one"
RULE = "a key must have 32 to 128 hexadecimal digits, two a byte, got "


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "switch.key"
    path.touch(mode=0o600)
    return path


def test_a_key_for_all_jobs_and_keys_of_some(path: Path) -> None:
    path.write_text(f"# comment\n{ONE.hex()}\n\n7 {OTHER.hex().upper()}  # of job 7\n")
    assert read_key_file(path) == Keyring(ONE, {7: OTHER})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": must have a key, got none"),
        ("0011", f" line 1: {RULE}4 digits{MAKES}"),
        ("secret" * 8, f" line 1: {RULE}something else{MAKES}"),
        ("0" * 33, f" line 1: {RULE}33 digits{MAKES}"),
        ("0" * 130, f" line 1: {RULE}130 digits{MAKES}"),
        (
            f"{ONE.hex()}\n{ONE.hex()}",
            " line 2: must be a key, once, or a job's number and its key",
        ),
        (
            f"{2**64} {ONE.hex()}",
            " line 1: must be a key, once, or a job's number and its key",
        ),
    ],
)
def test_what_is_no_key_is_refused_without_being_shown(
    path: Path, text: str, message: str
) -> None:
    path.write_text(text)
    with refuses(f"{path}{message}", StartError) as caught:
        read_key_file(path)
    assert caught.value.exit_code == BAD_KEY
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o644])
def test_a_key_that_everybody_can_use_is_refused(path: Path, mode: int) -> None:
    path.write_text(ONE.hex())
    path.chmod(mode)
    with refuses(
        f"{path}: everybody on this machine can use this file; run chmod 600 {path}",
        StartError,
    ):
        read_key_file(path)


def test_a_key_that_its_group_can_use_is_noticed(path: Path) -> None:
    path.write_text(ONE.hex())
    assert not is_read_by_group(path)
    path.chmod(0o640)
    assert is_read_by_group(path)
    assert read_key_file(path) == Keyring(ONE)


def test_a_key_in_the_environment_is_taken_but_not_two(path: Path) -> None:
    assert find_keys(None, {}) == Keyring()
    assert find_keys(None, {"FEDIAC_KEY": ""}) == Keyring()
    assert find_keys(None, {"FEDIAC_KEY": ONE.hex()}) == Keyring(ONE)
    with refuses("give a key file or FEDIAC_KEY, not both", StartError):
        find_keys(path, {"FEDIAC_KEY": ONE.hex()})
    with refuses(f"FEDIAC_KEY: {RULE}2 digits{MAKES}", StartError):
        find_keys(None, {"FEDIAC_KEY": "00"})
