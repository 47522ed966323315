import math
from pathlib import Path
from typing import Any

import pytest

from fediac.archives import write_archive
from fediac.compressors import FediAC
from fediac.errors import ConfigError
from fediac.runs.settings import (
    RunSettings,
    StopSettings,
    list_differing,
    read_settings,
)
from fediac.runs.settings.algorithm_tables import table_type
from tests.support import refuses
from tests.unit.runs.settings.files import parse, write


def test_an_empty_file_is_the_default_run(tmp_path: Path) -> None:
    assert read_settings(write(tmp_path, "")) == RunSettings()


def test_values_are_put_where_they_belong(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
algorithm = "switchml"
seed = 7
tuning = "none"
[clients]
n_participants = "25%"
[train]
lr = 1
steps = 4
[network]
switches = ["fast", "slow"]
[stop]
target = 0.5
[fediac]
bits = 10
threshold = "15%"
[switchml]
bits = 14
""",
    )
    settings = read_settings(path)
    assert (settings.algorithm, settings.seed, settings.tuning) == (
        "switchml",
        7,
        "none",
    )
    assert settings.clients.n_participants == "25%"
    assert settings.train.lr == 1.0
    assert isinstance(settings.train.lr, float)
    assert settings.train.steps == 4
    assert settings.network.switches == ("fast", "slow")
    assert settings.stop.target == 0.5
    assert settings.of("fediac") == table_type(FediAC)(bits=10, threshold="15%")
    assert settings.of("switchml").bits == 14


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"algoritm": "x"}, "'algoritm' in the top level; did you mean 'algorithm'?"),
        (
            {"fediac": {"treshold": 3}},
            "'treshold' in [fediac]; did you mean 'threshold'?",
        ),
        (
            {"train": {"epoch": 3}},
            "'epoch' in [train]; did you mean 'epochs'?",
        ),
        ({"fedavg": {"bits": 3}}, "'bits' in [fedavg]; there are none"),
        (
            {"clients": {"n": 3}},
            "'n' in [clients]; there are n_clients, n_participants, weights",
        ),
    ],
)
def test_unknown_keys_are_errors_with_the_nearest_name_or_all(
    table: dict[str, Any], text: str
) -> None:
    with refuses(f"run.toml: unknown key {text}", ConfigError):
        parse(table)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"seed": "1"}, "seed must be a whole number, got '1'"),
        ({"seed": True}, "seed must be a whole number, got True"),
        ({"seed": 1.0}, "seed must be a whole number, got 1.0"),
        (
            {"tuning": "global"},
            'tuning must be "local", "server" or "none", got \'global\'',
        ),
        ({"train": 3}, "train must be a table, got 3"),
        ({"train": {"lr": "0.1"}}, "train.lr must be a number, got '0.1'"),
        (
            {"save": {"tensorboard": 1}},
            "save.tensorboard must be true or false, got 1",
        ),
        (
            {"network": {"switches": "fast"}},
            "network.switches must be a list of strings, got 'fast'; write [\"fast\"]",
        ),
        (
            {"network": {"switches": [1]}},
            "network.switches must be a string, got 1",
        ),
        (
            {"fediac": {"bits": "tune"}},
            'fediac.bits must be a whole number, "auto", "tuned", "bound", "adaptive" '
            "or \"coarse\", got 'tune'",
        ),
        (
            {"clients": {"n_participants": 0.5}},
            "clients.n_participants must be a whole number or a share such as "
            '"5%", got 0.5; write "50%"',
        ),
        (
            {"fediac": {"n_votes": 2.0}},
            'fediac.n_votes must be a whole number, a share such as "5%", "auto" or '
            '"few", got 2.0',
        ),
        (
            {"fediac": {"n_votes": "many"}},
            "fediac.n_votes must be a whole number or a share such as 5%, got 'many'",
        ),
        (
            {"fediac": {"threshold": "120%"}},
            "fediac.threshold must be above 0% and at most 100%, got '120%'",
        ),
        (
            {"stop": {"target": 95}},
            "stop.target must be above 0 and at most 1, or a share such as "
            '"95%", got 95',
        ),
        (
            {"stop": {"target": "high"}},
            "stop.target must be above 0 and at most 1, or a share such as "
            "\"95%\", got 'high'",
        ),
    ],
)
def test_values_of_the_wrong_kind_say_what_is_right(
    table: dict[str, Any], text: str
) -> None:
    with refuses(f"run.toml: {text}", ConfigError):
        parse(table)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"data": {"beta": math.nan}}, "data.beta"),
        ({"libra": {"fade": math.nan}}, "libra.fade"),
        ({"stop": {"real_s": math.nan}}, "stop.real_s"),
    ],
)
def test_nan_is_no_setting_since_it_equals_nothing(
    table: dict[str, Any], key: str
) -> None:
    with refuses(f"run.toml: {key} must be a number, got nan", ConfigError):
        parse(table)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"train": {"batch_size": 2**63}}, "train.batch_size"),
        ({"save": {"checkpoint_every": 2**63}}, "save.checkpoint_every"),
        ({"fediac": {"n_votes": 2**63}}, "fediac.n_votes"),
        ({"fediac": {"n_votes": str(2**63)}}, "fediac.n_votes"),
        ({"fediac": {"bits": 2**63}}, "fediac.bits"),
        ({"train": {"lr": 2**63}}, "train.lr"),
    ],
)
def test_counts_have_63_bits(table: dict[str, Any], key: str) -> None:
    with refuses(f"run.toml: {key} must be below 2**63, got {2**63}", ConfigError):
        parse(table)


def test_a_seed_has_64_bits_and_counts_63() -> None:
    assert parse({"seed": 2**64 - 1}).seed == 2**64 - 1
    with refuses(f"run.toml: seed must be below 2**64, got {2**64}", ConfigError):
        parse({"seed": 2**64})
    text = "run.toml: seed must be below 2**64, got 4300 digits"
    with refuses(text, ConfigError):
        parse({"seed": 10**4299})
    assert parse({"train": {"batch_size": 2**63 - 1}}).train.batch_size == 2**63 - 1


TOO_DEEP = "tables and lists must be nested at most 10 deep, got more"
TOO_LONG = "numbers must have at most 4300 digits, got a longer one"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (f"{'[' * 5000}{']' * 5000}", TOO_DEEP),
        (f"{'[' * 300}{']' * 300}", TOO_DEEP),
        (f"{'{a=' * 11}1{'}' * 11}", TOO_DEEP),
        ("1" * 5000, TOO_LONG),
        ("-" + "1" * 5000, TOO_LONG),
    ],
)
def test_values_that_no_setting_has_are_blamed_on_their_place(
    tmp_path: Path, value: str, text: str
) -> None:
    path = write(tmp_path, f"seed = {value}\n")
    with refuses(f"{path}: {text}", ConfigError):
        read_settings(path)
    with refuses(f"--set seed: {text}", ConfigError):
        read_settings(write(tmp_path, ""), [f"seed={value}"])


def test_settings_may_be_inside_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "runs.zip"
    write_archive(archive, {"fediac/seed2/config.toml": b"\xef\xbb\xbfseed = 2\r\n"})
    path = archive / "fediac" / "seed2" / "config.toml"
    assert read_settings(path, ["train.lr=0.5"]).seed == 2
    for wrong, why in (
        (archive / "fediac" / "config.toml", "no such file or directory"),
        (archive, "is a directory"),
    ):
        with refuses(f"{wrong}: {why}", ConfigError):
            read_settings(wrong)


def test_settings_that_differ_are_named_by_their_keys() -> None:
    one = {"seed": 1, "data": {"name": "a", "beta": 0.5}, "stop": {"rounds": 3}}
    other = {"seed": 1, "data": {"name": "b", "beta": 0.5}, "stop": {"rounds": 4}}
    assert list_differing([one, other]) == ["data.name", "stop.rounds"]
    assert list_differing([one, other], but=("stop.",)) == ["data.name"]
    assert list_differing([one, one, {**one, "new": {"x": 1}}]) == ["new.x"]
    assert list_differing([one]) == []


def test_overrides_are_toml_or_else_strings(tmp_path: Path) -> None:
    path = write(tmp_path, "seed = 1\n[train]\nlr = 0.5\n")
    overrides = ["seed=2", "train.lr=0.25", "data.name=cifar10", "clients.n_clients=5"]
    overrides += ['network.switches=["slow"]', "fediac.n_votes=10%", "stop.target=0.5"]
    settings = read_settings(path, overrides)
    assert settings.seed == 2
    assert settings.train.lr == 0.25
    assert settings.data.name == "cifar10"
    assert settings.clients.n_clients == 5
    assert settings.network.switches == ("slow",)
    assert settings.of("fediac").n_votes == "10%"
    assert settings.stop.target == 0.5


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("seed", "--set must be key=value, got 'seed'"),
        ("=3", "--set must be key=value, got '=3'"),
        ("seed.deep=3", "--set: seed must be a whole number, got {'deep': 3}"),
        ("train=3", "--set: train must be a table, got 3"),
        ("train.lr=fast", "--set: train.lr must be a number, got 'fast'"),
        (
            "train.batch=1",
            "--set: unknown key 'batch' in [train]; did you mean 'batch_size'?",
        ),
    ],
)
def test_overrides_that_are_wrong_are_blamed_themselves(
    tmp_path: Path, override: str, text: str
) -> None:
    with refuses(text, ConfigError):
        read_settings(write(tmp_path, "seed = 1"), [override])


def test_an_override_within_what_is_no_table_is_refused(tmp_path: Path) -> None:
    message = "--set train.lr=1: 'train' is not a table"
    with refuses(message, ConfigError):
        read_settings(write(tmp_path, ""), ["train=3", "train.lr=1"])
    with refuses(message, ConfigError):
        read_settings(write(tmp_path, "train = 3"), ["train.lr=1"])


def test_a_file_is_blamed_for_what_it_says_itself(tmp_path: Path) -> None:
    path = write(tmp_path, "[fediac]\nn_votes = 2.0\nthreshold = 2\n")
    message = (
        'fediac.n_votes must be a whole number, a share such as "5%", "auto" or "few", '
        "got 2.0"
    )
    with refuses(f"{path}: {message}", ConfigError):
        read_settings(path, ["fediac.threshold=4"])
    settings = read_settings(path, ["fediac.n_votes=3"])  # what it says is not used
    assert settings.of("fediac") == table_type(FediAC)(n_votes=3, threshold=2)
    settings = read_settings(path, ["fediac={n_votes=3}"])
    assert settings.of("fediac") == table_type(FediAC)(n_votes=3)


@pytest.mark.parametrize("target", [0.95, "95%", " 95 %"])
def test_a_target_is_a_number_or_a_share(target: float | str) -> None:
    assert parse({"stop": {"target": target}}).stop.target == 0.95


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    with refuses(f"{missing}: no such file or directory", ConfigError):
        read_settings(missing)
    with refuses(f"{tmp_path}: is a directory", ConfigError):
        read_settings(tmp_path)
    broken = write(tmp_path, "seed = ")
    with pytest.raises(ConfigError, match=r"run\.toml: Invalid value"):
        read_settings(broken)
    broken.write_bytes(b"seed = '\xff'")
    with pytest.raises(ConfigError, match=r"run\.toml: settings must be a text file"):
        read_settings(broken)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xef\xbb\xbfseed = 3\n")
    assert read_settings(path).seed == 3


@pytest.mark.parametrize(
    ("text", "place", "share"),
    [
        ("[fediac]\nn_votes = 5%\n", "line 2, column 12", "5%"),
        ("[fediac]\r\n  n_votes=0.5 % # few\r\n", "line 2, column 15", "0.5%"),
        ("seed = 1\nfediac.n_votes = 12%", "line 2, column 20", "12%"),
    ],
)
def test_a_share_without_quotes_is_shown_with_them(
    tmp_path: Path, text: str, place: str, share: str
) -> None:
    path = write(tmp_path, text)
    with refuses(
        f"{path}: Expected newline or end of document after a statement (at {place}); "
        f'a share is a string, write "{share}"',
        ConfigError,
    ):
        read_settings(path)


@pytest.mark.parametrize(
    "text",
    [
        'algorithm = "a = 5%\n',
        "seed = 1 2  # = 5%\n",
        "[fediac]\nn_votes = %5\n",
        "[fediac",
    ],
)
def test_other_mistakes_get_no_word_about_shares(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"^((?!share).)*$"):
        read_settings(write(tmp_path, text))


def test_what_wrote_a_resolved_file_is_no_setting(tmp_path: Path) -> None:
    path = write(tmp_path, 'seed = 3\n[versions]\nfediac = "1"\n')
    assert read_settings(path).seed == 3


def test_a_run_ends_after_20_rounds_unless_something_else_ends_it() -> None:
    assert StopSettings().n_rounds == 20
    assert StopSettings(simulated_s=500.0).n_rounds is None
    assert StopSettings(rounds=3, target=0.9).n_rounds == 3


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    path.write_bytes(b"PK\x03\x04\xe2\x00")
    with refuses(
        f"{path}: settings must be a text file (TOML in UTF-8), got byte 0xe2 at 4",
        ConfigError,
    ):
        read_settings(path)
