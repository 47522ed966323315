"""The application that every command adds itself to, and the way out of it."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from fediac.errors import FediacError

app = typer.Typer(
    name="fediac",
    help="In-network federated learning with voting-based consensus compression.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.")
]


@app.callback()
def _fediac() -> None:
    """In-network federated learning with voting-based consensus compression."""


def run_app(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; what a user did wrong is one line and exit code 2."""
    try:
        app(arguments, prog_name="fediac")
    except (FediacError, ValueError, OSError, MemoryError) as error:
        message = " ".join(str(error).split())
        sys.stderr.write(f"error: {message}\n")
        sys.exit(2)
