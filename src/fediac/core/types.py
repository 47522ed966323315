"""Names for the arrays that travel through a round.

The array API has no static array type yet, so these are aliases of ``Any``: they
document what a function takes. NumPy arrays and PyTorch tensors both qualify, and
every function returns arrays of the kind and on the device it was given.
"""

from typing import Any, TypeAlias

Array: TypeAlias = Any
"""Any array of the array API."""

Update: TypeAlias = Any
"""One client's ``dim`` model changes, float32 or float64."""

Packed: TypeAlias = Any
"""Packed bits as uint8, least significant bit first: votes, a gia, or lanes."""

Indices: TypeAlias = Any
"""Entry numbers in ``0..dim-1``, int64, ascending."""

Levels: TypeAlias = Any
"""Rounded integers of one client, or their totals over clients."""
