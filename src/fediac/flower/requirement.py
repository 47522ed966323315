"""Whether Flower is installed, in a version that this was tried with."""

import importlib.util
import warnings
from importlib.metadata import PackageNotFoundError, version

TRIED = ("1.41", "1.42")
"""Minor versions of flwr that this package was tried with."""


def require_flwr() -> None:
    """Refuse to go on without flwr; warn of a version that was not tried.

    Raises:
        ImportError: It is not installed; the message says what to install.
    """
    if importlib.util.find_spec("flwr") is None:
        raise ImportError(
            "fediac.flower needs flwr, which is not installed: "
            "pip install 'fediac[flower]'"
        )
    try:
        found = version("flwr")
    except PackageNotFoundError:  # a source tree on the path
        return
    if ".".join(found.split(".")[:2]) not in TRIED:
        warnings.warn(
            f"fediac.flower was tried with flwr {' and '.join(TRIED)}, "
            f"not with {found}",
            stacklevel=3,
        )
