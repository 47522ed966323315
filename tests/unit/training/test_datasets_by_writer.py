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


def test_label_without_a_class_name_is_refused(tmp_path: Path) -> None:
    arrays = by_writer_arrays() | {"class_names": np.array(list("ab"))}
    refuses(write(tmp_path, arrays), "expected labels in 0..1, found 2 at example 2")


def test_negative_label_is_refused(tmp_path: Path) -> None:
    arrays = by_writer_arrays()
    arrays["labels"] = arrays["labels"].astype(np.int8)
    arrays["labels"][1] = -4
    refuses(write(tmp_path, arrays), "expected labels in 0..2, found -4 at example 1")


def test_split_other_than_two_parts_is_refused(tmp_path: Path) -> None:
    arrays = by_writer_arrays()
    arrays["split"][5] = 2
    refuses(write(tmp_path, arrays), "expected split in 0..1, found 2 at example 5")


@pytest.mark.parametrize(("split", "which"), [(0, "test"), (1, "training")])
def test_empty_part_is_refused(tmp_path: Path, split: int, which: str) -> None:
    arrays = by_writer_arrays()
    arrays["split"][:] = split
    refuses(write(tmp_path, arrays), f"expected {which} examples, found none")


@pytest.mark.parametrize("name", ["images", "labels", "writer", "split"])
def test_missing_array_is_named(tmp_path: Path, name: str) -> None:
    arrays = by_writer_arrays()
    del arrays[name]
    refuses(
        write(tmp_path, arrays),
        f"expected arrays images, labels, writer, split, found {', '.join(arrays)}",
    )


def test_missing_array_of_a_part_is_named(tmp_path: Path) -> None:
    arrays = apart(by_writer_arrays())
    del arrays["w_test"]
    refuses(
        write(tmp_path, arrays),
        "expected arrays x_train, y_train, w_train, x_test, y_test, w_test, "
        "found x_train, y_train, w_train, x_test, y_test",
    )


def test_parts_of_different_shape_are_refused(tmp_path: Path) -> None:
    arrays = apart(by_writer_arrays())
    arrays["x_test"] = arrays["x_test"][:, :4]
    refuses(
        write(tmp_path, arrays),
        "expected test images of shape (1, 5, 4), found (1, 4, 4)",
    )


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        (
            "images",
            np.zeros((12, 5, 4), np.float32),
            "expected images as uint8 (n, height, width) or "
            "(n, channels, height, width), found float32 (12, 5, 4)",
        ),
        (
            "images",
            np.zeros((12, 20), np.uint8),
            "expected images as uint8 (n, height, width) or "
            "(n, channels, height, width), found uint8 (12, 20)",
        ),
        (
            "labels",
            np.zeros(12),
            "expected labels as integers (12,), found float64 (12,)",
        ),
        (
            "writer",
            np.zeros(11, np.int16),
            "expected writer as integers (12,), found int16 (11,)",
        ),
        (
            "split",
            np.zeros((12, 1), np.uint8),
            "expected split as integers (12,), found uint8 (12, 1)",
        ),
    ],
)
def test_wrong_dtype_or_shape_is_named(
    tmp_path: Path, name: str, wrong: NDArray[Any], text: str
) -> None:
    refuses(write(tmp_path, by_writer_arrays() | {name: wrong}), text)


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


def test_writers_beyond_32_bits_are_not_taken_for_others(tmp_path: Path) -> None:
    arrays = by_writer_arrays()
    arrays["writer"] = arrays["writer"].astype(np.int64)
    arrays["writer"][4] += 2**32
    number = arrays["writer"][4]
    path = write(tmp_path, arrays)
    refuses(path, f"expected writer that fit signed 32 bits, found {number}")


def test_images_have_pixels(tmp_path: Path) -> None:
    arrays = by_writer_arrays()
    n = len(arrays["images"])
    arrays["images"] = np.zeros((n, 0, 0), np.uint8)
    path = write(tmp_path, arrays)
    refuses(path, f"expected images with at least one pixel, found ({n}, 0, 0)")


def test_missing_file_is_named(tmp_path: Path) -> None:
    refuses(tmp_path / "own.npz", "no such file or directory")
