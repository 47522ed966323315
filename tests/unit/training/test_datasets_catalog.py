from pathlib import Path

import numpy as np
import pytest

from fediac.errors import ConfigError, DatasetError
from fediac.training.datasets import cifar, load_dataset
from fediac.training.datasets.catalog import find_folder
from tests.support import refuses
from tests.unit.training.files import (
    by_writer_arrays,
    leaf_user,
    small,
    write_cifar,
    write_leaf,
)


def write_own(folder: Path, file: str) -> None:
    # The stubs take array names for the flag.
    np.savez(folder / file, **by_writer_arrays())  # type: ignore[arg-type]


@pytest.mark.parametrize("file", ["letters_by_writer.npz", "letters.npz"])
def test_own_file_loads_under_its_own_name(tmp_path: Path, file: str) -> None:
    write_own(tmp_path, file)
    assert load_dataset("letters", tmp_path).name == "letters"


def test_file_that_says_by_writer_comes_first(tmp_path: Path) -> None:
    (tmp_path / "letters.npz").write_bytes(b"not read")
    write_own(tmp_path, "letters_by_writer.npz")
    assert load_dataset("letters", tmp_path).name == "letters"


def test_femnist_is_read_in_its_own_folder(tmp_path: Path) -> None:
    user = leaf_user([[0.5] * 784], [1])
    for part in ("train", "test"):
        write_leaf(tmp_path / "femnist" / part / "a.json", {"u": user})
    assert load_dataset("femnist", tmp_path).name == "femnist"


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_cifar_is_read_in_its_own_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = small(getattr(cifar, name.upper()))
    write_cifar(release, tmp_path)
    monkeypatch.setattr(f"fediac.training.datasets.catalog.{name.upper()}", release)
    assert load_dataset(name, tmp_path).name == name


def test_nothing_is_downloaded_unasked(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"or allow that \(download\)$"):
        load_dataset("cifar10", tmp_path)


def test_unknown_name_is_told_the_nearest_and_the_folder(tmp_path: Path) -> None:
    text = (
        "unknown dataset 'cifr10'; did you mean 'cifar10'? "
        f"(no cifr10_by_writer.npz or cifr10.npz in {tmp_path})"
    )
    with refuses(text, ConfigError):
        load_dataset("cifr10", tmp_path)


def test_nearest_name_may_be_an_own_file(tmp_path: Path) -> None:
    write_own(tmp_path, "unipen62_by_writer.npz")
    with pytest.raises(ConfigError, match="did you mean 'unipen62'"):
        load_dataset("unipen", tmp_path)


def test_folder_is_the_argument_then_the_variable_then_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FEDIAC_DATA", str(tmp_path / "variable"))
    assert find_folder(tmp_path / "given") == tmp_path / "given"
    assert find_folder(Path("~", "given")) == Path.home() / "given"
    assert find_folder(None) == tmp_path / "variable"
    monkeypatch.delenv("FEDIAC_DATA")
    assert find_folder(None) == tmp_path / "home" / ".cache" / "fediac"
