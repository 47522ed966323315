from pathlib import Path

import numpy as np
import pytest

from fediac.errors import DatasetError
from fediac.training.datasets.cifar import CIFAR10, CIFAR100, Release, read_cifar
from tests.support import refuses
from tests.unit.training.files import small, write_cifar

RELEASES = [CIFAR10, CIFAR100]


def read(release: Release, folder: Path) -> object:
    return read_cifar(small(release), folder, may_download=False)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_examples_are_the_records_in_file_order(
    release: Release, tmp_path: Path
) -> None:
    files = write_cifar(small(release), tmp_path)
    data = read_cifar(small(release), tmp_path, may_download=False)
    assert (data.name, data.n_classes) == (release.name, release.n_classes)
    for part, names in (
        (data.train, release.train_files),
        (data.test, release.test_files),
    ):
        records = np.concatenate([files[name] for name in names])
        pixels = records[:, release.n_labels :]
        assert part.images.shape == (3 * len(names), 3, 32, 32)
        assert np.array_equal(part.images.reshape(len(records), -1), pixels)
        assert np.array_equal(part.labels, records[:, release.n_labels - 1])
        assert part.labels.dtype == np.int64
        assert part.writers is None


def test_official_files_have_their_published_sizes() -> None:
    assert set(CIFAR10.archive.sizes.values()) == {30_730_000}
    assert CIFAR100.archive.sizes == {
        "train.bin": 153_700_000,
        "test.bin": 30_740_000,
    }
    for release in RELEASES:
        assert {*release.train_files, *release.test_files} == set(release.archive.sizes)


def test_truncated_file_is_named_with_both_sizes(tmp_path: Path) -> None:
    write_cifar(small(CIFAR10), tmp_path)
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:1_288])
    text = f"{path}: expected 9,219 bytes, found 1,288"
    with refuses(text, DatasetError):
        read(CIFAR10, tmp_path)


def test_official_size_is_expected_of_a_real_release(tmp_path: Path) -> None:
    write_cifar(small(CIFAR10), tmp_path)
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin"
    text = f"{path}: expected 30,730,000 bytes, found 9,219"
    with refuses(text, DatasetError):
        read_cifar(CIFAR10, tmp_path, may_download=False)


def test_label_out_of_range_is_named(tmp_path: Path) -> None:
    files = write_cifar(small(CIFAR100), tmp_path)
    path = tmp_path / "cifar-100-binary" / "test.bin"
    files["test.bin"][2, 1] = 100
    path.write_bytes(files["test.bin"].tobytes())
    text = f"{path}: expected labels in 0..99, found 100 at example 2"
    with refuses(text, DatasetError):
        read(CIFAR100, tmp_path)


def test_missing_files_are_named_with_the_way_out(tmp_path: Path) -> None:
    write_cifar(small(CIFAR10), tmp_path)
    inside = tmp_path / "cifar-10-batches-bin"
    (inside / "data_batch_2.bin").unlink()
    (inside / "test_batch.bin").unlink()
    text = (
        f"{inside}: data_batch_2.bin, test_batch.bin missing; give the data folder "
        "that has them, unpack https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz "
        f"in {tmp_path} or allow that (download)"
    )
    with refuses(text, DatasetError):
        read(CIFAR10, tmp_path)


def test_unreadable_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar(small(CIFAR10), tmp_path)

    def fail(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(np, "fromfile", fail)
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin"
    text = f"{path}: permission denied"
    with refuses(text, DatasetError):
        read(CIFAR10, tmp_path)
