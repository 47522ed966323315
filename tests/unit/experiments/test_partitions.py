import io

import numpy as np
from rich.console import Console

from fediac.experiments.partitions import describe_partition
from fediac.training.partition import Partition


def test_table_shows_every_client_and_the_hash() -> None:
    partition = Partition(
        "by hand",
        (np.array([0, 2, 5]), np.array([1])),
        np.array([[1, 2], [0, 1]]),
        7,
    )
    console = Console(file=io.StringIO(), width=100)
    console.print(describe_partition(partition))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "by hand: 4 of 7 examples, 1 to 3 a client (mean 2.0)" in text
    assert f"sha256 {partition.sha256}" in text
    cells = [line.strip("│ ").split("│") for line in text.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in cells] == [
        ["0", "3", "2", "1", "66.7 %"],
        ["1", "1", "1", "1", "100 %"],
    ]
