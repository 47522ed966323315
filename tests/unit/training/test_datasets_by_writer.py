import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fediac.errors import DatasetError
from fediac.training.datasets.by_writer import read_by_writer
from tests.unit.training.files import by_writer_arrays

Arrays = dict[str, NDArray[Any]]


def write(folder: Path, arrays: Arrays) -> Path:
    path = folder / "own.npz"
    # The stubs take array names for the flag.
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return path


def apart(arrays: Arrays) -> Arrays:
    """The same examples as two parts."""
    names = {"images": "x", "labels": "y", "writer": "w"}
    return {
        f"{short}_{end}": arrays[name][arrays["split"] == split]
        for split, end in enumerate(("train", "test"))
        for name, short in names.items()
    }


def refuses(path: Path, text: str) -> None:
    with pytest.raises(DatasetError, match=f"^{re.escape(f'{path}: {text}')}$"):
        read_by_writer(path, "own")


def test_split_divides_training_from_test(tmp_path: Path) -> None:
    arrays = by_writer_arrays()
    data = read_by_writer(write(tmp_path, arrays), "own")
    assert (data.name, data.n_classes) == ("own", 3)
    for part, split in ((data.train, 0), (data.test, 1)):
        rows = arrays["split"] == split
        assert np.array_equal(part.images, arrays["images"][rows][:, None])
        assert np.array_equal(part.labels, arrays["labels"][rows])
        assert part.writers is not None
        assert np.array_equal(part.writers, arrays["writer"][rows])
        assert part.labels.dtype == np.int64
        assert part.writers.dtype == np.int32


def test_two_parts_apart_are_the_same_dataset(tmp_path: Path) -> None:
    joined = read_by_writer(write(tmp_path, by_writer_arrays()), "own")
    parts = read_by_writer(write(tmp_path, apart(by_writer_arrays())), "own")
    assert parts.sha256 == joined.sha256


def test_images_may_have_channels(tmp_path: Path) -> None:
    arrays = by_writer_arrays()
    arrays["images"] = np.stack([arrays["images"]] * 3, axis=1)
    data = read_by_writer(write(tmp_path, arrays), "own")
    assert data.train.images.shape == (9, 3, 5, 4)
    assert len(data.mean) == 3


def test_class_names_say_how_many_classes_there_are(tmp_path: Path) -> None:
    arrays = by_writer_arrays() | {"class_names": np.array(list("abcd"))}
    assert read_by_writer(write(tmp_path, arrays), "own").n_classes == 4


def test_parts_of_different_shape_are_refused(tmp_path: Path) -> None:
    arrays = apart(by_writer_arrays())
    arrays["x_test"] = arrays["x_test"][:, :4]
    refuses(
        write(tmp_path, arrays),
        "expected test images of shape (1, 5, 4), found (1, 4, 4)",
    )


IMAGES = "images as uint8 (n, height, width) or (n, channels, height, width)"
ROWS = np.arange(12)
"""Numbers of the examples."""


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("class_names", np.array(["a", "b"]), "labels in 0..1, found 2 at example 2"),
        ("labels", 1 - ROWS, "labels in 0..1, found -1 at example 2"),
        ("split", ROWS // 2, "split in 0..1, found 2 at example 4"),
        ("split", 0 * ROWS, "test examples, found none"),
        ("split", 0 * ROWS + 1, "training examples, found none"),
        ("images", np.zeros((12, 5, 4)), f"{IMAGES}, found float64 (12, 5, 4)"),
        ("images", np.zeros((12, 20), np.uint8), f"{IMAGES}, found uint8 (12, 20)"),
        (
            "images",
            np.zeros((12, 0, 0), np.uint8),
            "images with at least one pixel, found (12, 0, 0)",
        ),
        ("labels", np.zeros(12), "labels as integers (12,), found float64 (12,)"),
        ("writer", ROWS[1:], "writer as integers (12,), found int64 (11,)"),
        ("split", ROWS[:, None], "split as integers (12,), found int64 (12, 1)"),
        (
            "writer",
            ROWS + 2**32,  # none is to be taken for another
            f"writer that fit signed 32 bits, found {2**32}",
        ),
    ],
)
def test_wrong_content_is_named(
    tmp_path: Path, name: str, wrong: NDArray[Any], text: str
) -> None:
    path = write(tmp_path, by_writer_arrays() | {name: wrong})
    refuses(path, f"expected {text}")


@pytest.mark.parametrize(
    ("arrays", "missing"),
    [
        *((by_writer_arrays(), name) for name in by_writer_arrays()),
        (apart(by_writer_arrays()), "w_test"),
    ],
)
def test_missing_array_is_named(tmp_path: Path, arrays: Arrays, missing: str) -> None:
    left = {name: each for name, each in arrays.items() if name != missing}
    text = f"expected arrays {', '.join(arrays)}, found {', '.join(left)}"
    refuses(write(tmp_path, left), text)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize("name", ["labels", "class_names"])
def test_pickled_array_is_never_loaded(tmp_path: Path, name: str) -> None:
    bombs = np.array([Bomb()] * 12, dtype=object)
    path = write(tmp_path, by_writer_arrays() | {name: bombs})
    refuses(
        path,
        f"array '{name}' is damaged or holds pickled objects, which are never loaded",
    )


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, by_writer_arrays())
    path.write_bytes(path.read_bytes()[:300])
    refuses(path, "expected a whole .npz file, found 300 bytes that are none")


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x80\x04N."])
def test_other_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    refuses(
        path, f"expected a whole .npz file, found {len(content)} bytes that are none"
    )


def test_single_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    refuses(path, "expected a .npz file, found a single array")


def test_flipped_byte_in_an_array_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, by_writer_arrays())
    content = bytearray(path.read_bytes())
    content[120] ^= 0xFF  # in the compressed images, which come first
    path.write_bytes(content)
    refuses(
        path,
        "array 'images' is damaged or holds pickled objects, which are never loaded",
    )


def test_missing_file_is_named(tmp_path: Path) -> None:
    refuses(tmp_path / "own.npz", "no such file or directory")
