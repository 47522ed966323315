import os
from pathlib import Path

import pytest

from fediac.errors import DatasetError
from fediac.paper import data as data_module
from fediac.paper.data import check_data, data_folder
from fediac.paper.scenarios import find_scenario
from tests.support import refuses


@pytest.mark.parametrize(
    ("name", "file", "ways"),
    [
        (
            "cifar10-iid",
            "cifar-10-batches-bin/data_batch_1.bin",
            "give the folder that has it with --data, or add --download",
        ),
        (
            "cifar100-noniid",
            "cifar-100-binary/train.bin",
            "give the folder that has it with --data, or add --download",
        ),
        ("femnist", "femnist/train", "give the folder that has it with --data"),
        (
            "unipen62",
            "unipen62_by_writer.npz",
            "give the folder that has it with --data",
        ),
    ],
)
def test_missing_data_are_named_with_a_way_out(
    tmp_path: Path, name: str, file: str, ways: str
) -> None:
    scenario = find_scenario(name)
    with (
        data_folder(tmp_path),
        refuses(f"{name}: needs {tmp_path / file}; {ways}", DatasetError),
    ):
        check_data(scenario, may_download=False)


@pytest.mark.parametrize("file", ["unipen62_by_writer.npz", "unipen62.npz"])
def test_data_that_are_there_are_not_missed(tmp_path: Path, file: str) -> None:
    (tmp_path / file).touch()
    with data_folder(tmp_path):
        check_data(find_scenario("unipen62"), may_download=False)
        check_data(find_scenario("digits"), may_download=False)


def test_only_what_has_an_address_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def load(name: str, folder: Path, *, download: bool) -> None:
        asked.append((name, folder, download))

    monkeypatch.setattr(data_module, "load_dataset", load)
    with data_folder(tmp_path):
        check_data(find_scenario("cifar10-iid"), may_download=True)
        with pytest.raises(DatasetError):
            check_data(find_scenario("unipen62"), may_download=True)
    assert asked == [("cifar10", tmp_path, True)]


@pytest.mark.parametrize("before", [None, "/before"])
def test_the_data_folder_is_set_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv("FEDIAC_DATA", raising=False)
    if before is not None:
        monkeypatch.setenv("FEDIAC_DATA", before)
    with data_folder(tmp_path):
        assert os.environ["FEDIAC_DATA"] == str(tmp_path)
    assert os.environ.get("FEDIAC_DATA") == before
    with data_folder(None):
        assert os.environ.get("FEDIAC_DATA") == before
