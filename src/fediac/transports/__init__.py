"""Transports that carry a round's exchanges, and the call that runs a round."""

from fediac.transports.aggregate import Aggregate, RoundFacts, aggregate
from fediac.transports.views import WIRE

__all__ = ["WIRE", "Aggregate", "RoundFacts", "aggregate"]
