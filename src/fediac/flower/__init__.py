"""Rounds inside a Flower app: a strategy around the app's own, and a mod for clients.

Flower is the control plane: it knows who is there, and carries messages to them. Its
ServerApp is the coordinator, and the far server of algorithms that have one.
"""

from fediac.flower.requirement import require_flwr

require_flwr()

from fediac.flower.mod import CompressMod, compress_mod  # noqa: E402 - flwr is there
from fediac.flower.page import write_page  # noqa: E402
from fediac.flower.strategy import CompressedStrategy  # noqa: E402

__all__ = ["CompressMod", "CompressedStrategy", "compress_mod", "write_page"]
