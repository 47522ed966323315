"""Shares of a class follow the Dirichlet law.

By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, the empirical
distribution function of n independent values strays from the true one by more than
sqrt(ln(2 / p) / 2n) with probability at most p. One client's shares of n classes are
such values, of law Beta(β, (N − 1) β). The false-alarm rate is 1e-6 for the six
settings together, which allows n = 20,000 classes a distance of 0.0202. A law at twice
that distance, such as a β of 0.6 for 0.5, is missed at most once in a million times.
"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta as beta_law

from fediac.core.rng import Stream
from fediac.partition import draw_shares

N_CLASSES, N_CLIENTS = 20_000, 5
SETTINGS = [(beta, client) for beta in (0.1, 0.5, 5.0) for client in (0, 4)]
ALLOWED = math.sqrt(math.log(2 * len(SETTINGS) / 1e-6) / (2 * N_CLASSES))


def distance(shares: NDArray[np.float64], beta: float) -> float:
    """The largest gap between the shares' distribution function and the law's."""
    law = beta_law.cdf(np.sort(shares), beta, (N_CLIENTS - 1) * beta)
    steps = np.arange(N_CLASSES + 1) / N_CLASSES
    below, above = law - steps[:-1], steps[1:] - law
    return float(max(np.max(below), np.max(above)))


def shares_of(beta: float) -> NDArray[np.float64]:
    stream = Stream(12, round_number=0, client=0)
    return draw_shares(N_CLASSES, N_CLIENTS, beta=beta, draw=0, stream=stream)


@pytest.mark.parametrize(("beta", "client"), SETTINGS)
def test_share_of_a_client_follows_the_law(beta: float, client: int) -> None:
    assert distance(shares_of(beta)[:, client], beta) < ALLOWED


@pytest.mark.parametrize("beta", [0.1, 0.5, 5.0])
def test_check_rejects_plain_uniforms_over_their_sum(beta: float) -> None:
    uniforms = np.random.default_rng(3).random((N_CLASSES, N_CLIENTS))
    wrong = uniforms / np.sum(uniforms, axis=1, keepdims=True)
    assert distance(wrong[:, 0], beta) > ALLOWED


def test_check_rejects_a_beta_a_fifth_too_large() -> None:
    assert distance(shares_of(0.6)[:, 0], 0.5) > ALLOWED
