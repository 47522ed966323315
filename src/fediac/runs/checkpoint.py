"""A run's progress on disk: one safetensors file, replaced as a whole.

Readers see the last complete checkpoint, whenever the writer was killed. A digest over
all of it is checked first: otherwise, a bit that has changed on the disk would silently
change the results.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from fediac.compressors import State
from fediac.errors import RunError
from fediac.files import replacing
from fediac.runs.digests import ROOM, check_digest, write_digest
from fediac.runs.records import CHECKPOINT
from fediac.runs.settled import NOTHING, Settled
from fediac.training.federation import Progress


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a run goes on from.

    Attributes:
        progress: Where it is.
        settled: What its algorithm goes on with.
    """

    progress: Progress
    settled: Settled = NOTHING


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint in ``folder`` by this one, all or nothing."""
    progress = checkpoint.progress
    tensors = {"parameters": progress.parameters, "statistics": progress.statistics}
    for client, state in enumerate(progress.states):
        if state.residual is not None:
            tensors[f"residual.{client}"] = state.residual
        for name, kept in state.extras.items():
            tensors[f"extra.{client}.{name}"] = kept
    for client, statistics in enumerate(progress.own_statistics):
        tensors[f"statistics.{client}"] = statistics
    if checkpoint.settled.hot is not None:
        tensors["hot"] = checkpoint.settled.hot
    facts = {
        "round": progress.round_number,
        "bits": [state.bits and int(state.bits) for state in progress.states],
        "extras": [list(state.extras) for state in progress.states],
        "settled": dict(checkpoint.settled.numbers),
    }
    metadata = {"fediac": json.dumps(facts), **ROOM}
    with _written(folder / CHECKPOINT, tensors, metadata) as temporary:
        write_digest(temporary)


def save_model(path: Path, module: nn.Module) -> None:
    """Write a model's state_dict as a safetensors file."""
    tensors = {
        name: tensor.detach().contiguous().clone()
        for name, tensor in module.state_dict().items()
    }
    with (
        _written(path, tensors, {"format": "pt"}) as temporary,
        temporary.open("rb") as file,
    ):
        os.fsync(file.fileno())


@contextmanager
def _written(
    path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]
) -> Iterator[Path]:
    """Give a file with these tensors that takes the place of ``path`` afterwards."""
    on_host = _apart({name: each.cpu() for name, each in tensors.items()})
    with replacing(path) as temporary:
        try:
            save_file(on_host, temporary, metadata)
        except SafetensorError as error:  # a full disk, for one
            raise RunError(f"{path}: cannot be written ({error})") from error
        temporary.chmod(0o644)  # safetensors keeps files from everybody else
        yield temporary


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors of which no two share memory, which the format refuses.

    Clients may have one tensor together: statistics have, before they train.
    """
    seen: set[int] = set()
    apart = {}
    for name, each in tensors.items():
        place = each.untyped_storage().data_ptr()
        apart[name] = (each.clone() if place in seen else each).contiguous()
        seen.add(place)
    return apart


def load_checkpoint(folder: Path, *, device: str | torch.device) -> Checkpoint | None:
    """Return the checkpoint in ``folder``, None if there is none.

    Raises:
        RunError: The file is not what was written, or not one of ours.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    check_digest(path)
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            facts = json.loads(file.metadata()["fediac"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        states = tuple(
            State(
                tensors.get(f"residual.{client}"),
                bits,
                {name: tensors[f"extra.{client}.{name}"] for name in names},
            )
            for client, (bits, names) in enumerate(
                zip(facts["bits"], facts["extras"], strict=True)
            )
        )
        own = (tensors.get(f"statistics.{client}") for client in range(len(states)))
        progress = Progress(
            round_number=int(facts["round"]),
            parameters=tensors["parameters"],
            statistics=tensors["statistics"],
            states=states,
            own_statistics=tuple(each for each in own if each is not None),
        )
        settled = Settled(facts["settled"], tensors.get("hot"))
        return Checkpoint(progress, settled)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path}: not a checkpoint of a run ({error})") from error
