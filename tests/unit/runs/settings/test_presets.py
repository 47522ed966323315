"""A preset in a settings file, and with ``--set``."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from fediac.compressors import CATALOG, FediAC
from fediac.compressors.settings import presets_of, setting_fields
from fediac.errors import ConfigError
from fediac.runs.algorithm import make_named
from fediac.runs.loop import run_experiment
from fediac.runs.settings import by_key, read_settings
from fediac.runs.settings.algorithm_tables import table_type
from fediac.runs.settings.listing import list_keys
from fediac.runs.settings.presets import KEY
from tests.support import refuses
from tests.tiny import make_settings, read_lines
from tests.unit.runs.settings.files import parse, write

LEAN: Any = table_type(FediAC)(**FediAC.PRESETS["lean"].settings)


def test_a_preset_is_resolved_when_a_file_is_read(tmp_path: Path) -> None:
    settings = read_settings(write(tmp_path, '[fediac]\npreset = "lean"\n'))
    assert settings.of("fediac") == LEAN
    assert settings.train.statistics == "recalibrate"


def test_the_other_keys_of_the_table_stand_above_it() -> None:
    settings = parse({"fediac": {"preset": "lean", "n_votes": "1%", "clip": 3}})
    assert settings.of("fediac").n_votes == "1%"
    assert settings.of("fediac").clip == 3.0
    assert settings.of("fediac").law == "topk"


def test_a_file_that_says_how_statistics_are_kept_is_followed() -> None:
    table = {"fediac": {"preset": "lean"}, "train": {"statistics": "average"}}
    assert parse(table).train.statistics == "average"
    table["train"] = {"lr": 0.5}  # type: ignore[dict-item] # as a file has it
    settings = parse(table)
    assert settings.train.statistics == "recalibrate"
    assert settings.train.lr == 0.5


def test_statistics_are_those_of_every_algorithm_of_the_run() -> None:
    table = {"algorithm": "switchml", "fediac": {"preset": "lean"}}
    assert parse(table).train.statistics == "recalibrate"


def test_the_preset_of_the_paper_changes_nothing_else() -> None:
    table = {"fediac": {"preset": "paper"}, "train": {"statistics": "recalibrate"}}
    settings = parse(table)
    assert settings.of("fediac") == table_type(FediAC)(n_votes="5%", bits="bound")
    assert settings.train.statistics == "recalibrate"


def test_a_preset_with_set_takes_the_place_of_the_files_table(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "[fediac]\nn_votes = 7\nfade = 0.5\nclip = 4\n"
        '[train]\nstatistics = "average"\nlr = 0.5\n',
    )
    settings = read_settings(path, ["fediac.preset=lean", "fediac.threshold=3"])
    expected = {**FediAC.PRESETS["lean"].settings, "threshold": 3}
    assert settings.of("fediac") == table_type(FediAC)(**expected)
    assert settings.train.statistics == "recalibrate"
    assert settings.train.lr == 0.5
    settings = read_settings(path, ["fediac.preset=lean", "train.statistics=average"])
    assert settings.train.statistics == "average"
    settings = read_settings(path, ["fediac.preset=paper"])
    assert settings.of("fediac") == table_type(FediAC)(n_votes="5%", bits="bound")
    assert settings.train.statistics == "average"


def test_set_may_change_a_setting_above_the_files_preset(tmp_path: Path) -> None:
    path = write(tmp_path, '[fediac]\npreset = "lean"\nclip = 4\n')
    settings = read_settings(path, ["fediac.n_votes=1%"])
    assert settings.of("fediac").n_votes == "1%"
    assert settings.of("fediac").clip == 4.0
    assert settings.of("fediac").law == "topk"


@pytest.mark.parametrize(
    ("preset", "text"),
    [
        ("leen", "'leen'; did you mean 'lean'?"),
        ("fast", "'fast'"),
        (3, "3"),
    ],
)
def test_an_unknown_preset_names_those_there_are(
    tmp_path: Path, preset: object, text: str
) -> None:
    message = f'fediac.preset must be "paper" or "lean", got {text}'
    with refuses(f"run.toml: {message}", ConfigError):
        parse({"fediac": {"preset": preset}})
    with refuses(f"--set: {message}", ConfigError):
        read_settings(write(tmp_path, ""), [f"fediac.preset={preset}"])


def test_algorithms_without_presets_have_no_such_key() -> None:
    message = "run.toml: unknown key 'preset' in [switchml]"
    with pytest.raises(ConfigError) as caught:
        parse({"switchml": {"preset": "lean"}})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("algorithm", CATALOG)
def test_presets_name_settings_there_are(algorithm: str) -> None:
    kind = CATALOG[algorithm]
    names = {each.name for each in setting_fields(kind)}
    assert KEY not in names
    runs = {key.path for key in list_keys()}
    for preset in presets_of(kind).values():
        assert set(preset.settings) <= names
        assert set(preset.beside) <= runs


def test_presets_are_among_the_keys_that_are_listed() -> None:
    keys = {key.path: key for key in list_keys()}
    listed = keys["fediac.preset"]
    assert listed.kind == '"paper" or "lean"'
    assert listed.default is None
    assert all(preset.meaning in listed.meaning for preset in FediAC.PRESETS.values())
    assert "train.statistics = 'recalibrate'" in listed.meaning
    assert "switchml.preset" not in keys


def test_commands_that_make_one_algorithm_take_a_preset() -> None:
    made = make_named("fediac", ["preset=lean"], n_clients=20, dim=1000)
    assert made == FediAC.lean(20)


@pytest.mark.parametrize(
    ("n_clients", "n_participants"), [(1, 1), (2, 2), (3, 3), (4, "50%")]
)
def test_a_run_with_the_preset_writes_down_what_it_stands_for(
    tmp_path: Path, n_clients: int, n_participants: int | str
) -> None:
    settings = make_settings(
        tmp_path / "data",
        model={"name": "tests.tiny:normed_model"},
        clients={"n_clients": n_clients, "n_participants": n_participants},
        fediac={"preset": "lean", "n_votes": "20%", "threshold": "40%"},
    )
    run_experiment(settings, tmp_path / "run", resumes=False)
    stored = by_key(read_config(tmp_path / "run"))
    for name, value in FediAC.PRESETS["lean"].settings.items():
        changed = {"n_votes": "20%"}.get(name, value)
        assert stored[f"fediac.{name}"] == changed
    assert stored["train.statistics"] == "recalibrate"
    assert "fediac.preset" not in stored
    lines = read_lines(tmp_path / "run")
    assert all(each["chosen"] > 0 for each in lines)
    again = read_settings(tmp_path / "run" / "config.toml")
    assert again.of("fediac") == settings.of("fediac")


def read_config(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = tomllib.loads((folder / "config.toml").read_text())
    return document
