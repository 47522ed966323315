"""What server and clients say to each other, beside exchanges and answers.

The version of all this, and what both know of a model.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from fediac.errors import UpdateError
from fediac.transports.forms import BufferRule, Form, find_form

VERSION = 2
"""The version of these messages; both sides must have the same."""

Ask = Literal["train", "answers", "switch", "evaluate", "settle"]
"""What a message asks of a client: to train and begin a round; to go on with it by
answers; to go through a round over a switch; to evaluate; or only to hear how its last
session ended."""


def form_of(model: Mapping[str, Any], *, averages: bool) -> Form:
    """Return what of a model is learned, and what is averaged beside it.

    Raises:
        UpdateError: Nothing in it is.
    """
    statistics: BufferRule = "average" if averages else "leave"
    form = find_form([None], dict(model), statistics=statistics, buffers=None)
    if form is None:
        raise UpdateError("model must be arrays by their names")
    return form


def digest_of(arrays: Mapping[str, Any]) -> str:
    """Return what tells a model from another one: names, types, shapes and bytes."""
    whole = hashlib.blake2b(digest_size=16)
    for name, array in arrays.items():
        kept = np.ascontiguousarray(array)
        whole.update(f"{name}|{kept.dtype.str}|{np.shape(array)}|".encode())
        whole.update(kept.tobytes())
    return whole.hexdigest()


def version_problem(theirs: object, *, who: str, own_who: str) -> str | None:
    """Return why messages of another version are refused; None: it is the same.

    Args:
        theirs: The version in a message.
        who: Who wrote it.
        own_who: Who reads it.
    """
    if theirs == VERSION:
        return None
    return (
        f"{who} speaks version {theirs} of fediac.flower's messages, {own_who} version "
        f"{VERSION}: install the same fediac on both"
    )
