"""How a partition is shown: one line for each client, and the hash to compare."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fediac.experiments.output import as_percent
from fediac.training.partition import Partition


def describe_partition(partition: Partition) -> Group:
    """Return a table of every client's examples and classes, with the hash below."""
    facts = partition.statistics()
    title = (
        f"{facts.name}: {facts.n_used:,} of {facts.n_examples:,} examples, "
        f"{facts.min_size:,} to {facts.max_size:,} a client "
        f"(mean {facts.mean_size:,.1f})"
    )
    table = Table()
    for heading in ("client", "examples", "classes", "largest class", "its share"):
        table.add_column(heading, justify="right")
    for number, client in enumerate(facts.clients):
        largest = max(client.class_counts)
        table.add_row(
            str(number),
            f"{client.size:,}",
            str(client.n_classes),
            str(client.class_counts.index(largest)),
            as_percent(largest / client.size),
        )
    return Group(Text(title), table, Text(f"sha256 {facts.sha256}"))
