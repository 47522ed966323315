"""Transports that carry a round's exchanges, and the call that runs a round."""

from fediac.transports.aggregation import aggregate
from fediac.transports.vectors import RoundFacts, RoundResult
from fediac.transports.views import WIRE

__all__ = ["WIRE", "RoundFacts", "RoundResult", "aggregate"]
