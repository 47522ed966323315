"""Real processes, losses and kills for a while: rounds stay equal, memory stays flat.

python -m tests.soak_network --minutes 10

Clients are killed and started again all the time. The switch, the relay and the
conductor live through it, and what they have in memory is read every second: in the
last third of the time it may be no more than in the second, up to a few MiB.
"""

import argparse
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fediac.network.key_file import VARIABLE
from fediac.selftest.account import check_job
from fediac.selftest.apart import Apart, Plan
from fediac.selftest.network import network
from fediac.selftest.processes import crew
from fediac.selftest.results import Trial
from fediac.selftest.roles import Job
from fediac.selftest.settings import CHILD, SelftestSettings
from fediac.selftest.weather import Weather

ALLOWED_BYTES = 6 << 20
"""By so much the medians of two thirds may differ: pages that the system moves."""

_WARM_ROUNDS = 3
"""Before anybody looks: until then everything is loaded, and used once."""

WEATHER = Weather(loss=0.03, reorder=0.03, duplicate=0.02, corrupt=0.01)


@dataclass(frozen=True)
class Soak:
    """How long, with whom, and how often somebody is killed."""

    seconds: float = 600.0
    look_s: float = 1.0
    kill_s: float = 3.0
    n_clients: int = 4
    dim: int = 20_000
    child: str = CHILD
    seed: int = 1


def resident_bytes(pid: int) -> int:
    """Return what a process has in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise ValueError(f"process {pid} has no memory")


def growth(samples: Sequence[int]) -> float:
    """Return by how much the last third's median is above the second's."""
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    return statistics.median(last) - statistics.median(middle)


def say_growth(samples: Mapping[str, Sequence[int]]) -> list[str]:
    """Return who has grown by more than is allowed."""
    return [
        f"the {name} has grown by {growth(sizes) / (1 << 20):.1f} MiB between the "
        f"second and the last third of the time"
        for name, sizes in samples.items()
        if growth(sizes) > ALLOWED_BYTES
    ]


def soak(setting: Soak, tell: Callable[[str], None]) -> list[str]:
    """Return what was wrong after that time: memory that grew, rounds that differ."""
    settings = SelftestSettings(
        ("fediac",), setting.n_clients, setting.dim, 1, WEATHER, child=setting.child
    )
    trial, rng = Trial(), np.random.default_rng(setting.seed)
    key = secrets.token_hex(32)
    with (
        tempfile.TemporaryDirectory(prefix="fediac-soak-") as name,
        crew(Path(name), {VARIABLE: key}, setting.child) as made,
        network(made, settings, trial) as net,
    ):
        folder = Path(name) / "job"
        folder.mkdir()
        job = Job("fediac", setting.n_clients, setting.dim, 1, folder, is_rough=True)
        apart = Apart(Plan(job, 1), made, net, trial, lambda _: None)
        samples = live(setting, apart, net.pids(), rng, tell)
        apart.finish()
        found = check_job(job, apart.told)
    tell(f"{found.n_rounds} rounds, {trial.kills} kills, {found.n_given_up} given up")
    for name, sizes in samples.items():
        tell(
            f"{name}: {sizes[-1] / (1 << 20):.1f} MiB, {growth(sizes) / 1024:+.0f} KiB"
        )
    if not found.n_rounds:
        found.wrong.append("not one round was made")
    return found.wrong + say_growth(samples)


def live(
    setting: Soak,
    apart: Apart,
    pids: Mapping[str, int],
    rng: np.random.Generator,
    tell: Callable[[str], None],
) -> dict[str, list[int]]:
    """Let time pass and kill clients; return what processes had in memory."""
    for _ in range(_WARM_ROUNDS):
        apart.wait_for_a_round()
    start_s = kill_s = time.monotonic()
    samples: dict[str, list[int]] = {name: [] for name in (*pids, "conductor")}
    while (now_s := time.monotonic()) < start_s + setting.seconds:
        apart.listen_for(setting.look_s)
        if now_s >= kill_s + setting.kill_s:
            kill_s = now_s
            apart.kill(int(rng.integers(setting.n_clients)), rng)
        for name, pid in (*pids.items(), ("conductor", apart.conductor_pid)):
            samples[name].append(resident_bytes(pid))
        sizes = ", ".join(f"{k} {v[-1] / (1 << 20):.1f}" for k, v in samples.items())
        tell(f"{now_s - start_s:.0f} s, {len(apart.told)} rounds, MiB: {sizes}")
    return samples


def tell(text: str) -> None:
    """Say how it goes."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Soak for as long as asked, and return 0 if all was well."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak_network")
    parser.add_argument("--minutes", type=float, default=10.0)
    given = parser.parse_args()
    wrong = soak(Soak(60 * given.minutes), tell)
    for line in wrong:
        sys.stderr.write(f"wrong: {line}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
