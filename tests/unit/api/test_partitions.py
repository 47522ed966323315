import numpy as np

from fediac.api.several_runs import describe_partition
from fediac.training.partition import Partition


def test_one_line_has_the_sizes_and_the_hash() -> None:
    partition = Partition(
        "by hand",
        (np.array([0, 2, 5]), np.array([1])),
        np.array([[1, 2], [0, 1]]),
        7,
    )
    facts = partition.summary()
    assert describe_partition(facts) == (
        "by hand partition: 4 of 7 examples, 1 to 3 a client, sha256 "
        f"{partition.sha256[:16]}..."
    )
