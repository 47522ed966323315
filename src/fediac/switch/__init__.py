"""The data plane as hardware does it: integers, registers, one packet at a time."""

from fediac.native.packets import Room
from fediac.switch.counters import Counters
from fediac.switch.pipeline import Answers, Switch

__all__ = ["Answers", "Counters", "Room", "Switch"]
