import pickle

from fediac.errors import ArgumentError, say_count


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


def test_one_thing_is_not_called_like_several() -> None:
    assert [say_count(number, "client") for number in (0, 1, 2)] == [
        "0 clients",
        "1 client",
        "2 clients",
    ]
    assert say_count(1, "entry", "entries") == "1 entry"
    assert say_count(5, "entry", "entries") == "5 entries"
