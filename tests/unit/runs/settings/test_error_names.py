import pytest

from fediac.runs.settings.error_names import setting_names


@pytest.mark.parametrize(
    ("argument", "key"),
    [
        ("beta", "data.beta"),
        ("batch_size", "train.batch_size"),
        ("compute_s", "network.compute_s"),
        ("switch", "network.switches"),
        ("n_clients", "clients.n_clients"),
        ("threshold", None),  # an algorithm's own are called like that already
        ("n_sent", None),
    ],
)
def test_a_key_is_its_table_and_the_argument(argument: str, key: str | None) -> None:
    assert setting_names().get(argument) == key
