"""Errors in the user's words: options and settings instead of arguments.

The layers below name their own arguments (``n_votes``); whoever typed ``--votes`` or
wrote ``[fediac] votes`` should read that.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fediac.errors import AlgorithmError, ConfigError, FediacError, UpdateError
from fediac.names import is_own
from fediac.runs.settings import RunSettings

# What a message is about comes first; limits name arguments in brackets; and a word
# with an underscore is never prose, though it may be a setting's name already, or what
# the user gave: part of a path, in quotes, or a folder with a colon behind it.
_NAMES = re.compile(
    r"^(\w+)\b(?![./\\:])|(?<=\()(\w+)(?=\))|(?<![\w./\\'\"])([a-z]+_\w+)\b(?!\.\w|[/\\])"
)


def rename(message: str, names: Mapping[str, str]) -> str:
    """Return the message with arguments called what the user calls them.

    Args:
        message: What an error of this package says.
        names: Argument -> option or setting.
    """
    return _NAMES.sub(lambda found: names.get(found[0], found[0]), message)


@contextmanager
def named(names: Mapping[str, str]) -> Iterator[None]:
    """Rename arguments in the errors that are raised inside.

    Raises:
        UpdateError: Instead of one whose text changes: training diverged, which the
            settings may allow.
        ConfigError: Instead of any other error whose text changes.
    """
    try:
        yield
    except AlgorithmError:
        raise
    except (ValueError, FediacError) as error:
        message = rename(str(error), names)
        if message == str(error):
            raise
        kind = UpdateError if isinstance(error, UpdateError) else ConfigError
        raise kind(message) from error


def setting_names(settings: RunSettings) -> Mapping[str, str]:
    """Return argument -> key of the settings, for errors from below."""
    own = settings.algorithm
    names = {
        "n_clients": "clients.number",
        "participation": "clients.participation",
        "beta": "data.beta",
        "classes_per_client": "data.classes",
        "download": "data.download",
        "model": "model.name",
        "min_size": "data.min_size",
        "max_size": "data.max_size",
        "partition": "data.partition",
        "epochs": "train.local_epochs",
        "steps": "train.local_steps",
        "batch_size": "train.batch_size",
        "lr": "train.lr",
        "lr_decay": "train.lr_decay",
        "device": "train.device",
        "switch": "network.switches",
        "rates": "network.rates",
        "compute_s": "network.compute_s",
        "register_bytes": "network.register_bytes",
        "memory": "network.register_bytes",
    }
    if is_own(own):  # it has no table
        return names
    return names | {
        "votes": "fediac.votes",
        "n_votes": "fediac.votes",
        "threshold": "fediac.threshold",
        "law": "fediac.law",
        "entries_per_vote": "fediac.entries_per_vote",
        "clip": "fediac.clip",
        "block": "omnireduce.block",
        "n_sent": f"{own}.sent",
        "bits": f"{own}.bits",
        "fade": f"{own}.fade",
        "lanes": f"{own}.lanes",
    }
