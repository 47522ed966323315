"""A simulation in which other nodes take part each round; it prints its memory.

    python -m tests.flower.simulated_memory NODES_FOLDER

It is a process of its own, as Flower's simulation has all nodes' states in one.
"""

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from fediac.flower import CompressedStrategy, compress_mod

N_NODES, N_SAMPLED, N_ROUNDS = 120, 10, 12
DIM = 200_000


class InTurn(FedAvg):
    """Asks other nodes each round."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        while len(nodes := sorted(grid.get_node_ids())) < N_NODES:
            time.sleep(0.1)  # they come one by one at the start
        chosen = nodes[(server_round - 1) * N_SAMPLED : server_round * N_SAMPLED]
        content = {self.arrayrecord_key: arrays, self.configrecord_key: config}
        return [
            Message(RecordDict(content), node, MessageType.TRAIN) for node in chosen
        ]


def train(message: Message, context: Context) -> Message:
    """Train: each node has an update of its own."""
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    before = message.content["arrays"]["w"].numpy()
    after = before - rng.normal(size=DIM).astype(np.float32)
    content = {
        "arrays": ArrayRecord({"w": Array(after)}),
        "metrics": MetricRecord({"num-examples": 1}),
    }
    return Message(RecordDict(content), reply_to=message)


def own_bytes() -> int:
    """Return the memory of this process that is no file's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (each for each in lines if each.startswith("RssAnon"))
    return 1024 * int(line.split()[1])


def main(nodes_folder: str) -> None:
    """Run it; print the memory after each round, and how many took part."""
    said: dict[str, Any] = {"bytes": []}
    server = ServerApp()

    @server.main()
    def run(grid: Grid, _context: Context) -> None:
        strategy = CompressedStrategy(
            InTurn(fraction_evaluate=0.0), n_votes="1%", nodes_folder=nodes_folder
        )
        model = ArrayRecord({"w": Array(np.zeros(DIM, dtype=np.float32))})

        def look(_number: int, _arrays: ArrayRecord) -> None:
            said["bytes"].append(own_bytes())

        result = strategy.start(grid, model, N_ROUNDS, evaluate_fn=look)
        said["members"] = [
            each["fediac-members"] for each in result.train_metrics_clientapp.values()
        ]

    client = ClientApp(mods=[compress_mod])
    client.train()(train)
    run_simulation(
        server,
        client,
        num_supernodes=N_NODES,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    sys.stdout.write(f"said {json.dumps(said)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
