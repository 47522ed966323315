"""A line in a notebook that changes while a run goes on.

Nothing is needed for it that a notebook has not got: what IPython shows can be shown
anew under its name.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

_SHOWN_EVERY_S = 0.25


class NotebookLine:
    """A line below the cell that runs, and nothing where there is no notebook."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._display = None if is_quiet else _find_display()
        self._shown: Any = None
        self._next_s = 0.0

    def show(self, say: Callable[[], str], *, is_due: bool = False) -> None:
        """Show what ``say`` says; unless it is due, at most a few times a second."""
        now = time.monotonic()
        if self._display is None or (not is_due and now < self._next_s):
            return
        content = {"text/plain": say()}
        self._next_s = now + _SHOWN_EVERY_S
        if self._shown is None:
            self._shown = self._display(content, raw=True, display_id=True)
        else:
            self._shown.update(content, raw=True)


def _find_display() -> Any:  # noqa: ANN401 - IPython's own function
    """Return what shows something in a notebook, None outside of one.

    It is not imported: who runs in a notebook has IPython already.
    """
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    return sys.modules["IPython.display"].display
