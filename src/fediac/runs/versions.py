"""What wrote a run: versions of the software, the commit, machine and kernels."""

import os
import platform
import subprocess
from pathlib import Path

import numpy as np
import torch

from fediac.console import own_version
from fediac.native import name_kernels

COMMIT_VARIABLE = "FEDIAC_COMMIT"

_SOURCE = Path(__file__).resolve().parents[3]
"""The top of the source tree, where this is one."""


def describe_versions(device: str) -> dict[str, str]:
    """Return what a run's ``config.toml`` says in ``[versions]``.

    Kernels are there on a GPU, too, because times depend on them.

    Args:
        device: ``cpu`` or ``cuda``: whose name the machine goes by.
    """
    versions = {
        "fediac": own_version(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "kernels": name_kernels(device),
        **describe_training(device),
    }
    commit = find_commit(_SOURCE)
    return versions if commit is None else versions | {"commit": commit}


def describe_training(device: str) -> dict[str, str]:
    """Return the part of `describe_versions` on which the last bits of a run depend.

    PyTorch and the libraries below it choose their code by the processor. This
    package's kernels have convolutions, which round in another order than PyTorch's, on
    a CPU alone: the others give the bits of what they replace.
    """
    trained_by = {"machine": name_machine(device), "torch": str(torch.__version__)}
    if device == "cuda":
        return trained_by
    capability = torch.backends.cpu.get_cpu_capability()
    return {"kernels": name_kernels(device), "torch_cpu": capability, **trained_by}


def find_commit(source: Path) -> str | None:
    """Return the commit of the code: ``$FEDIAC_COMMIT``, or that of a source tree.

    Where tracked files differ from the commit, it ends in ``-dirty``. An installed
    package is in no source tree; a repository that happens to be around it does not
    count.
    """
    given = os.environ.get(COMMIT_VARIABLE)
    if given:
        return given
    if not (source / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=source,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def name_machine(device: str) -> str:
    """Return the name of the GPU, or of the CPU where Linux tells it."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return (names[0].strip() if names else "") or platform.machine() or "unknown"
