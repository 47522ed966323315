from dataclasses import FrozenInstanceError

import pytest

from fediac.core.exchange import Max


def test_exchanges_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Max(1.0).peak = 2.0  # type: ignore[misc]  # the point of the test
