"""Let worlds live, one after the other, until there were enough steps.

python -m tests.property.sessions [--steps 2000000] [--seed 0]
"""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tests.planes import PLANES, data_plane
from tests.property.sessions.chaos import end_well, live_through, some_world

WORLD_STEPS = 5_000


class Tally:
    """What there was so far."""

    def __init__(self) -> None:
        self.n_steps = self.n_kills = self.n_rounds = self.n_worlds = 0

    def __str__(self) -> str:
        """Return it in words."""
        return (
            f"{self.n_steps:,} steps, {self.n_kills:,} kills, {self.n_rounds:,} rounds "
            f"committed, {self.n_worlds:,} worlds"
        )


def live(seed: int, tally: Tally) -> None:
    """Let one world live and end well; the switch is Python or C by turns."""
    world = some_world(seed)
    try:
        with data_plane(PLANES[seed % len(PLANES)]):
            live_through(world, WORLD_STEPS, seed)
            end_well(world)
    except Exception:
        sys.stderr.write(
            f"\nworld {seed} failed at step {world.n_steps:,}; again: "
            f"python -m tests.property.sessions --steps 1 --seed {seed}\n"
        )
        raise
    tally.n_steps += world.n_steps
    tally.n_kills += world.n_kills
    tally.n_rounds += sum(len(job.models) - 1 for job in world.jobs)
    tally.n_worlds += 1


def main(arguments: Sequence[str]) -> int:
    """Return 0 if there were enough steps, 130 if it was interrupted before."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.sessions")
    parser.add_argument("--steps", type=int, default=2_000_000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the first world's")
    given = parser.parse_args(arguments)
    tally, seed = Tally(), given.seed
    bars = Progress(
        BarColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    try:
        with bars:
            task = bars.add_task(str(tally), total=given.steps)
            while tally.n_steps < given.steps:
                live(seed, tally)
                seed += 1
                bars.update(task, completed=tally.n_steps, description=str(tally))
    except KeyboardInterrupt:
        sys.stdout.write(f"interrupted after {tally}; go on with --seed {seed}\n")
        return 130
    sys.stdout.write(f"{tally}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
