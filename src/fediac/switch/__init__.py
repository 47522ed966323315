"""The data plane as hardware would do it: integers, registers, one packet a time."""

from fediac.switch.counters import Counters
from fediac.switch.pipeline import Answers, Switch

__all__ = ["Answers", "Counters", "Switch"]
