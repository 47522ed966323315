"""Examples as people have them become the same arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

import fediac
from fediac.errors import ArgumentError, DatasetError
from fediac.training.datasets import Examples
from fediac.user_data import as_array, join_rows, read_labels, read_rows, split_clients
from tests.support import refuses

X = np.arange(24, dtype=np.float32).reshape(8, 3)
Y = np.arange(8) % 3


class Rows(Dataset[Any]):
    """A data set of PyTorch, which reads its rows one by one."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, number: int) -> Any:
        return torch.from_numpy(X[number]), int(Y[number])


class Columns:
    """Rows as Hugging Face's and Flower's partitions have them."""

    def __init__(self, **columns: Any) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, number: int) -> dict[str, Any]:
        if number >= len(self):
            raise IndexError(number)
        return {name: each[number] for name, each in self._columns.items()}


def loader(**settings: Any) -> DataLoader[Any]:
    return DataLoader(Rows(), batch_size=3, **settings)


FORMS: dict[str, Any] = {
    "a pair of arrays": (X, Y),
    "a pair of tensors": (torch.from_numpy(X), torch.from_numpy(Y)),
    "a list of both": [X, Y],
    "nested lists": (X.tolist(), Y.tolist()),
    "a TensorDataset": TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
    "a data set": Rows(),
    "a Subset": Subset(Rows(), list(range(8))),
    "a DataLoader": loader(),
    "a list of rows": [Rows()[i] for i in range(8)],
    "rows of columns": Columns(x=X, label=Y),
    "a DataLoader of columns": DataLoader(Columns(x=X, y=Y), batch_size=5),  # type: ignore[arg-type] # duck-typed there, too
    "our own": Examples(X, Y),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_arrays(form: str) -> None:
    rows = read_rows(FORMS[form], "train")
    assert np.array_equal(rows.inputs, X)
    assert np.array_equal(rows.targets, Y)
    assert split_clients(FORMS[form]) is None


@pytest.mark.parametrize("form", FORMS)
def test_a_list_has_one_for_each_client(form: str) -> None:
    for n_clients in (1, 2, 3):
        given = [FORMS[form]] * n_clients
        clients = split_clients(given)
        assert clients is not None
        assert len(clients) == n_clients
        parts = [read_rows(each, "train") for each in clients]
        rows, owned = join_rows(parts, "train")
        for own in owned:
            assert np.array_equal(rows.inputs[own], X)
            assert np.array_equal(rows.targets[own], Y)


@pytest.mark.parametrize("form", [each for each in FORMS if "DataLoader" not in each])
def test_partitions_take_every_form_that_has_an_order(form: str) -> None:
    data = FORMS[form]
    expected = fediac.partition.dirichlet(Y, 2, beta=1.0, seed=1)
    for ours, theirs in zip(
        fediac.partition.dirichlet(data, 2, beta=1.0, seed=1), expected, strict=True
    ):
        assert np.array_equal(ours, theirs)
    assert [len(each) for each in fediac.partition.iid(data, 2, seed=1)] == [4, 4]


def test_labels_are_read_without_reading_inputs() -> None:
    class Unread(Rows):
        """A data set as torchvision's, with its labels beside the rows."""

        targets = Y.tolist()

        def __getitem__(self, number: int) -> Any:
            raise AssertionError(number)

    assert np.array_equal(read_labels(Unread()), Y)
    assert np.array_equal(read_labels(Subset(Unread(), [5, 1])), Y[[5, 1]])


def test_equal_shares_need_no_classes() -> None:
    floats = np.linspace(0.0, 1.0, 6)
    assert [len(each) for each in fediac.partition.iid(floats, 3, seed=1)] == [2, 2, 2]


def test_loaders_have_no_order_to_share_out() -> None:
    text = "labels must have an order, got a loader; give its data set"
    with refuses(text, ArgumentError):
        fediac.partition.iid(loader(shuffle=True), 2, seed=1)


def test_columns_are_named_where_it_is_not_plain() -> None:
    data = Columns(image=X, writer=Y + 1, character=Y)
    rows = read_rows(data, "train", ("image", "character"))
    assert np.array_equal(rows.targets, Y)
    text = (
        "train rows have the columns 'image', 'writer', 'character'; say which are "
        "input and target, such as columns=('image', 'label')"
    )
    with refuses(text, DatasetError):
        read_rows(data, "train")
    text = "columns must be two of 'image', 'writer', 'character', got 'label'"
    with refuses(text, ArgumentError):
        read_rows(data, "train", ("image", "label"))


def test_pictures_have_their_channels_first() -> None:
    image = pytest.importorskip("PIL.Image")
    color = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert as_array(image.fromarray(color)).shape == (3, 2, 4)
    assert np.array_equal(as_array(image.fromarray(color))[1], color[:, :, 1])
    assert as_array(image.fromarray(color[:, :, 0])).shape == (1, 2, 4)
    pictures = [image.fromarray(color)] * 3
    assert read_rows(Columns(img=pictures, label=[0, 1, 2]), "x").inputs.shape == (
        *(3, 3),
        *(2, 4),
    )


def test_one_kind_of_float_that_numpy_lacks_is_read() -> None:
    half = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    assert as_array(half).dtype == np.float32


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            [(np.zeros(3), 0), (np.zeros(4), 1)],
            "train inputs must all have one shape, got (3,) first and (4,) as number "
            "1; pad or crop them",
        ),
        ([], "train must have at least one example, got none"),
        (
            [(np.zeros(3), 0, 1)],
            "train must have rows of an input and a target, or with columns, got 3 "
            "things",
        ),
        (
            iter([]),
            "train must be a pair of inputs and labels, a data set with a length and "
            "rows, or a loader of such, got list_iterator",
        ),
        (
            {"x": X, "y": Y},
            "train must be a pair of inputs and labels, a data set with a length and "
            "rows, or a loader of such, got dict",
        ),
    ],
)
def test_what_cannot_be_read_is_named(data: Any, text: str) -> None:
    with refuses(text, DatasetError):
        read_rows(data, "train")


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (
            (X[:, :2], Y),
            "train: inputs of client 1 must be like client 0's, float32 (3,), got "
            "float32 (2,)",
        ),
        (
            (X, Y / 2),
            "train: targets of client 1 must be like client 0's, int64 (), got float64 "
            "()",
        ),
        ((X[:0], Y[:0]), "train: client 1 must have at least one example, got none"),
    ],
)
def test_clients_have_one_kind_of_data(second: Any, text: str) -> None:
    parts = [read_rows(each, "train") for each in ((X, Y), second)]
    with refuses(text, DatasetError):
        join_rows(parts, "train")


def test_a_loader_is_read_to_its_end_in_its_order() -> None:
    def batches() -> Iterator[Any]:
        yield X[4:], Y[4:]
        yield X[:4], Y[:4]

    class Reversed:
        """A loader of two batches, the second half first."""

        dataset = batch_size = None

        def __iter__(self) -> Iterator[Any]:
            return batches()

    rows = read_rows(Reversed(), "train")
    assert np.array_equal(rows.targets, Y[[4, 5, 6, 7, 0, 1, 2, 3]])
