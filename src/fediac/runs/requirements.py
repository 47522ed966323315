"""What training needs that is not always there; looked for without importing it."""

from importlib.util import find_spec

from fediac.errors import ConfigError
from fediac.native.library import check_environment

_NEEDED = {"torch": "PyTorch", "safetensors": "safetensors", "tomli_w": "tomli-w"}
"""Module -> what people call it."""


def require_torch() -> None:
    """Refuse to train where something is missing for it or the environment is wrong."""
    for module, name in _NEEDED.items():
        if find_spec(module) is None:
            raise ConfigError(f"training needs {name}: pip install 'fediac[train]'")
    check_environment()
