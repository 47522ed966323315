import pickle

import pytest

from fediac.errors import ArgumentError, ConfigError, TraceError, named, say_count
from tests.support import refuses

NAMES = {"n_clients": "--clients", "threshold": "--threshold"}


def test_an_argument_error_says_its_argument_first() -> None:
    error = ArgumentError("n_votes", "must be at least 1, got 0")
    assert str(error) == "n_votes must be at least 1, got 0"
    assert isinstance(error, ValueError)


def test_an_argument_error_can_be_told_with_the_reader_s_name() -> None:
    error = ArgumentError("lr", "must be finite and above 0, got 0.0")
    assert (
        str(error.called("train.lr")) == "train.lr must be finite and above 0, got 0.0"
    )
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_argument_is_called_what_the_user_calls_it() -> None:
    text = "--threshold must be in 1..20 (n_clients), got 0"
    with refuses(text, ConfigError), named(NAMES):
        raise ArgumentError("threshold", "must be in 1..20 (n_clients), got 0")


def test_one_that_the_user_did_not_give_keeps_its_name() -> None:
    with refuses("bits must be at most 32, got 33", ArgumentError), named(NAMES):
        raise ArgumentError("bits", "must be at most 32, got 33")


def test_other_errors_stay_what_they_are() -> None:
    with refuses("threshold: no rates in it", TraceError), named(NAMES):
        raise TraceError("threshold: no rates in it")
    with pytest.raises(KeyError, match="threshold"), named(NAMES):
        raise KeyError("threshold")


def test_one_thing_is_not_called_like_several() -> None:
    assert [say_count(number, "client") for number in (0, 1, 2)] == [
        "0 clients",
        "1 client",
        "2 clients",
    ]
    assert say_count(1, "entry", "entries") == "1 entry"
    assert say_count(5, "entry", "entries") == "5 entries"
