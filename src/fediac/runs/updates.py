"""Clients' updates of a run's first rounds, kept for ``fediac tune``."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fediac.files import replacing
from fediac.plan.updates import updates_name
from fediac.training.local import LocalResult


def save_updates(
    folder: Path, round_number: int, trained: Sequence[LocalResult]
) -> None:
    """Write the updates of a round to ``updates-ROUND.npy``, one a row.

    They are what training gave, before any residual is added.

    Args:
        folder: The run's folder.
        round_number: The round.
        trained: What its clients trained.
    """
    rows = np.stack([each.update.cpu().numpy() for each in trained])
    with (
        replacing(folder / updates_name(round_number)) as temporary,
        temporary.open("wb") as file,
    ):
        np.save(file, rows)
