"""Federated training on a CPU, next to the loops people would write instead.

    python -m benchmarks.bench_training [ROUNDS]

The same model, examples, batches and learning rate for all: the embedded digits, 20
clients, one local epoch at batch 32, the small CNN. Plain averaging in the loops;
fediac runs with FediAC, the packet-level switch and the clock on; nobody evaluates.
Rounds are interleaved, so that whatever else the machine does slows all of them alike;
medians are shown. On a machine with other work, CPU seconds say more than seconds.
"""

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from fediac.core.rng import Stream
from fediac.plan.networks import NetworkDescription, make_network
from fediac.runs.build import prepare_run
from fediac.runs.settings import RunSettings, TrainSettings
from fediac.sim import simulate_round
from fediac.training.datasets import load_dataset
from fediac.training.local import (
    Engine,
    Evaluation,
    LocalResult,
    Measured,
    draw_batches,
    normalize,
)
from fediac.training.local_settings import LocalSettings
from fediac.training.models import build_model
from fediac.training.partition import make_partition

N_CLIENTS = 20
RATE = 0.1
LOCAL = LocalSettings(epochs=1, batch_size=32, lr=RATE, lr_decay=0.0)


class PlainLoop:
    """Federated averaging as a first PyTorch script has it: clients one by one."""

    def __init__(self) -> None:
        dataset = load_dataset("digits")
        partition = make_partition(
            dataset, partition="writer", n_clients=N_CLIENTS, seed=1
        )
        images, self.labels = normalize(dataset.train, dataset)
        self.images = images.contiguous()
        self.clients = [torch.from_numpy(each) for each in partition.clients]
        self.model = build_model("small-cnn", (1, 28, 28), 10, seed=1)

    def train_client(self, client: int, round_number: int) -> list[Tensor]:
        """Return one client's weights after its local epoch."""
        model = build_model("small-cnn", (1, 28, 28), 10, seed=1)
        model.load_state_dict(self.model.state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        mine = self.clients[client]
        stream = Stream(1, round_number, client)
        for batch in draw_batches(len(mine), LOCAL, stream):
            chosen = mine[batch]
            optimizer.zero_grad()
            scores = model(self.images[chosen])
            loss = functional.cross_entropy(scores, self.labels[chosen])
            torch.autograd.backward(loss)
            optimizer.step()
        return [each.detach() for each in model.parameters()]

    def apply(self, weights: list[list[Tensor]]) -> None:
        """Put the mean of all clients' weights into the model."""
        with torch.no_grad():
            for parameter, *others in zip(
                self.model.parameters(), *weights, strict=True
            ):
                parameter.copy_(torch.stack(others).mean(dim=0))

    def run_round(self, round_number: int) -> float:
        """Run one round in this process, with as many threads as PyTorch likes."""
        torch.set_num_threads(os.cpu_count() or 1)
        clients = range(N_CLIENTS)
        self.apply([self.train_client(client, round_number) for client in clients])
        return 0.0


_worker: PlainLoop


def _start_worker() -> None:
    global _worker
    torch.set_num_threads(1)
    _worker = PlainLoop()


def _train_in_worker(
    task: tuple[int, int, dict[str, Tensor]],
) -> tuple[list[Tensor], float]:
    client, round_number, state = task
    start = time.process_time()
    _worker.model.load_state_dict(state)
    weights = _worker.train_client(client, round_number)
    return weights, time.process_time() - start


class ForkedLoop(PlainLoop):
    """The same with two worker processes of one thread each."""

    def __init__(self) -> None:
        super().__init__()
        context = multiprocessing.get_context("fork")
        self._pool = context.Pool(2, initializer=_start_worker)

    def run_round(self, round_number: int) -> float:
        """Run one round in the workers; return their CPU seconds."""
        state = self.model.state_dict()
        tasks = [(client, round_number, state) for client in range(N_CLIENTS)]
        done = self._pool.map(_train_in_worker, tasks, chunksize=1)
        self.apply([weights for weights, _ in done])
        return sum(cpu_s for _, cpu_s in done)

    def close(self) -> None:
        """End the workers."""
        self._pool.terminate()


class TrainOnly:
    """An engine that trains as another does and leaves evaluation out."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def train(
        self,
        clients: list[int],
        *,
        round_number: int,
        rate: float,
        statistics: Mapping[int, Tensor] | None = None,
        client_done: Callable[[], None] = lambda: None,
    ) -> list[LocalResult]:
        """Return each client's result."""
        return self._engine.train(
            clients,
            round_number=round_number,
            rate=rate,
            statistics=statistics,
            client_done=client_done,
        )

    def recalibrate(self, clients: list[int], *, round_number: int) -> list[Measured]:
        """Return what each client's normalizations see."""
        return self._engine.recalibrate(clients, round_number=round_number)

    def evaluate(self) -> Evaluation:
        """Return nothing worth knowing."""
        return Evaluation(accuracy=0.0, loss=0.0)


class FediacRounds:
    """A run of this package: FediAC, the switch, the ledger and the clock."""

    def __init__(self) -> None:
        settings = RunSettings(train=TrainSettings(device="cpu", lr=RATE, lr_decay=0.0))
        prepared = prepare_run(settings)
        federation = prepared.federation
        self._compressor = prepared.make_compressor()
        self._federation = replace(federation, engine=TrainOnly(federation.engine))
        self._progress = self._federation.start()
        self._network = make_network(
            NetworkDescription(), n_clients=N_CLIENTS, threshold=3, seed=1
        )
        self.train_s: list[float] = []

    def run_round(self, round_number: int) -> float:
        """Run one round and its clock."""
        done = self._federation.run_round(self._progress, self._compressor)
        self._progress = done.progress
        simulate_round(done.ledger, self._network, seed=1, round_number=round_number)
        self.train_s.append(done.train_s)
        return 0.0


class Rounds(Protocol):
    """Something that trains round by round."""

    def run_round(self, round_number: int) -> float:
        """Run a round; return the CPU seconds it took in other processes."""
        ...


@dataclass(frozen=True, slots=True)
class Cost:
    """What a round took."""

    wall_s: float
    cpu_s: float


def measure(rounds: Rounds, round_number: int) -> Cost:
    """Return what one round takes."""
    start, cpu_start = time.perf_counter(), time.process_time()
    elsewhere_s = rounds.run_round(round_number)
    return Cost(
        wall_s=time.perf_counter() - start,
        cpu_s=time.process_time() - cpu_start + elsewhere_s,
    )


def median(costs: list[Cost]) -> Cost:
    """Return the medians; the first round of each warms caches up."""
    return Cost(
        wall_s=statistics.median(each.wall_s for each in costs[1:]),
        cpu_s=statistics.median(each.cpu_s for each in costs[1:]),
    )


def main(n_rounds: int) -> None:
    """Run all three, round by round in turn, and print medians and ratios."""
    forked = ForkedLoop()  # forks before any thread is started
    plain, ours = PlainLoop(), FediacRounds()
    systems: dict[str, Rounds] = {
        "PyTorch loop, one process": plain,
        "PyTorch loop, two forked workers": forked,
        "fediac, FediAC and clock on": ours,
    }
    costs: dict[str, list[Cost]] = {name: [] for name in systems}
    for number in range(1, n_rounds + 2):
        for name, rounds in systems.items():
            costs[name].append(measure(rounds, number))
    forked.close()
    n_images = sum(len(each) for each in plain.clients)
    medians = {name: median(each) for name, each in costs.items()}
    own = medians["fediac, FediAC and clock on"]
    print(f"{n_images} images a round, {os.cpu_count()} cores, median of {n_rounds}")
    print(f"{'':<34}{'s a round':>10}{'x fediac':>10}{'CPU s':>10}{'x fediac':>10}")
    for name, cost in medians.items():
        print(
            f"{name:<34}{cost.wall_s:10.2f}{cost.wall_s / own.wall_s:10.2f}"
            f"{cost.cpu_s:10.2f}{cost.cpu_s / own.cpu_s:10.2f}"
        )
    share = 1.0 - statistics.median(ours.train_s[1:]) / own.wall_s
    print(f"compression and clock are {100 * share:.1f} % of a fediac round")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
