"""The same training by ``fediac run``, and by Flower with and without FediAC.

    python -m benchmarks.bench_flower [ROUNDS]
    python -m benchmarks.bench_flower many [CLIENTS SAMPLED ROUNDS]

The embedded digits by writer, 20 clients, one local epoch at batch 32, the same network
of 50,890 parameters. Each is a process of its own, and its seconds are those of the
whole command. Bytes are of the clients' values, up and down, without headers.

``many``, which is also run in the end, has more clients than a round asks: 1,000
and 50. It shows the most memory that all its processes had in the first third
of the rounds and in the last one, and how many clients had taken part by then: with
their residuals in files, as they are by default, and in memory.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import Tensor, nn

import fediac
from fediac.flower import CompressedStrategy, compress_mod

N_CLIENTS = 20
LR = 0.1
BATCH = 32


class Net(nn.Module):
    """Two layers, 50,890 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(28 * 28, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(torch.relu(self.hidden(x.flatten(1))))
        return logits


def make_net(_in_channels: int = 1, _n_classes: int = 10) -> nn.Module:
    return Net()


_DATA: list[Any] = []


def examples(client: int, n_clients: int) -> tuple[Tensor, Tensor]:
    """Return one client's examples; a process reads them once."""
    if not _DATA:
        data = fediac.load_dataset("digits")
        labels = data.train.labels
        n_shares = min(n_clients, N_CLIENTS)
        _DATA.append(
            (data, fediac.partition.dirichlet(labels, n_shares, beta=1.0, seed=1))
        )
    data, shares = _DATA[0]
    chosen = shares[client % len(shares)]
    images = torch.tensor(data.train.images[chosen], dtype=torch.float32) / 255
    return images, torch.tensor(data.train.labels[chosen])


def train(message: Message, context: Context) -> Message:
    """Train one local epoch."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    images, labels = examples(
        int(context.node_config["partition-id"]),
        int(context.node_config["num-partitions"]),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    order = torch.randperm(len(labels))
    for first in range(0, len(labels), BATCH):
        chosen = order[first : first + BATCH]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images[chosen]), labels[chosen])
        torch.autograd.backward(loss)
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(labels)})
    content = {"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}
    return Message(RecordDict(content), reply_to=message)


class CountedFedAvg(FedAvg):
    """FedAvg that counts the bytes of models that travel, and who takes part."""

    n_bytes = 0

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.seen: set[int] = set()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self.n_bytes += len(messages) * model_bytes(arrays)
        self.seen.update(each.metadata.dst_node_id for each in messages)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        found = list(replies)
        for each in found:
            if each.has_content():
                self.n_bytes += model_bytes(each.content["arrays"])
        after: tuple[ArrayRecord | None, MetricRecord | None]
        after = super().aggregate_train(server_round, found)
        return after


def model_bytes(arrays: ArrayRecord) -> int:
    return sum(each.numpy().nbytes for each in arrays.values())


def processes_mib() -> float:
    """Return the memory of this process group that is no file's, shared parts once."""
    total, own = 0, os.getpgid(0)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) != own:
                continue
            text = (folder / "smaps_rollup").read_text()
        except (OSError, ValueError):
            continue
        total += sum(
            int(line.split()[1])
            for line in text.splitlines()
            if line.startswith(("Pss_Anon:", "Pss_Shmem:"))
        )
    return total / 1024


class Peak:
    """The most memory of this process group, looked at twice a second."""

    def __init__(self) -> None:
        self._most = 0.0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            self._most = max(self._most, processes_mib())
            time.sleep(0.5)

    def take(self) -> float:
        """Return the most since this was last asked."""
        most, self._most = self._most, 0.0
        return most


