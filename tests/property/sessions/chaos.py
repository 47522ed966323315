"""What happens to a world: calm and stormy times by turns, then a quiet end."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from tests.property.sessions.jobs import MAKERS, Job
from tests.property.sessions.world import Weather, World

SHARES = (0.0, 0.02, 0.1, 0.25)
DELAYS_US = (300, 3_000, 20_000)
END_US = 15_000_000
END_STEPS = 20_000
"""How long two rounds may take when nothing goes wrong any more."""


def any_weather(rng: np.random.Generator) -> Weather:
    """Return some weather."""
    shares = [float(rng.choice(SHARES)) for _ in range(4)]
    loss, duplication, corruption, late = shares
    delay_us = int(rng.choice(DELAYS_US))
    return Weather(loss, duplication, corruption / 2, delay_us, late / 2)


class Stroke(Enum):
    """A bad thing that may happen."""

    CLIENT_KILLED = auto()
    CLIENT_STOPPED = auto()
    CLIENTS_STARTED = auto()
    CLIENT_MOVED = auto()
    CLIENT_KILLED_AT_ITS_DISK = auto()
    COORDINATOR_KILLED = auto()
    COORDINATOR_KILLED_AT_ITS_JOURNAL = auto()
    COORDINATOR_DOUBLED = auto()
    SWITCH_KILLED = auto()
    CLOCK_CHANGED = auto()
    PACKETS_REPLAYED = auto()


STROKES = tuple(Stroke)
OF_ALL = (
    Stroke.CLIENTS_STARTED,
    Stroke.SWITCH_KILLED,
    Stroke.CLOCK_CHANGED,
    Stroke.PACKETS_REPLAYED,
)


def strike(world: World, stroke: Stroke, rng: np.random.Generator) -> None:
    """Let one bad thing happen."""
    job = world.jobs[int(rng.integers(len(world.jobs)))]
    i = int(rng.integers(job.n_clients))
    if stroke in OF_ALL:
        strike_all(world, stroke, rng)
        return
    match stroke:
        case Stroke.CLIENT_KILLED:
            world.kill_client(job, i)
        case Stroke.CLIENT_STOPPED:
            world.stop_client(job, i)
        case Stroke.CLIENT_MOVED:
            world.move_client(job, i)
        case Stroke.CLIENT_KILLED_AT_ITS_DISK:
            job.disks[i].kill_in = int(rng.integers(1, 8))
        case Stroke.COORDINATOR_KILLED:
            world.kill_coordinator(job)
        case Stroke.COORDINATOR_DOUBLED:
            world.double_coordinator(job)
        case _:
            job.journal.kill_in = int(rng.integers(1, 5))


def strike_all(world: World, stroke: Stroke, rng: np.random.Generator) -> None:
    """Let something happen that is not one job's alone."""
    match stroke:
        case Stroke.CLIENTS_STARTED:
            world.start_clients()
        case Stroke.SWITCH_KILLED:
            world.kill_switch()
        case Stroke.PACKETS_REPLAYED:
            world.replay_packets()
        case _:
            world.wall_ms += int(rng.integers(-(10**6), 10**6))


@dataclass(frozen=True)
class Fate:
    """How a world is treated.

    Attributes:
        calm: Share of the time in which nobody is struck.
        n_between: Steps between two strokes, on average.
        strokes: What may happen.
        weather: All the time; None: any.
    """

    calm: float = 0.3
    n_between: int = 40
    strokes: Sequence[Stroke] = STROKES
    weather: Weather | None = None


ORDINARY = Fate()


def live_through(
    world: World,
    n_steps: int,
    seed: int,
    fate: Fate = ORDINARY,
) -> None:
    """Run a world through so many steps of changing weather and strokes of fate."""
    rng = np.random.default_rng(seed)
    stop = world.n_steps + n_steps
    while world.n_steps < stop:
        world.weather = fate.weather or any_weather(rng)
        if rng.random() < fate.calm:
            world.run(min(int(rng.integers(200, 600)), stop - world.n_steps))
            continue
        for _ in range(int(rng.integers(1, 8))):
            n_next = 1 + int(rng.exponential(fate.n_between))
            world.run(min(n_next, stop - world.n_steps))
            strike(world, rng.choice(np.array(fate.strokes)), rng)


def end_well(world: World, *, n_rounds: int = 2, n_steps: int = END_STEPS) -> None:
    """Stop all that goes wrong: every job must make more rounds, with all clients."""
    world.weather = Weather()
    world.start_clients()
    for job in world.jobs:
        job.journal.kill_in = -1
        for disk in job.disks:
            disk.kill_in = -1
    world.enough = max(job.n_clients for job in world.jobs)
    for job in world.jobs:
        job.n_rounds = len(job.models) + n_rounds
    stop_us, stop = world.now_us + END_US, world.n_steps + n_steps
    while any(len(job.models) <= job.n_rounds for job in world.jobs):
        is_time = world.now_us < stop_us and world.n_steps < stop
        assert is_time, "nothing goes on: " + "; ".join(
            f"job {job.number}: {describe(job)}" for job in world.jobs
        )
        world.run(20)


def describe(job: Job) -> str:
    """Return how far a job has come, and what went wrong there last."""
    coordinator = job.coordinators[-1]
    failures = coordinator.failures[-2:] if coordinator else ["no coordinator"]
    return f"{len(job.models) - 1} rounds, {failures}"


def some_world(seed: int) -> World:
    """Return a world of one or two jobs, each with an algorithm."""
    rng = np.random.default_rng((seed, 1))
    names = rng.choice(list(MAKERS), 1 + seed % 2).tolist()
    return World(seed, algorithms=names, n_clients=int(rng.integers(1, 5)))
