import pytest

from fediac.paper.published import ROWS, find_row


@pytest.mark.parametrize(
    ("switch", "beside", "percent"),
    [
        ("fast", "CIFAR-10_IID", 69.91),
        ("fast", "CIFAR-10_non-IID", 65.88),
        ("fast", "FEMNIST", 41.14),
        ("fast", "CIFAR-100_IID", 52.54),
        ("fast", "CIFAR-100_non-IID", 65.45),
        ("slow", "CIFAR-10_IID", 69.37),
        ("slow", "CIFAR-10_non-IID", 66.72),
        ("slow", "FEMNIST", 64.62),
        ("slow", "CIFAR-100_IID", 54.08),
        ("slow", "CIFAR-100_non-IID", 69.32),
    ],
)
def test_published_traffic_gives_the_published_reduction(
    switch: str, beside: str, percent: float
) -> None:
    row = find_row(switch, beside)
    assert row is not None
    # The paper gives two decimals, of traffic that it rounded to whole MB.
    slack = 100.0 * (0.5 / row.second_mb) * 2.0 + 0.005
    assert 100.0 * row.saving == pytest.approx(percent, abs=slack)


def test_both_tables_have_the_same_rows() -> None:
    assert list(ROWS["fast"]) == list(ROWS["slow"])
    assert find_row("fast", None) is None
    assert find_row("1e6", "FEMNIST") is None
