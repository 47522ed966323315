import pytest

from fediac.experiments.output import as_mib, as_percent


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0.0, "0 MiB"),
        (0.5 * 2**20, "0.5000 MiB"),
        (639.43 * 2**20, "639.4 MiB"),
        (123_456.7 * 2**20, "123,457 MiB"),
    ],
)
def test_mebibytes_show_four_digits(n_bytes: float, text: str) -> None:
    assert as_mib(n_bytes) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.0826, "8.26 %"), (1.0, "100 %"), (4.2e-6, "0.00042 %")]
)
def test_shares_are_shown_in_percent(share: float, text: str) -> None:
    assert as_percent(share) == text
