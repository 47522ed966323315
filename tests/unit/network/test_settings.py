from pathlib import Path
from typing import Any

import pytest

from fediac.errors import ConfigError
from fediac.network.addresses import Endpoint
from fediac.network.settings import SwitchSettings, make_settings
from tests.support import refuses

FILE = Path("switch.toml")
LOCAL = Endpoint("127.0.0.1", 4900)


def test_without_anything_there_are_defaults() -> None:
    assert make_settings({}, {"listen": None}) == SwitchSettings(LOCAL, 1 << 20, 4)


def test_options_come_before_the_file_and_that_before_defaults() -> None:
    table = {"listen": "[::1]:1", "memory": 5000, "key_file": "a", "insecure": True}
    settings = make_settings(table, {"listen": "[::1]:2", "http": "9100"}, file=FILE)
    assert settings == SwitchSettings(
        Endpoint("::1", 2),
        5000,
        key_file=Path("a"),
        http=Endpoint("127.0.0.1", 9100),
        insecure=True,
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"key_files": 1}, "unknown key 'key_files'; did you mean 'key_file'?"),
        ({"listen": 4900}, "listen must be a string, got 4900"),
        ({"max_jobs": True}, "max_jobs must be a whole number, got True"),
        ({"insecure": "yes"}, "insecure must be true or false, got 'yes'"),
        (
            {"memory": "1 MiBs"},
            "memory must be a size such as 1MiB, 64KiB or 500000, got '1 MiBs'",
        ),
    ],
)
def test_a_wrong_setting_is_named_with_its_file(
    table: dict[str, Any], message: str
) -> None:
    with refuses(f"switch.toml: {message}", ConfigError):
        make_settings(table, {}, file=FILE)


def test_a_wrong_option_is_named_as_it_is_typed() -> None:
    with refuses("--max-jobs must be a whole number, got '4'", ConfigError):
        make_settings({}, {"max_jobs": "4"})