def simulate(kind: str, n_rounds: int, n_clients: int, n_sampled: int) -> None:
    """Run Flower's simulation in this process; print its bytes as JSON."""
    said: dict[str, Any] = {}
    server = ServerApp()

    @server.main()
    def main(grid: Grid, _context: Context) -> None:
        torch.manual_seed(1)  # noqa: TID251 - a benchmark's first weights
        arrays = ArrayRecord(Net().state_dict())
        own = CountedFedAvg(
            fraction_train=n_sampled / n_clients,
            fraction_evaluate=0.0,
            min_available_nodes=n_clients,
        )
        peak, seen = Peak(), own.seen

        def look(number: int, _arrays: ArrayRecord) -> None:
            third = n_rounds // 3
            if number in (third, n_rounds - third, n_rounds):
                said.setdefault("peaks", []).append((number, peak.take(), len(seen)))

        if kind == "fedavg":
            own.start(grid, arrays, n_rounds)
            said["bytes"] = own.n_bytes
            return
        strategy = CompressedStrategy(
            own,
            seed=1,
            nodes_folder="memory" if kind == "in-memory" else "auto",
            n_votes="5%",
            threshold="15%",
        )
        result = strategy.start(grid, arrays, n_rounds, evaluate_fn=look)
        rounds = result.train_metrics_clientapp.values()
        sent = [each["fediac-bytes-up"] + each["fediac-bytes-down"] for each in rounds]
        said["bytes"] = sum(sent)
        said["later"] = sum(sent[1:]) // max(1, len(sent) - 1)

    client = ClientApp(mods=[] if kind == "fedavg" else [compress_mod])
    client.train()(train)
    run_simulation(
        server,
        client,
        num_supernodes=n_clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    print("said " + json.dumps(said), flush=True)


def run_fediac(n_rounds: int) -> tuple[float, int]:
    """Return the seconds and bytes of ``fediac run``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.toml").write_text(
            'data.name = "digits"\ndata.partition = "dirichlet"\ndata.beta = 1.0\n'
            'model.name = "benchmarks.bench_flower:make_net"\n'
            f"clients.n_clients = {N_CLIENTS}\n"
            f"train.epochs = 1\ntrain.batch_size = {BATCH}\ntrain.lr = {LR}\n"
            f"train.lr_decay = 0.0\nstop.rounds = {n_rounds}\n"
            'fediac.n_votes = "5%"\nfediac.threshold = "15%"\n'
        )
        command = [sys.executable, "-m", "fediac", "run", str(folder / "config.toml")]
        start = time.perf_counter()
        subprocess.run(
            [*command, "--out", str(folder / "out")], check=True, capture_output=True
        )
        seconds = time.perf_counter() - start
        lines = (folder / "out" / "rounds.jsonl").read_text().splitlines()
    sent = [json.loads(line)["traffic"]["payload"] for line in lines]
    n_bytes = sum(sum(way.values()) for each in sent for way in each.values())
    return seconds, round(n_bytes)


def run_flower(kind: str, *numbers: int) -> tuple[float, dict[str, Any]]:
    """Return the seconds of a simulation, and what it said."""
    # Not with -m: Ray sends what is in __main__ to its actors with each message, and
    # they would read the data each time.
    code = "import sys; from benchmarks.bench_flower import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "--in", kind]
    quiet = {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
    }
    start = time.perf_counter()
    said: dict[str, Any] = {}
    with subprocess.Popen(
        [*command, *map(str, numbers)],
        env=os.environ | quiet,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as process:
        for line in process.stdout or ():
            if line.startswith("said "):
                said = json.loads(line.removeprefix("said "))
    if not said:
        told = " ".join([kind, *map(str, numbers)])
        raise SystemExit(f"Flower's simulation failed: --in {told} shows how")
    return time.perf_counter() - start, said


def run_many(n_clients: int = 1000, n_sampled: int = 50, n_rounds: int = 24) -> None:
    """Print the peaks of memory where few clients take part in a round."""
    print(f"{n_clients} clients, {n_sampled} a round, {n_rounds} rounds: MiB at most")
    for name, kind in (("in files", "in-files"), ("in memory", "in-memory")):
        seconds, said = run_flower(kind, n_rounds, n_clients, n_sampled)
        first, _, last = said["peaks"]
        print(f"residuals {name:14}{seconds:9.1f} s", end="")
        for start, (end, mib, n_seen) in ((1, first), (last[0] * 2 // 3 + 1, last)):
            shown = f"rounds {start} to {end}: {mib:,.0f} ({n_seen} clients seen)"
            print(f"  {shown}", end="")
        print(flush=True)


def main(arguments: list[str]) -> None:
    """Print the table, or the rounds of many clients."""
    if arguments[:1] == ["--in"]:
        n_rounds, n_clients, n_sampled = map(int, arguments[2:])
        simulate(arguments[1], n_rounds, n_clients, n_sampled)
        return
    if arguments[:1] == ["many"]:
        run_many(*(int(each) for each in arguments[1:]))
        return
    n_rounds = int(arguments[0]) if arguments else 10
    print(f"{'':24}{'seconds':>9}{'MiB':>9}{'MiB a round from the second':>30}")
    seconds, n_bytes = run_fediac(n_rounds)
    print(f"{'fediac run':24}{seconds:9.1f}{n_bytes / 2**20:9.2f}", flush=True)
    for name, kind in (("Flower, FedAvg", "fedavg"), ("Flower, FediAC", "fediac")):
        seconds, said = run_flower(kind, n_rounds, N_CLIENTS, N_CLIENTS)
        later = f"{said['later'] / 2**20:30.2f}" if "later" in said else ""
        print(f"{name:24}{seconds:9.1f}{said['bytes'] / 2**20:9.2f}{later}", flush=True)
    run_many()


if __name__ == "__main__":
    main(sys.argv[1:])
