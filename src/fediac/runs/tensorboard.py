"""A run's rounds as TensorBoard logs, for who keeps a TensorBoard open."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fediac.errors import ConfigError
from fediac.runs.records import Round
from fediac.runs.settings import SaveSettings

FOLDER = "tensorboard"


@contextmanager
def open_log(
    folder: Path | None, save: SaveSettings, n_done: int
) -> Iterator[Callable[[Round], None]]:
    """Give a function that logs a round, or does nothing if no logs are wanted.

    Args:
        folder: The run's folder; logs go to a folder inside. None: there is none.
        save: Says whether they are wanted.
        n_done: Rounds that earlier sessions logged and that stay; later ones, logged
            after the last checkpoint, are hidden.

    Raises:
        ConfigError: TensorBoard is not installed.
    """
    if folder is None or not save.tensorboard:
        yield lambda _: None
        return
    writer = _open_writer(folder / FOLDER, purge_step=n_done + 1)
    try:
        yield lambda record: _write_round(writer, record)
    finally:
        writer.close()


def _open_writer(folder: Path, *, purge_step: int) -> Any:  # noqa: ANN401 - see below
    # The class needs a package that may be missing, so its type is not known here.
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "save.tensorboard needs TensorBoard: pip install 'fediac[tensorboard]'"
        ) from error
    return SummaryWriter(str(folder), purge_step=purge_step)


def _write_round(writer: Any, record: Round) -> None:  # noqa: ANN401 - see above
    """Add the numbers of one round; they can be read when this returns."""
    names = ("accuracy", "loss", "train_loss", "gamma", "chosen", "bits")
    values = {name: getattr(record, name) for name in names}
    values |= {f"traffic/{view}_mib": mib for view, mib in record.mib.items()}
    values |= {f"time_s/{name}": time_s for name, time_s in record.time_s.items()}
    for name, value in values.items():
        if value is not None:
            writer.add_scalar(name, value, record.number)
    writer.flush()
