"""Flower's way to the clients, asked more often whether they have answered.

Flower's own looks every three seconds, which is most of a short message round.
"""

import time
from collections.abc import Iterable
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.01, 0.5


class PromptGrid(Grid):
    """A grid around another one, which waits in short pauses.

    Args:
        grid: Carries the messages.
        enough: With so many replies it waits no longer than ``grace_s`` for others.
        grace_s: None: it waits for all of them, as Flower does.
    """

    def __init__(
        self, grid: Grid, *, enough: int = 1, grace_s: float | None = None
    ) -> None:
        self._grid = grid
        self._enough, self._grace_s = enough, grace_s

    def set_run(self, run: Any) -> None:  # noqa: ANN401 - Flower's
        """Say which run this is."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:  # noqa: ANN401 - Flower's
        """The run."""
        return self._grid.run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:  # noqa: ANN401 - Flower's
        """Return a message."""
        return self._grid.create_message(*args, **kwargs)

    def get_node_ids(self) -> Iterable[int]:
        """Return who is there."""
        found: Iterable[int] = self._grid.get_node_ids()
        return found

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages."""
        sent: Iterable[str] = self._grid.push_messages(messages)
        return sent

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that have come."""
        found: Iterable[Message] = self._grid.pull_messages(message_ids)
        return found

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages; return the replies that come in time."""
        sent = self.push_messages(messages)
        grace = None if self._grace_s is None else (self._enough, self._grace_s)
        return collect(self._grid, sent, timeout=timeout, grace=grace)


def collect(
    grid: Grid,
    ids: Iterable[str],
    *,
    timeout: float | None,
    grace: tuple[int, float] | None = None,
) -> list[Message]:
    """Return the replies to messages, as many as come in time.

    Args:
        grid: Has sent them.
        ids: Their numbers.
        timeout: Seconds; None: until all are here.
        grace: After so many replies, wait for others no longer than so many seconds.
    """
    waiting = set(ids)
    until_s = None if timeout is None else time.monotonic() + timeout
    replies: list[Message] = []
    pause_s = _FIRST_PAUSE_S
    while waiting:
        found = list(grid.pull_messages(waiting))
        replies += found
        waiting -= {each.metadata.reply_to_message_id for each in found}
        if grace is not None and len(replies) >= grace[0]:
            end_s = time.monotonic() + grace[1]
            until_s, grace = end_s if until_s is None else min(until_s, end_s), None
        if until_s is not None and time.monotonic() >= until_s:
            break
        if waiting:
            pause_s = _FIRST_PAUSE_S if found else min(1.5 * pause_s, _MAX_PAUSE_S)
            time.sleep(pause_s)
    return replies
