"""What a switch is started with: options of the command, or a settings file."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fediac.core.shares import parse_bytes
from fediac.defaults import REGISTER_BYTES
from fediac.errors import ArgumentError, ConfigError, hint_name
from fediac.network.addresses import Endpoint

DEFAULT_LISTEN = "127.0.0.1:4900"
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class SwitchSettings:
    """How a switch is started.

    Attributes:
        listen: Where it takes packets; port 0: any that is free.
        memory: Register bytes for all jobs.
        max_jobs: Jobs at a time; each has an equal part of the memory.
        key_file: Keys of the jobs, see `fediac.network.key_file`.
        http: Where it shows a page and metrics; None: nowhere.
        insecure: Whether it may do without a key where others reach it.
    """

    listen: Endpoint
    memory: int = REGISTER_BYTES
    max_jobs: int = 4
    key_file: Path | None = None
    http: Endpoint | None = None
    insecure: bool = False


def make_settings(
    table: Mapping[str, Any], options: Mapping[str, Any], *, file: Path | None = None
) -> SwitchSettings:
    """Return the settings of a file, and over them those options that were given.

    Args:
        table: What the file holds.
        options: Name of a setting -> value; None: not given.
        file: Where the table is from, for errors.
    """
    names = [each.name for each in fields(SwitchSettings)]
    for name in table:
        if name not in names:
            hint = hint_name(name, names)
            raise ConfigError(f"{file}: unknown key {name!r}{hint}")
    given = {name: value for name, value in options.items() if value is not None}
    read: dict[str, Any] = {"listen": _read("listen", DEFAULT_LISTEN, "listen")}
    for name, value in table.items():
        read[name] = _read(name, value, f"{file}: {name}")
    for name, value in given.items():
        read[name] = _read(name, value, f"--{name.replace('_', '-')}")
    return SwitchSettings(**read)


def _read(name: str, value: object, called: str) -> object:
    """Return a setting as the program needs it."""
    if name in ("listen", "http", "key_file") and not isinstance(value, str):
        raise ConfigError(f"{called} must be a string, got {value!r}")
    if name == "max_jobs" and (not isinstance(value, int) or isinstance(value, bool)):
        raise ConfigError(f"{called} must be a whole number, got {value!r}")
    if name == "insecure" and not isinstance(value, bool):
        raise ConfigError(f"{called} must be true or false, got {value!r}")
    try:
        return _parse(name, value)
    except ArgumentError as error:
        raise ConfigError(str(error.called(called))) from None


def _parse(name: str, value: Any) -> object:  # noqa: ANN401 - any setting's
    match name:
        case "listen":
            return Endpoint.parse(value, name=name)
        case "http":
            text = value if ":" in value or not value.isdigit() else f":{value}"
            return Endpoint.parse(text, name=name, default_host=_LOOPBACK)
        case "memory":
            return value if isinstance(value, int) else parse_bytes(value, name=name)
        case "key_file":
            return Path(value)
        case _:
            return value
