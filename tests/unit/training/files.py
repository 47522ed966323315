"""Small data files in the layouts that the loaders read."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fediac.training.datasets.cifar import Release

N_RECORDS = 3


def small(release: Release) -> Release:
    """The release with files of three records each."""
    n_bytes = release.n_labels + 3072
    sizes = dict.fromkeys(release.archive.sizes, N_RECORDS * n_bytes)
    return replace(release, archive=replace(release.archive, sizes=sizes))


def cifar_records(release: Release, seed: int) -> NDArray[np.uint8]:
    rng = np.random.default_rng(seed)
    records = rng.integers(0, 256, (N_RECORDS, release.n_labels + 3072), dtype=np.uint8)
    records[:, : release.n_labels] %= release.n_classes
    return records


def write_cifar(release: Release, folder: Path) -> dict[str, NDArray[np.uint8]]:
    """Write every file of a small release; return their records."""
    inside = folder / release.archive.folder
    inside.mkdir(parents=True)
    files = {
        name: cifar_records(release, seed)
        for seed, name in enumerate(release.archive.sizes)
    }
    for name, records in files.items():
        (inside / name).write_bytes(records.tobytes())
    return files


def by_writer_arrays(n: int = 12) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(n)
    return {
        "images": rng.integers(0, 256, (n, 5, 4), dtype=np.uint8),
        "labels": np.arange(n, dtype=np.uint8) % 3,
        "writer": np.arange(n, dtype=np.int16) // 4 + 70,
        "split": (np.arange(n) % 4 == 3).astype(np.uint8),
    }


def leaf_user(images: Sequence[Sequence[float]], labels: Sequence[int]) -> Any:
    return {"x": [list(image) for image in images], "y": list(labels)}


def write_leaf(path: Path, users: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "users": list(users),
        "num_samples": [len(user["y"]) for user in users.values()],
        "user_data": users,
    }
    path.write_text(json.dumps(document))
