"""The ``fediac`` command: argument parsing only."""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fediac.errors import INTERRUPTED

__all__ = ["main"]

TERMINATED = 143
"""The exit code of a command that SIGTERM ended."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; Ctrl-C ends it with one line, even during imports.

    So does SIGTERM, with an exit code of its own.
    """
    with _stopping_at_sigterm():
        try:
            from fediac.cli.entry import run_app

            run_app(arguments)
        except KeyboardInterrupt:
            sys.stderr.write("stopped\n")
            sys.exit(INTERRUPTED)


@contextmanager
def _stopping_at_sigterm() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that a preempted job loses no round.

    A handler that is already there is left alone.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    came: list[int] = []

    def stop(number: int, _frame: object) -> None:
        # Some schedulers send it twice; the second must not stop a checkpoint.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        came.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except SystemExit as ended:
        if came and ended.code == INTERRUPTED:
            sys.exit(TERMINATED)
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
