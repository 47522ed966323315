"""The command line as a test runs it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fediac.cli import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


class Command:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Result:
        with pytest.raises(SystemExit) as caught:
            main([str(each) for each in arguments])
        out, err = self._capsys.readouterr()
        return Result(int(caught.value.code or 0), out, err)

    def json(self, *arguments: str | Path) -> dict[str, Any]:
        result = self(*arguments, "--json")
        assert (result.code, result.err) == (0, "")
        document: dict[str, Any] = json.loads(result.out)
        return document
