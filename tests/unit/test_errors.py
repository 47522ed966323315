from fediac.errors import say_count


def test_one_thing_is_not_called_like_several() -> None:
    assert [say_count(number, "client") for number in (0, 1, 2)] == [
        "0 clients",
        "1 client",
        "2 clients",
    ]
    assert say_count(1, "entry", "entries") == "1 entry"
    assert say_count(5, "entry", "entries") == "5 entries"
