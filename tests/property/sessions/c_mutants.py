"""Mistakes in the switch's C code: one library has all, and makes one at a time.

Its sources are those of the package, in which an expression that some mistake changes
asks first whether that mistake is to be made.
"""

import ctypes
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fediac.native import Kernels, library
from fediac.native.packets import DataPlane

SOURCES = Path(library.__file__).parent / "src"
NEEDED = (
    "isa.c",
    "lanes.c",
    "siphash.c",
    "siphash_lanes.c",
    "sums.c",
    "tally.c",
)
"""What the files of the switch take from others."""

CHOICE = "fediac_mistake"
NONE = 0


@dataclass(frozen=True)
class CChange:
    """Expressions of one file, and what stands there if the mistake is made."""

    file: str
    changes: Mapping[str, str]


def choose(text: str, changes: Mapping[str, Mapping[int, str]]) -> str:
    """Return C text in which a number decides what its expressions are."""
    for old, others in changes.items():
        assert text.count(old) == 1, f"there is {text.count(old)} times {old!r}"
        chosen = "".join(
            f"{CHOICE} == {number} ? ({new}) : " for number, new in others.items()
        )
        text = text.replace(old, f"({chosen}({old}))")
    return text.replace(
        '#include "switch.h"', f'#include "switch.h"\nextern int {CHOICE};'
    )


class MistakenSwitch:
    """The data plane in C, with mistakes.

    Args:
        mistakes: Name -> what is wrong.
        folder: Where the library is built.
    """

    def __init__(self, mistakes: Mapping[str, CChange], folder: Path) -> None:
        self._numbers = {name: i for i, name in enumerate(mistakes, start=1)}
        wanted: defaultdict[str, defaultdict[str, dict[int, str]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        for name, mistake in mistakes.items():
            for old, new in mistake.changes.items():
                wanted[mistake.file][old][self._numbers[name]] = new
        shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
        for file, changes in wanted.items():
            path = folder / file
            path.write_text(choose(path.read_text(), changes))
        (folder / "mistake.c").write_text(f"int {CHOICE};\n")
        loaded = ctypes.CDLL(str(_build(folder)))
        self._choice = ctypes.c_int.in_dll(loaded, CHOICE)
        self._plane = DataPlane(loaded)

    @contextmanager
    def making(self, name: str | None) -> Iterator[None]:
        """Let switches process packets with this mistake; None: without any."""
        plane = self._plane

        def process(_: Kernels, *arguments: Any, **settings: Any) -> Any:
            return plane.process_packets(*arguments, **settings)

        self._choice.value = self._numbers[name] if name is not None else NONE
        with patch.object(Kernels, "process_packets", process):
            yield


def _build(folder: Path) -> Path:
    files = sorted(each.name for each in folder.glob("switch*.c"))
    made = folder / "mistakes.so"
    command = ["cc", "-std=c11", "-O1", "-fPIC", "-shared", '-DFEDIAC_SOURCES=""']
    sources = [*files, *NEEDED, "mistake.c"]
    subprocess.run([*command, "-o", made, *sources, "-lm"], cwd=folder, check=True)
    return made
