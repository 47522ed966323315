"""Processes of a self-test with a mistake in them, which it must notice.

FEDIAC_MISTAKE in the environment says which; the kernels in C are off, so that the
mistake is in the code that runs.
"""

import os
import sys
from dataclasses import replace
from typing import Any

os.environ["FEDIAC_NATIVE"] = "0"

from fediac.selftest import child
from fediac.switch.pipeline import Answers, Switch
from fediac.wire.header import HEADER_BYTES

_process = Switch.process


def _add_one(self: Switch, packets: Any, lengths: Any) -> Answers:
    """Return answers with another bit in the first byte behind each header."""
    answers = _process(self, packets, lengths)
    rows = answers.packets.copy()
    rows[answers.lengths > HEADER_BYTES, HEADER_BYTES] ^= 1
    return replace(answers, packets=rows)


MISTAKES = {"switch": lambda: setattr(Switch, "process", _add_one)}


if __name__ == "__main__":
    MISTAKES[os.environ["FEDIAC_MISTAKE"]]()
    child.main(sys.argv[1:])
