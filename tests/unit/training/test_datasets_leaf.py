import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fediac.errors import DatasetError
from fediac.training.datasets import Dataset
from fediac.training.datasets.leaf import read_leaf
from tests.unit.training.files import leaf_user, write_leaf


def image(value: float) -> list[float]:
    return [1.0] * 783 + [value]


GOOD = leaf_user([image(0.5)], [3])


def read_with(folder: Path, document: Any) -> Dataset:
    """What is read when one training file holds this document, or this text."""
    write_leaf(folder / "test" / "a.json", {"u": GOOD})
    path = folder / "train" / "a.json"
    path.parent.mkdir()
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return read_leaf(folder, "femnist")


def refuses(folder: Path, document: Any, text: str) -> None:
    whole = f"{folder / 'train' / 'a.json'}: {text}"
    with pytest.raises(DatasetError, match=f"^{re.escape(whole)}$"):
        read_with(folder, document)


def one_user(user: Any, count: int) -> Any:
    return {"users": ["u"], "num_samples": [count], "user_data": {"u": user}}


def test_files_are_read_by_name_and_writers_numbered_over_all_users(
    tmp_path: Path,
) -> None:
    train = tmp_path / "train"
    write_leaf(train / "b.json", {"f1": leaf_user([image(0.0)], [61])})
    write_leaf(
        train / "a.json",
        {
            "f9": leaf_user([image(1 / 255), image(128 / 255)], [0, 5]),
            "f3": leaf_user([image(1.0)], [7]),
        },
    )
    write_leaf(tmp_path / "test" / "a.json", {"f2": GOOD, "f9": GOOD})
    data = read_leaf(tmp_path, "femnist")
    assert (data.name, data.n_classes) == ("femnist", 62)
    assert data.train.images.shape == (4, 1, 28, 28)
    assert data.train.images[:, 0, 27, 27].tolist() == [1, 128, 255, 0]
    assert data.train.labels.tolist() == [0, 5, 7, 61]
    assert data.train.writers is not None
    assert data.test.writers is not None
    assert data.train.writers.tolist() == [3, 3, 2, 0]
    assert data.test.writers.tolist() == [1, 3]
    assert data.train.writers.dtype == np.int32


def test_background_stays_white(tmp_path: Path) -> None:
    data = read_with(tmp_path, one_user(GOOD, 1))
    assert np.all(data.train.images[0, 0, :27] == 255)


def test_every_pixel_value_comes_back(tmp_path: Path) -> None:
    values = list(range(256)) * 4
    pixels = [value / 255 for value in values[:784]]
    data = read_with(tmp_path, one_user(leaf_user([pixels], [0]), 1))
    assert data.train.images.ravel().tolist() == values[:784]


def test_numbers_beyond_the_remembered_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fediac.training.datasets.leaf._N_REMEMBERED", 2)
    data = read_with(
        tmp_path, one_user(leaf_user([[i / 784 for i in range(784)]], [0]), 1)
    )
    expected = np.rint(np.arange(784) / 784 * 255)
    assert np.array_equal(data.train.images.ravel(), expected)


def test_user_without_examples_is_left_out(tmp_path: Path) -> None:
    document = one_user(GOOD, 1)
    document["users"].append("v")
    document["num_samples"].append(0)
    document["user_data"]["v"] = {"x": [], "y": []}
    assert len(read_with(tmp_path, document).train) == 1


def test_folder_without_files_is_named(tmp_path: Path) -> None:
    text = (
        f"{tmp_path / 'train'}: no .json files; make them with LEAF's femnist scripts"
    )
    with pytest.raises(DatasetError, match=f"^{re.escape(text)}$"):
        read_leaf(tmp_path, "femnist")


def test_part_without_examples_is_named(tmp_path: Path) -> None:
    empty: dict[str, Any] = {"users": [], "num_samples": [], "user_data": {}}
    text = f"{tmp_path / 'train'}: expected users with examples, found none"
    with pytest.raises(DatasetError, match=f"^{re.escape(text)}$"):
        read_with(tmp_path, empty)


def test_truncated_file_says_where_it_ends(tmp_path: Path) -> None:
    text = json.dumps(one_user(GOOD, 1))[:200]
    refuses(
        tmp_path,
        text,
        "expected a whole JSON document, found an error at character 200 of 200",
    )


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    write_leaf(tmp_path / "train" / "a.json", {"u": GOOD})
    path = tmp_path / "train" / "a.json"
    path.write_bytes(b"\xff\xfe\x00")
    text = f"{path}: expected a JSON document, found something else"
    with pytest.raises(DatasetError, match=f"^{re.escape(text)}$"):
        read_leaf(tmp_path, "femnist")


def test_folder_in_a_files_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train" / "a.json"
    path.mkdir(parents=True)
    text = f"{path}: is a directory"
    with pytest.raises(DatasetError, match=f"^{re.escape(text)}$"):
        read_leaf(tmp_path, "femnist")


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "expected a dict of users, num_samples, user_data, found list"),
        ({"users": []}, "expected num_samples as a list, found nothing"),
        (
            {"users": [], "num_samples": [], "user_data": []},
            "expected user_data as a dict, found a list",
        ),
        (
            {"users": ["u"], "num_samples": [], "user_data": {}},
            "expected 1 num_samples, one per user, found 0",
        ),
        (
            {"users": ["u"], "num_samples": [1], "user_data": {}},
            "expected numbers x and y of user 'u', found something else",
        ),
        (
            one_user({"x": ["no"], "y": [1]}, 1),
            "expected numbers x and y of user 'u', found something else",
        ),
        (
            one_user(GOOD, 2),
            "expected 2 examples of user 'u', found 1 image and 1 label",
        ),
        (
            one_user(leaf_user([[0.5] * 783], [1]), 1),
            "expected images of 784 pixels of user 'u', found shape (783,)",
        ),
        (
            one_user(leaf_user([image(1.5)], [1]), 1),
            "expected pixels in 0..1 of user 'u', found 1.5",
        ),
        (
            one_user(leaf_user([image(float("nan"))], [1]), 1),
            "expected pixels in 0..1 of user 'u', found nan",
        ),
        (
            one_user(leaf_user([image(0.5)], [62]), 1),
            "expected labels of user 'u' in 0..61, found 62 at example 0",
        ),
        (
            one_user({"x": [image(0.5)], "y": [0.5]}, 1),
            "expected integer labels of user 'u', found float64 (1,)",
        ),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, document: Any, text: str) -> None:
    refuses(tmp_path, document, text)
