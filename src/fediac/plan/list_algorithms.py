"""``fediac list``: every algorithm's name and one line about it."""

from fediac.compressors import CATALOG
from fediac.console import open_console, write_json
from fediac.docstrings import read_summary


def list_algorithms(*, as_json: bool) -> None:
    """Print every algorithm's name and the first line of its class's docstring."""
    if as_json:
        algorithms = [
            {"name": name, "summary": read_summary(kind)}
            for name, kind in CATALOG.items()
        ]
        write_json({"algorithms": algorithms})
        return
    console = open_console()
    for name, kind in CATALOG.items():
        console.print(f"{name:<12}{read_summary(kind)}")
    console.print("module:name Your own class or function, in all commands that train")
