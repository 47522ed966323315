"""Processes of a self-test with a mistake in them, which it must notice.

FEDIAC_MISTAKE in the environment says which; the kernels in C are off, so that the
mistake is in the code that runs.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

os.environ["FEDIAC_NATIVE"] = "0"

from fediac.compressors.protocol import Outcome
from fediac.selftest import child
from fediac.sessions.client import Attempt, Client
from fediac.sessions.messages import Step
from fediac.switch import control
from fediac.switch.pipeline import Answers, Switch
from fediac.switch.sessions import Session
from fediac.wire.header import HEADER_BYTES, Kind
from fediac.wire.tag import is_tag_right, tagged

_process = Switch.process


def _add_one(self: Switch, packets: Any, lengths: Any) -> Answers:
    """Return answers with another bit in the first byte behind each header."""
    answers = _process(self, packets, lengths)
    rows = answers.packets.copy()
    rows[answers.lengths > HEADER_BYTES, HEADER_BYTES] ^= 1
    return replace(answers, packets=rows)


def _accept_tags() -> None:
    """Take every tag for right but those of who asks how the switch does."""
    check = control.is_tag_right  # type: ignore[attr-defined] # what it imports
    others = {
        "check_tags": lambda rows, _lengths, _key: np.ones(len(rows), np.bool_),
        "is_tag_right": lambda data, key: data[3] != Kind.STATUS or check(data, key),
    }
    vars(control).update(others)


def _keep_what_counts() -> None:
    """Let clients keep an update that counts, too: it will be counted twice."""
    settle = Client._outcome

    def outcome(self: Client, attempt: Attempt, last: Step) -> Outcome:
        made, work = settle(self, attempt, last), self.holdings.work
        assert work is not None
        residual = made.state.residual + work.update
        return replace(made, state=replace(made.state, residual=residual))

    vars_of: Any = Client
    vars_of._outcome = outcome


_KEPT: list[bytes] = []


def _leak() -> None:
    """Let the switch keep something of every batch that arrives."""
    receive = control.ControlPlane.receive

    def receive_and_keep(self: Any, *given: Any) -> Any:
        _KEPT.append(os.urandom(1 << 18))
        return receive(self, *given)

    vars_of: Any = control.ControlPlane
    vars_of.receive = receive_and_keep


def _open_for_members() -> None:
    """Let who has a session's key open and close it, too."""
    coordinate = control.ControlPlane._coordinate

    def open_for_all(self: Any, address: bytes, data: bytes, *more: Any) -> Any:
        asked = more[0]
        keys = self._keys
        if is_tag_right(data, keys.session_key(asked.job, asked.session)):
            data = tagged(data, keys.opening_key(asked.job, asked.session))
        return coordinate(self, address, data, *more)

    vars_of: Any = control.ControlPlane
    vars_of._coordinate = open_for_all


MISTAKES: dict[str, Callable[[], Any]] = {
    "switch": lambda: setattr(Switch, "process", _add_one),
    "client": _keep_what_counts,
    "leak": _leak,
    "tags": _accept_tags,
    "openings": _open_for_members,
    "addresses": lambda: setattr(Session, "is_at", lambda *_: True),
    "cookies": lambda: setattr(control, "cookie_of", lambda *_: 7),
}


if __name__ == "__main__":
    MISTAKES[os.environ["FEDIAC_MISTAKE"]]()
    child.main(sys.argv[1:])
