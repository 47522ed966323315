"""The ``fediac`` command: argument parsing only; `experiments` does the work."""

import sys
from collections.abc import Sequence

__all__ = ["main"]

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; Ctrl-C is one line at any moment, imports included."""
    try:
        from fediac.cli.entry import run_app

        run_app(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(INTERRUPTED)
