import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from fediac.compressors import State
from fediac.errors import RunError
from fediac.runs.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
    save_model,
)
from fediac.runs.digests import ROOM, write_digest
from fediac.runs.records import CHECKPOINT
from fediac.runs.settled import Settled
from fediac.training.federation import Progress
from fediac.training.flat_model import flatten_model
from tests.support import bytes_of, refuses
from tests.tiny import normed_model, seeded


def tensor(n: int, seed: int) -> torch.Tensor:
    return torch.rand(n, generator=torch.Generator().manual_seed(seed))


def make_progress(round_number: int = 4, **changes: Any) -> Progress:
    values: dict[str, Any] = {
        "round_number": round_number,
        "parameters": tensor(10, 1),
        "statistics": tensor(4, 2),
        "states": (State(tensor(10, 3), 9), State(), State(tensor(10, 4), None)),
    }
    return Progress(**values | changes)


def load(folder: Path) -> Checkpoint:
    checkpoint = load_checkpoint(folder, device="cpu")
    assert checkpoint is not None
    return checkpoint


def test_what_is_saved_comes_back_bit_by_bit(tmp_path: Path) -> None:
    progress = make_progress(own_statistics=(tensor(4, 5), tensor(4, 6), tensor(4, 7)))
    numbers, hot = {"threshold": 3, "bits": 11}, torch.arange(0, 10, 3)
    save_checkpoint(tmp_path, Checkpoint(progress, Settled(numbers, hot)))
    loaded = load(tmp_path)
    after, settled = loaded.progress, loaded.settled
    assert settled.numbers == numbers
    assert settled.hot is not None
    assert settled.hot.dtype == torch.int64
    assert torch.equal(settled.hot, hot)
    assert after.round_number == 4
    assert torch.equal(after.parameters, progress.parameters)
    assert torch.equal(after.statistics, progress.statistics)
    assert [state.bits for state in after.states] == [9, None, None]
    assert after.states[1].residual is None
    for client in (0, 2):
        before = progress.states[client].residual
        assert bytes_of(after.states[client].residual) == bytes_of(before)
    for one, two in zip(after.own_statistics, progress.own_statistics, strict=True):
        assert torch.equal(one, two)


def test_nothing_that_was_not_there_comes_back(tmp_path: Path) -> None:
    empty = torch.zeros(0)
    progress = make_progress(statistics=empty, states=(State(), State()))
    save_checkpoint(tmp_path, Checkpoint(progress))
    loaded = load(tmp_path)
    assert loaded.settled == Settled()
    assert loaded.progress.states == (State(), State())
    assert loaded.progress.statistics.shape == (0,)
    assert loaded.progress.own_statistics == ()


def test_clients_may_share_the_statistics_they_start_with(tmp_path: Path) -> None:
    shared = tensor(4, 2)
    progress = make_progress(statistics=shared, own_statistics=(shared,) * 3)
    save_checkpoint(tmp_path, Checkpoint(progress))
    for each in load(tmp_path).progress.own_statistics:
        assert torch.equal(each, shared)


def test_a_folder_without_a_checkpoint_has_none(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path, device="cpu") is None


@pytest.mark.parametrize("n_written", [0, 40, 900])
def test_a_writer_that_dies_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_written: int
) -> None:
    save_checkpoint(tmp_path, Checkpoint(make_progress(4)))

    def die(tensors: Any, path: Path, metadata: Any) -> None:
        save_file(tensors, path, metadata)
        path.write_bytes(path.read_bytes()[:n_written])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fediac.runs.checkpoint.save_file", die)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(tmp_path, Checkpoint(make_progress(5)))
    assert load(tmp_path).progress.round_number == 4
    save_checkpoint(tmp_path, Checkpoint(make_progress(6)))
    assert load(tmp_path).progress.round_number == 6
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_a_full_disk_is_one_line_and_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, Checkpoint(make_progress(4)))

    def fill(tensors: Any, path: Path, metadata: Any) -> None:
        save_file(tensors, path, metadata)
        raise SafetensorError("No space left on device")

    monkeypatch.setattr("fediac.runs.checkpoint.save_file", fill)
    path = tmp_path / CHECKPOINT
    with refuses(f"{path}: cannot be written (No space left on device)", RunError):
        save_checkpoint(tmp_path, Checkpoint(make_progress(5)))
    assert load(tmp_path).progress.round_number == 4
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_a_folder_in_the_place_of_a_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        save_checkpoint(tmp_path, Checkpoint(make_progress()))
    assert caught.value.filename == str(tmp_path / CHECKPOINT)


def test_a_loaded_checkpoint_may_be_replaced_while_it_is_used(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, Checkpoint(make_progress()))
    first = load(tmp_path).progress
    other = make_progress(parameters=torch.zeros(10))
    save_checkpoint(tmp_path, Checkpoint(other))
    assert torch.equal(first.parameters, tensor(10, 1))


def damaged(path: Path) -> Any:
    return refuses(
        f"{path}: is damaged, its content does not have the digest that is in it; put "
        f"a copy of it back, or delete {path.parent} to begin anew",
        RunError,
    )


