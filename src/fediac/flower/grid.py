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
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

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
        waiting = set(self.push_messages(messages))
        until_s = None if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        pause_s = _FIRST_PAUSE_S
        while waiting:
            found = list(self.pull_messages(waiting)) if waiting else []
            replies += found
            waiting -= {each.metadata.reply_to_message_id for each in found}
            if until_s is not None and time.monotonic() >= until_s:
                break
            if waiting:
                pause_s = _FIRST_PAUSE_S if found else min(1.5 * pause_s, _MAX_PAUSE_S)
                time.sleep(pause_s)
        return replies
