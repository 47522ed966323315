"""The data plane as hardware does it: integers, registers, one packet at a time."""

from fediac.switch.counters import Counters
from fediac.switch.pipeline import Answers, Switch

__all__ = ["Answers", "Counters", "Switch"]