def test_a_checkpoint_with_any_bit_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / CHECKPOINT
    save_checkpoint(tmp_path, Checkpoint(make_progress(), Settled({"bits": 11})))
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(RunError) as caught:
            load_checkpoint(tmp_path, device="cpu")
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
    path.write_bytes(whole)
    assert load(tmp_path).progress.round_number == 4


@pytest.mark.parametrize("share", [0.0, 0.003, 0.2, 0.99])
def test_a_checkpoint_that_was_cut_short_is_refused(
    tmp_path: Path, share: float
) -> None:
    path = tmp_path / CHECKPOINT
    save_checkpoint(tmp_path, Checkpoint(make_progress()))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with damaged(path):
        load_checkpoint(tmp_path, device="cpu")
    path.write_bytes(whole + b"\0")
    with damaged(path):
        load_checkpoint(tmp_path, device="cpu")


def save_again(path: Path, *, metadata: dict[str, str], **tensors: Any) -> None:
    """Write a checkpoint as somebody would who does not know of digests."""
    with safe_open(path, framework="pt") as file:
        before = file.metadata()
    save_file(load_file(path) | tensors, path, before | metadata)


@pytest.mark.parametrize("number", [-3, 2, 5])
def test_a_checkpoint_of_another_round_than_was_written_is_refused(
    tmp_path: Path, number: int
) -> None:
    path = tmp_path / CHECKPOINT
    save_checkpoint(tmp_path, Checkpoint(make_progress()))
    with safe_open(path, framework="pt") as file:
        facts = json.loads(file.metadata()["fediac"])
    save_again(path, metadata={"fediac": json.dumps(facts | {"round": number})})
    with damaged(path):
        load_checkpoint(tmp_path, device="cpu")


@pytest.mark.parametrize("name", ["parameters", "statistics", "residual.2", "hot"])
def test_a_checkpoint_with_other_tensors_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / CHECKPOINT
    save_checkpoint(tmp_path, Checkpoint(make_progress(), Settled(hot=torch.arange(3))))
    changed = load_file(path)[name].clone()
    changed[1] = 0
    save_again(path, metadata={}, **{name: changed})
    with damaged(path):
        load_checkpoint(tmp_path, device="cpu")


@pytest.mark.parametrize("metadata", [None, {"fediac": "{}"}])
def test_a_checkpoint_without_a_digest_is_refused(
    tmp_path: Path, metadata: dict[str, str] | None
) -> None:
    path = tmp_path / CHECKPOINT
    save_file({"parameters": torch.zeros(2)}, path, metadata)
    with refuses(
        f"{path}: has no digest of its content, older versions wrote none; put a copy "
        f"of it back, or delete {tmp_path} to begin anew",
        RunError,
    ):
        load_checkpoint(tmp_path, device="cpu")


@pytest.mark.parametrize("facts", ["[]", '{"round": 1, "bits": [], "extras": []}'])
def test_what_has_a_digest_and_is_no_checkpoint_is_named(
    tmp_path: Path, facts: str
) -> None:
    path = tmp_path / CHECKPOINT
    save_file({"parameters": torch.zeros(2)}, path, {"fediac": facts, **ROOM})
    write_digest(path)
    with pytest.raises(RunError, match="not a checkpoint of a run"):
        load_checkpoint(tmp_path, device="cpu")


def test_a_file_without_room_gets_no_digest(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"weight": torch.zeros(2)}, path)
    before = path.read_bytes()
    with refuses(f"path must have metadata with room for a digest: {path}"):
        write_digest(path)
    assert path.read_bytes() == before


def test_a_model_is_saved_with_its_own_keys_and_shapes(tmp_path: Path) -> None:
    module = flatten_model(seeded(normed_model)).module
    path = tmp_path / "model.safetensors"
    save_model(path, module)
    loaded = load_file(path)
    expected = module.state_dict()
    assert set(loaded) == set(expected)
    for key, each in expected.items():
        assert torch.equal(loaded[key], each)
        assert loaded[key].dtype == each.dtype
    fresh = seeded(normed_model, seed=9)
    fresh.load_state_dict(loaded)
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_extras_come_back_under_their_names_whoever_else_has_them(
    tmp_path: Path,
) -> None:
    shared = tensor(6, 5).reshape(2, 3)
    extras: list[dict[str, torch.Tensor]] = [
        {"velocity": shared, "1.a name": torch.arange(3)},
        {},
        {"velocity": shared, "rounds": torch.tensor(4), "a row": shared[1]},
    ]
    residual = tensor(10, 3)
    states = tuple(State(residual, None, each) for each in extras)
    save_checkpoint(tmp_path, Checkpoint(make_progress(states=states)))
    for state, before in zip(load(tmp_path).progress.states, extras, strict=True):
        # In their order: sums of floats depend on it.
        assert list(state.extras) == list(before)
        for name, kept in before.items():
            assert torch.equal(state.extras[name], kept)
            assert state.extras[name].dtype == kept.dtype
        assert state.residual is not None
        assert torch.equal(state.residual, residual)
