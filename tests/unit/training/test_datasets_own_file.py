"""Users' own data: arrays in an .npz file, and images in folders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fediac.errors import ArgumentError, ConfigError, DatasetError
from fediac.training.datasets import Dataset, load_dataset
from fediac.training.models import build_model
from fediac.training.partition import make_partition
from tests.support import refuses

N = 20


def write(folder: Path, **arrays: Any) -> str:
    """Write arrays of twenty examples, some of them others than usual; return where."""
    usual = {"x": np.arange(N * 3.0).reshape(N, 3), "y": np.arange(N) % 2}
    path = folder / "mine.npz"
    kept = {name: each for name, each in (usual | arrays).items() if each is not None}
    np.savez(path, **kept)
    return str(path)


def load(folder: Path, **arrays: Any) -> Dataset:
    return load_dataset(write(folder, **arrays))


def test_inputs_and_labels_alone_will_do(tmp_path: Path) -> None:
    data = load(tmp_path)
    assert (data.name, data.n_classes) == ("mine", 2)
    assert (len(data.train), len(data.test)) == (16, 4)
    assert data.train.images.dtype == np.float32
    assert data.train.writers is None
    every = np.concatenate([data.train.images, data.test.images])
    assert sorted(every[:, 0].tolist()) == [3.0 * row for row in range(N)]
    # As many of each class, up to one.
    assert np.bincount(data.test.labels).tolist() == [2, 2]
    assert load_dataset(str(tmp_path / "mine.npz")).sha256 == data.sha256


def test_without_a_split_every_client_has_examples_in_the_test(tmp_path: Path) -> None:
    data = load(tmp_path, client=np.repeat([7, 3], [15, 5]))
    assert data.train.writers is not None
    assert data.test.writers is not None
    assert np.bincount(data.train.writers).tolist() == [4, 12]
    assert np.bincount(data.test.writers).tolist() == [1, 3]


@pytest.mark.parametrize("words", [(0, 1), ("train", "test"), (b"train", b"test")])
def test_a_split_says_what_the_test_is(tmp_path: Path, words: Any) -> None:
    split = np.array([words[row >= 15] for row in range(N)])
    data = load(tmp_path, split=split)
    assert data.test.images[:, 0].tolist() == [45.0, 48.0, 51.0, 54.0, 57.0]
    assert len(data.train) == 15


def test_classes_may_have_names(tmp_path: Path) -> None:
    data = load(tmp_path, y=np.array(["no", "yes", "maybe", "yes"] * 5))
    assert data.n_classes == 3
    assert np.bincount(data.train.labels).sum() == 16


@pytest.mark.parametrize(
    ("x", "shape", "kind"),
    [
        (np.zeros((N, 6, 5), np.uint8), (1, 6, 5), "uint8"),
        (np.zeros((N, 3, 6, 5), np.uint8), (3, 6, 5), "uint8"),
        (np.zeros((N, 6, 5, 3), np.uint8), (3, 6, 5), "uint8"),
        (np.zeros((N, 4), np.uint8), (4,), "float32"),
        (np.zeros((N, 6, 5), np.float64), (6, 5), "float32"),
        (np.zeros((N, 9), np.int16), (9,), "int64"),
        (np.zeros((N, 2), np.bool_), (2,), "float32"),
    ],
)
def test_bytes_with_height_and_width_are_images(
    tmp_path: Path, x: Any, shape: tuple[int, ...], kind: str
) -> None:
    images = load(tmp_path, x=x).train.images
    assert (images.shape[1:], str(images.dtype)) == (shape, kind)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"y": None}, "expected arrays x and y, found x"),
        (
            {"y": np.zeros(3, np.int64)},
            "expected y as whole numbers or strings (20,), found int64 (3,)",
        ),
        (
            {"y": np.zeros(N)},
            "expected y as whole numbers or strings, a class each (for regression "
            "there is fediac.Experiment with a loss), found float64",
        ),
        ({"y": np.full(N, -1)}, "expected y from 0, found -1"),
        ({"x": np.zeros(N)}, "expected x as numbers (n, ...), at least one, found "),
        (
            {"x": np.full((N, 2), np.nan)},
            "expected x that is finite in float32, found NaN or infinity at example 0",
        ),
        (
            {"split": np.full(N, 2)},
            'expected split of 0 or "train" and 1 or "test", found 2 at 0',
        ),
        ({"split": np.zeros(N, np.int8)}, "expected test examples, found none"),
        (
            {"client": np.zeros((N, 2), np.int64)},
            "expected client as whole numbers or strings (20,), found int64 (20, 2)",
        ),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, arrays: dict[str, Any], text: str
) -> None:
    path = write(tmp_path, **arrays)
    with pytest.raises(DatasetError) as caught:
        load_dataset(path)
    assert str(caught.value).startswith(f"{path}: {text}")


def test_a_path_is_no_name(tmp_path: Path) -> None:
    for name in ("nothing.npz", "no/thing", "photos/"):
        with refuses(f"{Path(name)}: no such file or folder", DatasetError):
            load_dataset(name, tmp_path)
    write(tmp_path)
    assert load_dataset("mine.npz", tmp_path).name == "mine"
    assert load_dataset("mine", tmp_path).name == "mine"


def test_no_name_is_not_the_folder_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="unknown dataset ''"):
        load_dataset("", tmp_path)


def test_each_client_of_the_data_is_one(tmp_path: Path) -> None:
    data = load(tmp_path, client=np.array(["b", "a", "c", "a"] * 5))
    split = make_partition(data, partition="client", n_clients=3, seed=1)
    writers = data.train.writers
    assert writers is not None
    assert [set(writers[rows].tolist()) for rows in split.clients] == [{0}, {1}, {2}]
    assert sum(len(rows) for rows in split.clients) == len(data.train)
    text = "n_clients must be 3 (those in the data) for partition 'client', got 4"
    with refuses(text, ArgumentError):
        make_partition(data, partition="client", n_clients=4, seed=1)
    text = (
        "partition 'client' needs a dataset with clients, mine has none; take iid, "
        "dirichlet or pathological"
    )
    with refuses(text, ArgumentError):
        make_partition(load(tmp_path), partition="client", n_clients=4, seed=1)


def test_a_model_for_table_rows() -> None:
    module = build_model("mlp", (20,), 3, seed=1)
    assert sum(each.numel() for each in module.parameters()) == 64 * (20 + 64 + 3) + 131
    text = "model 'small-cnn' is for images, got inputs of shape (20,); take 'mlp'"
    with refuses(text, ArgumentError):
        build_model("small-cnn", (20,), 3, seed=1)


def write_image(path: Path, *, mode: str = "L", size: tuple[int, int] = (5, 4)) -> None:
    image = pytest.importorskip("PIL.Image")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.new(mode, size, 7 if mode == "L" else (9, 8, 7)).save(path)


def test_a_folder_of_images_has_a_folder_for_each_class(tmp_path: Path) -> None:
    for kind in ("dog", "cat"):
        for number in range(5):
            write_image(tmp_path / kind / f"{number}.png")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    data = load_dataset(f"{tmp_path}/")
    assert (data.name, data.n_classes) == (tmp_path.name, 2)
    assert (len(data.train), len(data.test)) == (8, 2)
    assert data.train.images.shape[1:] == (1, 4, 5)
    assert set(data.train.images.ravel().tolist()) == {7}
    assert data.test.labels.tolist() == [0, 1]


def test_a_folder_here_needs_no_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cat", "dog"):
        for number in range(5):
            write_image(tmp_path / "pics" / name / f"{number}.png")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_dataset("pics").n_classes == 2
    for name in ("empty", "none"):
        with pytest.raises(ConfigError, match=f"unknown dataset '{name}'; there are"):
            load_dataset(name)


def test_images_may_have_folders_for_training_and_test(tmp_path: Path) -> None:
    write_image(tmp_path / "train" / "cat" / "1.png")
    write_image(tmp_path / "train" / "dog" / "1.png", mode="RGB")
    write_image(tmp_path / "test" / "dog" / "1.png")
    data = load_dataset(f"{tmp_path}/")
    assert data.train.images[:, :, 0, 0].tolist() == [[7, 7, 7], [9, 8, 7]]
    assert (data.train.labels.tolist(), data.test.labels.tolist()) == ([0, 1], [1])


def test_images_that_do_not_fit_are_named(tmp_path: Path) -> None:
    write_image(tmp_path / "cat" / "1.png")
    found = f"{tmp_path}: expected a folder for each of two classes or more, found "
    with refuses(f"{found}['cat']", DatasetError):
        load_dataset(f"{tmp_path}/")
    odd = tmp_path / "dog" / "odd.png"
    write_image(odd, size=(5, 6))
    with refuses(f"{odd}: expected 4 x 5 pixels as 1.png, found 6 x 5", DatasetError):
        load_dataset(f"{tmp_path}/")
    odd.write_bytes(b"no image")
    text = f"{odd}: expected an image, found UnidentifiedImageError"
    with refuses(text, DatasetError):
        load_dataset(f"{tmp_path}/")
