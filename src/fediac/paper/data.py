"""Whether a scenario's data are there, before anything is run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fediac.errors import DatasetError
from fediac.paper.scenarios import Scenario
from fediac.training.datasets.catalog import (
    FOLDER_VARIABLE,
    find_folder,
    load_dataset,
)
from fediac.training.datasets.cifar import CIFAR10, CIFAR100, Release

_RELEASES: dict[str, Release] = {each.name: each for each in (CIFAR10, CIFAR100)}


@contextmanager
def data_folder(folder: Path | None) -> Iterator[None]:
    """Let runs find data in ``folder``, without writing its name to their settings.

    Stored settings stay the same, wherever the data are when a run is repeated.
    """
    before = os.environ.get(FOLDER_VARIABLE)
    if folder is not None:
        os.environ[FOLDER_VARIABLE] = str(folder)
    try:
        yield
    finally:
        if folder is not None:
            os.environ.pop(FOLDER_VARIABLE)
            if before is not None:
                os.environ[FOLDER_VARIABLE] = before


def can_download(scenario: Scenario) -> bool:
    """Return whether a scenario's data can be fetched when they are missing."""
    return scenario.settings.data.name in _RELEASES


def check_data(scenario: Scenario, *, may_download: bool) -> None:
    """Refuse a scenario whose data are missing, or fetch them.

    Raises:
        DatasetError: A file is missing; the message says which and what to do.
    """
    data = scenario.settings.data
    folder = find_folder(None if data.folder is None else Path(data.folder))
    needed = _needed_files(data.name, folder)
    missing = [path for path in needed if not path.exists()]
    if missing and may_download and can_download(scenario):
        load_dataset(data.name, folder, download=True)
        return
    if not missing:
        return
    ways = "give the folder that has it with --data"
    if can_download(scenario):
        ways += ", or add --download"
    raise DatasetError(f"{scenario.name}: needs {missing[0]}; {ways}")


def _needed_files(name: str, folder: Path) -> list[Path]:
    if name == "digits":
        return []
    if name in _RELEASES:
        archive = _RELEASES[name].archive
        return [folder / archive.folder / file for file in archive.sizes]
    if name == "femnist":
        return [folder / "femnist" / part for part in ("train", "test")]
    # Its owner may leave the longer ending off, as the data catalog allows.
    if (folder / f"{name}.npz").exists():
        return []
    return [folder / f"{name}_by_writer.npz"]
