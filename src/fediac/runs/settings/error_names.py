"""Errors in the words of a settings file: keys instead of arguments.

The layers below name their own arguments, such as ``n_clients``; users who wrote
``[clients] n_clients`` should read ``clients.n_clients``, see `fediac.errors.named`.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import get_type_hints

from fediac.runs.settings.tables import RunSettings

_TABLES = ("data", "model", "clients", "train", "network")
"""What a run of any algorithm hands on to the layers below."""


def setting_names() -> Mapping[str, str]:
    """Return argument -> key of the settings, for errors from below.

    A key is its table and the argument's own name, but for a few. What is about an
    algorithm's table is called like that already.
    """
    names = {
        each.name: f"{table}.{each.name}"
        for table in _TABLES
        for each in fields(get_type_hints(RunSettings)[table])
    }
    return names | {
        "model": "model.name",
        "switch": "network.switches",
        "memory": "network.register_bytes",  # which clients' windows follow from
    }
