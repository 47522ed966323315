"""The application that every command adds itself to.

Commands import what they need when they run, so that help does not wait for NumPy.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

_ORDER = (
    "demo",
    "run",
    "compare",
    "report",
    "switch",
    "selftest",
    "paper",
    "simulate",
    "motivation",
    "round",
    "theory",
    "tune",
    "bench",
    "list",
    "doctor",
)


class _Ordered(TyperGroup):
    """Lists commands in the order in which a newcomer needs them."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - of typer's own
        names = super().list_commands(ctx)
        places = {name: place for place, name in enumerate(_ORDER)}
        return sorted(names, key=lambda name: places.get(name, len(_ORDER)))


app = typer.Typer(
    name="fediac",
    cls=_Ordered,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.")
]


def _show_version(*, is_asked: bool) -> None:
    if is_asked:
        from fediac.console import own_version

        typer.echo(f"fediac {own_version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _fediac(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=lambda is_asked: _show_version(is_asked=is_asked),
        ),
    ] = False,
) -> None:
    """In-network federated learning with voting-based consensus compression.

    \b
    Start with
      fediac demo                     train with every algorithm and write a report
      fediac run CONFIG.toml          train with one, from a settings file
      fediac COMMAND --help           what a command's options and numbers mean
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
