"""Transports that carry a round's exchanges, and the call that runs a round."""

from fediac.transports.aggregation import RoundFacts, RoundResult, aggregate
from fediac.transports.views import WIRE

__all__ = ["WIRE", "RoundFacts", "RoundResult", "aggregate"]
