import pytest
import torch

# Tests run side by side on few cores: threads of tensors would wait for each other.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the terminal's width: xdist sets one, and output would be folded to it."""
    monkeypatch.delenv("COLUMNS", raising=False)
