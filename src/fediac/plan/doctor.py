"""What this machine has, and what installing each missing part would bring."""

import importlib.util
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

from rich.table import Table

from fediac import native
from fediac.console import count, open_console, own_version, write_json


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        is_there: Whether it was found.
        found: What was found, in words.
        brings: What it is good for.
    """

    name: str
    is_there: bool
    found: str
    brings: str


def _native() -> Finding:
    isa = native.isa()
    threads = count(native.n_threads(), "thread")
    found = f"{isa}, {threads}" if isa else "not built or turned off"
    return Finding(
        "native kernels",
        isa is not None,
        found,
        "faster rounds on a CPU; fediac bench shows by how much",
    )


def _torch() -> Finding:
    try:
        found = version("torch")
    except PackageNotFoundError:
        found = "not installed"
    brings = "training, and tensors as updates (pip install 'fediac[train]')"
    return Finding("torch", found != "not installed", found, brings)


def _cuda() -> Finding:
    name, is_there = "torch is missing", False
    if importlib.util.find_spec("torch"):
        import torch

        is_there = torch.cuda.is_available()
        name = torch.cuda.get_device_name() if is_there else "none found"
    return Finding("CUDA", is_there, name, "training and aggregation on the GPU")


def _chromium() -> Finding:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    return Finding(
        "chromium",
        path is not None,
        path or "not on the PATH",
        "the test that opens the report in a browser",
    )


def _package(name: str, brings: str) -> Callable[[], Finding]:
    def look() -> Finding:
        try:
            return Finding(name, True, version(name), brings)  # noqa: FBT003 - a field
        except PackageNotFoundError:
            return Finding(name, False, "not installed", brings)  # noqa: FBT003

    return look


_LOOKS: tuple[Callable[[], Finding], ...] = (
    _native,
    _torch,
    _cuda,
    _package(
        "triton", "faster rounds on the GPU; comes with PyTorch's CUDA builds on Linux"
    ),
    _package("matplotlib", "pictures: --plot (pip install 'fediac[plot]')"),
    _package(
        "tensorboard", "TensorBoard logs of runs (pip install 'fediac[tensorboard]')"
    ),
    _chromium,
)


def examine() -> list[Finding]:
    """Return what this machine has, the most important first."""
    return [look() for look in _LOOKS]


def run_doctor(*, as_json: bool) -> None:
    """Print what this machine has."""
    findings = examine()
    if as_json:
        machine = {"python": platform.python_version(), "fediac": own_version()}
        write_json({**machine, "findings": [asdict(each) for each in findings]})
        return
    console = open_console()
    console.print(f"fediac {own_version()} on Python {platform.python_version()}")
    table = Table("", "piece")
    for heading in ("found", "brings"):
        table.add_column(heading, overflow="fold")
    for each in findings:
        mark = "yes" if each.is_there else "no"
        table.add_row(mark, each.name, each.found, each.brings)
    console.print(table)
