"""How a partition is shown: sizes, and a hash by which two people compare theirs."""

from collections.abc import Mapping
from typing import Any

N_DIGITS = 16
"""Digits of the hash: enough to tell two splits apart; summary.json has all."""


def describe_partition(facts: Mapping[str, Any]) -> str:
    """Return what a run's summary says about its partition, in one line."""
    return (
        f"{facts['name']} partition: {facts['n_used']:,} of {facts['n_examples']:,} "
        f"examples, {facts['min_size']:,} to {facts['max_size']:,} a client, sha256 "
        f"{facts['sha256'][:N_DIGITS]}..."
    )
