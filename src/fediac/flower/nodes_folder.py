"""A folder of the server's machine, where simulated nodes keep what they hold.

Flower's simulation has the states of all nodes in one process. With a residual in each
of them, its memory would grow with every node that takes part for the first time.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path

from flwr.serverapp import Grid

MARK = "fediac-nodes"
"""A file that the folder has: nodes of other machines have none of its name."""

MANY = 100
"""A simulation of so many nodes keeps them in files by itself."""


class NodesFolder:
    """Says where nodes keep what they hold, once there are many of them.

    Args:
        setting: ``auto``: in files where a simulation has many nodes; ``memory``: in
            Flower's state; else a folder.
        folder: Where the server's own journal is, if it has one.
    """

    def __init__(self, setting: str, folder: Path | None) -> None:
        self._setting, self._folder = setting, folder
        self._is_simulation = False
        self._path: Path | None = None

    def begin(self, grid: Grid) -> None:
        """Learn whether nodes are simulated, which is in this process then."""
        # By its name: it is internal, and has moved between versions of Flower.
        self._is_simulation = type(grid).__name__ == "InMemoryGrid"

    def path_for(self, nodes: Iterable[int]) -> str:
        """Return the folder that nodes are told of; empty: none."""
        if self._path is None and self._is_wanted(nodes):
            self._path = self._make()
        return "" if self._path is None else str(self._path)

    def _is_wanted(self, nodes: Iterable[int]) -> bool:
        if self._setting != "auto":
            return self._setting != "memory"
        return self._is_simulation and len(list(nodes)) >= MANY

    def _make(self) -> Path:
        """Return a folder that exists; one that nobody has named goes in the end."""
        if self._setting != "auto":
            path = Path(self._setting).absolute()
        elif self._folder is not None:
            path = self._folder.absolute() / "nodes"
        else:
            path = Path(tempfile.mkdtemp(prefix="fediac-nodes-", dir=_on_disk()))
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        path.mkdir(parents=True, exist_ok=True)
        (path / MARK).touch()
        return path


def _on_disk() -> str | None:
    """Return where temporary files are not in memory, as those of /tmp may be."""
    has_named = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    is_usable = os.access("/var/tmp", os.W_OK)
    return "/var/tmp" if is_usable and not has_named else None
