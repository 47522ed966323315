"""Federated training on a CPU, next to the loops people would write instead.

    python -m benchmarks.bench_training [ROUNDS]

The same model, examples, batches and learning rate for all: the embedded digits, 20
clients, one local epoch at batch 32, the small CNN. Plain averaging in the loops;
fediac runs with FediAC, the packet-level switch and the clock on. Rounds are
interleaved, so that whatever else the machine does slows all of them alike; the
median is shown.
"""

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from fediac.core.rng import Stream
from fediac.experiments.building import build_experiment
from fediac.experiments.networks import NetworkSetting, make_network
from fediac.experiments.settings import RunSettings, TrainSettings
from fediac.sim import simulate_round
from fediac.training.cpu import normalize
from fediac.training.datasets import load_dataset
from fediac.training.local import LocalSettings, draw_batches
from fediac.training.models import build_model
from fediac.training.partition import make_partition

N_CLIENTS = 20
RATE = 0.1
LOCAL = LocalSettings(epochs=1, batch_size=32, lr=RATE, lr_decay=0.0)


class PlainLoop:
    """Federated averaging as a first PyTorch script has it: clients one by one."""

    def __init__(self) -> None:
        dataset = load_dataset("digits")
        partition = make_partition(dataset, kind="writer", n_clients=N_CLIENTS, seed=1)
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

    def run_round(self, round_number: int) -> None:
        """Run one round in this process, with as many threads as PyTorch likes."""
        torch.set_num_threads(os.cpu_count() or 1)
        clients = range(N_CLIENTS)
        self.apply([self.train_client(client, round_number) for client in clients])


_worker: PlainLoop


def _start_worker() -> None:
    global _worker
    torch.set_num_threads(1)
    _worker = PlainLoop()


def _train_in_worker(task: tuple[int, int, dict[str, Tensor]]) -> list[Tensor]:
    client, round_number, state = task
    _worker.model.load_state_dict(state)
    return _worker.train_client(client, round_number)


class ForkedLoop(PlainLoop):
    """The same with two worker processes of one thread each."""

    def __init__(self) -> None:
        super().__init__()
        context = multiprocessing.get_context("fork")
        self._pool = context.Pool(2, initializer=_start_worker)

    def run_round(self, round_number: int) -> None:
        """Run one round in the workers."""
        state = self.model.state_dict()
        tasks = [(client, round_number, state) for client in range(N_CLIENTS)]
        self.apply(self._pool.map(_train_in_worker, tasks, chunksize=1))

    def close(self) -> None:
        """End the workers."""
        self._pool.terminate()


class FediacRounds:
    """A run of this package: FediAC, the switch, the ledger and the clock."""

    def __init__(self) -> None:
        settings = RunSettings(train=TrainSettings(device="cpu", lr=RATE, lr_decay=0.0))
        self._federation = build_experiment(settings).federation
        self._progress = self._federation.start()
        self._network = make_network(
            NetworkSetting(), n_clients=N_CLIENTS, threshold=3, seed=1
        )
        self.train_s: list[float] = []
        self.extra_s: list[float] = []

    def run_round(self, round_number: int) -> None:
        """Run one round and its clock; nobody here is timed while evaluating."""
        done = self._federation.run_round(self._progress)
        self._progress = done.progress
        start = time.perf_counter()
        simulate_round(done.ledger, self._network, seed=1, round_number=round_number)
        clock_s = time.perf_counter() - start
        self.train_s.append(done.train_s)
        self.extra_s.append(done.compress_s + clock_s)


def timed(work: Callable[[int], None], round_number: int) -> float:
    """Return the seconds of one round."""
    start = time.perf_counter()
    work(round_number)
    return time.perf_counter() - start


def main(n_rounds: int) -> None:
    """Run all three, round by round in turn, and print medians and ratios."""
    forked = ForkedLoop()  # forks before any thread is started
    plain, ours = PlainLoop(), FediacRounds()
    times: dict[str, list[float]] = {"plain": [], "forked": []}
    for number in range(1, n_rounds + 2):
        times["plain"].append(timed(plain.run_round, number))
        times["forked"].append(timed(forked.run_round, number))
        ours.run_round(number)
    forked.close()
    n_images = sum(len(each) for each in plain.clients)
    mine = [a + b for a, b in zip(ours.train_s, ours.extra_s, strict=True)]
    rows = {
        "PyTorch loop, one process": times["plain"],
        "PyTorch loop, two forked workers": times["forked"],
        "fediac, FediAC and clock on": mine,
    }
    # The first round of each warms caches up.
    medians = {name: statistics.median(each[1:]) for name, each in rows.items()}
    own = medians["fediac, FediAC and clock on"]
    print(f"{n_images} images a round, {os.cpu_count()} cores, median of {n_rounds}")
    for name, seconds in medians.items():
        print(
            f"{name:<34}{seconds:6.2f} s a round {n_images / seconds:8,.0f} images/s"
            f" {seconds / own:6.2f} x fediac"
        )
    share = statistics.median(ours.extra_s[1:]) / own
    print(f"compression and clock are {100 * share:.1f} % of a fediac round")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
