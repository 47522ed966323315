import pytest

from fediac.errors import ConfigError, TraceError, UpdateError
from fediac.runs.error_names import named, rename
from tests.support import refuses

NAMES = {"n_clients": "--clients", "n_votes": "--votes", "threshold": "--threshold"}
NAMES |= {"per_client": "--each", "register_bytes": "network.register_bytes"}


@pytest.mark.parametrize(
    ("message", "renamed"),
    [
        (
            "threshold must be in 1..20 (n_clients), got 0",
            "--threshold must be in 1..20 (--clients), got 0",
        ),
        ("n_votes must be at least 1, got 0", "--votes must be at least 1, got 0"),
        (
            "no threshold keeps gamma below 1 with n_votes = 3",
            "no threshold keeps gamma below 1 with --votes = 3",
        ),
        (
            "class 3 has 2 examples; lower n_clients or per_client",
            "class 3 has 2 examples; lower --clients or --each",
        ),
        (
            "network.register_bytes must be at least 3072, got 10",
            "network.register_bytes must be at least 3072, got 10",
        ),
        ("bits must be at most 32, got 33", "bits must be at most 32, got 33"),
    ],
)
def test_arguments_are_renamed_where_they_are_no_prose(
    message: str, renamed: str
) -> None:
    assert rename(message, NAMES) == renamed


@pytest.mark.parametrize(
    "message",
    [
        "threshold.toml: unknown key 'n_votes'",
        "runs/n_votes/config.toml: not TOML",
        "unknown dataset 'per_client.npz'",
        "no per_client.npz in /data",
        "threshold: holds a run already",
    ],
)
def test_what_the_user_gave_is_left_as_it_is(message: str) -> None:
    assert rename(message, NAMES) == message


def test_errors_inside_are_renamed() -> None:
    with (
        refuses("--votes must be at least 1, got 0", ConfigError),
        named(NAMES),
    ):
        raise ValueError("n_votes must be at least 1, got 0")


def test_training_that_diverged_is_no_wrong_setting() -> None:
    with (
        refuses("not finite, a lower rate (train.lr) may help", UpdateError),
        named({"lr": "train.lr"}),
    ):
        raise UpdateError("not finite, a lower rate (lr) may help")


def test_other_errors_stay_what_they_are() -> None:
    with refuses("up.csv: no rates in it", TraceError), named(NAMES):
        raise TraceError("up.csv: no rates in it")
    with pytest.raises(KeyError, match="n_votes"), named(NAMES):
        raise KeyError("n_votes")
