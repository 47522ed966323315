import math

import pytest

from fediac.training.local_settings import LocalSettings
from tests.support import refuses


def test_the_rate_falls_with_the_root_of_the_round() -> None:
    cifar = LocalSettings(lr=0.1, lr_decay=40.0)
    assert cifar.rate(1) == 0.1 / (1 + 1 / 40)
    assert cifar.rate(16) == 0.1 / (1 + 4 / 40)
    assert LocalSettings(lr=0.1, lr_decay=0.0).rate(1000) == 0.1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"lr": 0.0}, "lr must be finite and above 0, got 0.0"),
        ({"lr": math.nan}, "lr must be finite and above 0, got nan"),
        ({"lr": 1e39}, "lr must be at most 3.4e+38 (float32), got 1e+39"),
        ({"lr_decay": -1.0}, "lr_decay must be finite and at least 0, got -1.0"),
        ({"lr_decay": math.inf}, "lr_decay must be finite and at least 0, got inf"),
        ({"lr_decay": math.nan}, "lr_decay must be finite and at least 0, got nan"),
    ],
)
def test_settings_that_train_nothing_are_refused(
    changes: dict[str, float], text: str
) -> None:
    with refuses(text):
        LocalSettings(**changes)  # type: ignore[arg-type] # ints where ints belong
