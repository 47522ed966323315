"""Settings as a file or a table has them."""

from pathlib import Path
from typing import Any

from fediac.runs.settings import RunSettings, parse_run


def parse(table: dict[str, Any]) -> RunSettings:
    return parse_run(table, source="run.toml")


def write(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path
