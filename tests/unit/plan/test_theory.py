import pytest

from fediac.core.bounds import Setting
from fediac.plan.theory import predict
from tests.support import refuses

SETTING = Setting(
    dim=11_173_962, n_clients=20, n_votes=558_698, threshold=3, alpha=-0.5
)


def test_without_bits_the_smallest_above_the_bound_is_used() -> None:
    theory = predict(SETTING)
    assert theory.min_bits == pytest.approx(12.37, abs=5e-3)
    assert theory.bits == 13
    assert theory.gamma < 1.0


def test_given_bits_are_used_even_when_too_few() -> None:
    theory = predict(SETTING, bits=12)
    assert theory.bits == 12
    assert theory.gamma > 1.0


def test_without_a_peak_the_law_has_its_own() -> None:
    assert predict(SETTING, phi=0.3) == predict(SETTING, phi=0.3, peak=0.3)


def test_the_share_and_the_payload_follow_from_what_is_chosen() -> None:
    theory = predict(SETTING)
    assert theory.expected_share == theory.expected_chosen / SETTING.dim
    n_bits = SETTING.dim + 13 * theory.expected_chosen
    assert theory.payload_bytes == 2 * 20 * n_bits / 8


def test_register_fills_are_those_of_a_dense_round() -> None:
    assert predict(SETTING).dense_register_fills == 45  # 11,173,962 / 250,000 = 44.7


def test_a_peak_that_no_width_is_enough_for_is_named() -> None:
    text = (
        "peak must be smaller relative to phi (1): no width of up to 64 bits is "
        "enough, got 1e+39"
    )
    with refuses(text):
        predict(SETTING, peak=1e39)
    assert predict(SETTING, peak=1e39, bits=64).gamma > 1.0
