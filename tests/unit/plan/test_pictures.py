"""Pictures: what is refused before anything is computed for one."""

import sys
from pathlib import Path

import pytest

from fediac.errors import ConfigError
from fediac.plan.pictures import check_plot


def test_a_picture_without_matplotlib_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = r"^pictures need matplotlib: pip install 'fediac\[plot\]'$"
    with pytest.raises(ConfigError, match=message):
        check_plot(tmp_path / "a.svg")
