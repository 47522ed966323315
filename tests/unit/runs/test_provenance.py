from pathlib import Path

import pytest
import tomli_w

from fediac.errors import ConfigError
from fediac.runs.provenance import as_versions, read_writers
from tests.support import refuses

FIRST, SECOND = {"commit": "a"}, {"commit": "b"}


def write(tmp_path: Path, versions: object) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(tomli_w.dumps({"seed": 1, "versions": versions}))
    return path


def test_who_wrote_first_is_kept_when_another_goes_on(tmp_path: Path) -> None:
    assert as_versions(FIRST, ()) == FIRST
    assert as_versions(FIRST, [FIRST]) == FIRST
    both = {"commit": "b", "earlier": [FIRST]}
    assert as_versions(SECOND, [FIRST]) == both
    writers = read_writers(write(tmp_path, both))
    assert writers == (FIRST, SECOND)
    assert as_versions(SECOND, writers) == both
    assert as_versions(FIRST, writers) == {"commit": "a", "earlier": [SECOND]}


def test_nobody_is_named_in_settings_that_somebody_wrote_by_hand(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.toml"
    path.write_text("seed = 1\n")
    assert read_writers(path) == ()
    assert read_writers(write(tmp_path, {})) == ()


@pytest.mark.parametrize(
    ("versions", "why"),
    [
        (3, "versions must be a table, got 3"),
        ({"machine": 3}, "versions.machine must be a string, got 3"),
        ({"earlier": "me"}, "versions.earlier must be a list of tables, got 'me'"),
        ({"earlier": ["me"]}, "versions.earlier must be a list of tables, got ['me']"),
        ({"earlier": [{"commit": 1}]}, "versions.commit must be a string, got 1"),
    ],
)
def test_writers_that_have_no_names_are_refused(
    tmp_path: Path, versions: object, why: str
) -> None:
    path = write(tmp_path, versions)
    with refuses(f"{path}: {why}", ConfigError):
        read_writers(path)
