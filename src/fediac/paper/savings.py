"""What one run's way to the target saved against others'."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fediac.paper.target_rows import Row


@dataclass(frozen=True, slots=True)
class Saving:
    """By which share less was sent than by the best baseline.

    Attributes:
        against: The best baseline's name.
        at_least: Whether the best so far may still get there, with more than it has
            spent already.
    """

    share: float
    against: str
    at_least: bool = False

    def __str__(self) -> str:
        return f"{'at least ' * self.at_least}{100 * self.share:.1f} %"


def find_saving(
    own: Sequence[Row], baselines: Mapping[str, Sequence[Row]]
) -> Saving | None:
    """Return what was saved against the best baseline, as far as it is known.

    The seeds that both have are compared, and a baseline that gave up is left out. If
    the cheapest one so far may still get there, the saving is at least what it is
    against that one, or not known if that is nothing.

    Args:
        own: Rows of one entrant, all seeds.
        baselines: Name -> rows of another one.
    """
    if not own or not all(row.reached for row in own):
        return None
    ours = {row.seed: row.spent_mib for row in own}
    savings = []
    for name, rows in baselines.items():
        theirs = [row for row in rows if row.seed in ours]
        if theirs and not any(row.gave_up for row in theirs):
            spent = sum(row.spent_mib for row in theirs)
            share = 1.0 - sum(ours[row.seed] for row in theirs) / spent
            savings.append((share, all(row.reached for row in theirs), name))
    share, is_known, against = min(savings, default=(0.0, False, ""))
    if is_known:
        return Saving(share, against)
    return Saving(share, against, at_least=True) if share > 0.0 else None
