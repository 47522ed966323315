"""One client of `benchmarks.bench_round_network`, in a namespace of its own.

It reads a line of JSON for each round and writes one: how it went. Compression and
exchange are the product's; only what carries the exchanges differs.
"""

import json
import os
import socket
import struct
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

import fediac
from fediac import native
from fediac.compressors.protocol import Outcome
from fediac.core.exchange import (
    Answer,
    Consensus,
    Exchange,
    Max,
    Peak,
    Sum,
    Tally,
    Totals,
)
from fediac.core.rng import Stream
from fediac.defaults import RESNET18_DIM
from fediac.transports.lockstep import run_lockstep
from fediac.wire.header import PAYLOAD_BYTES

SEED = 1


def make_compressor(name: str, n_clients: int) -> fediac.FediAC:
    """Return the algorithm by what a line of the benchmark calls it."""
    if name == "shared votes":
        return fediac.FediAC.lean(
            n_clients,
            n_votes="0.5%",
            threshold="10%",
            growth=0.0,
            entries_per_vote=32,
            rank_by="peak",
        )
    return fediac.FediAC(n_clients, bits=12)


def make_update(client: int) -> npt.NDArray[np.float32]:
    """Return magnitudes as of trained models: a power law, some of it shared by all."""
    shared = np.random.default_rng(0).pareto(1.5, RESNET18_DIM)
    own = np.random.default_rng(1 + client)
    sizes = shared * own.exponential(size=RESNET18_DIM)
    signs = own.choice(np.array([-1.0, 1.0]), RESNET18_DIM)
    update: npt.NDArray[np.float32] = (1e-3 * sizes * signs).astype(np.float32)
    return update


class TcpTransport:
    """Carries exchanges to a parameter server: a length, a message, and an answer."""

    payload_bytes = PAYLOAD_BYTES

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def carry(self, requests: Mapping[int, Exchange]) -> Answer:
        (asked,) = requests.values()
        told = write_exchange(asked)
        send_message(self.socket, told)
        answered = receive_message(self.socket)
        match asked:
            case Tally():
                gia = np.frombuffer(answered["gia"], np.uint8)
                return Consensus(gia, answered["peak"], answered["bits"])
            case Max():
                return Peak(answered["peak"])
            case Sum():
                lanes = np.frombuffer(answered["lanes"], np.uint8)
                n_clients = answered["n_clients"]
                return Totals(
                    lanes, asked.n_levels, asked.bits_down, asked.limit, n_clients
                )
        raise SystemExit(f"no server for {asked}")


def write_exchange(asked: Exchange) -> dict[str, Any]:
    match asked:
        case Tally():
            return {
                "kind": "tally",
                "votes": np.asarray(asked.votes).tobytes(),
                "dim": asked.dim,
                "threshold": asked.threshold,
                "peak": asked.peak,
                "bits": asked.bits,
            }
        case Max():
            return {"kind": "max", "peak": asked.peak}
        case Sum():
            return {
                "kind": "sum",
                "lanes": np.asarray(asked.lanes).tobytes(),
                "n_levels": asked.n_levels,
                "bits_up": asked.bits_up,
                "bits_down": asked.bits_down,
            }
    raise SystemExit(f"no server for {asked}")


def send_message(to: socket.socket, message: Mapping[str, Any]) -> None:
    body = msgspec.msgpack.encode(message)
    to.sendall(struct.pack(">Q", len(body)) + body)


def receive_message(of: socket.socket) -> dict[str, Any]:
    (length,) = struct.unpack(">Q", _receive(of, 8))
    message: dict[str, Any] = msgspec.msgpack.decode(_receive(of, length))
    return message


def _receive(of: socket.socket, n_bytes: int) -> bytearray:
    data = bytearray(n_bytes)
    view = memoryview(data)
    while view:
        n = of.recv_into(view)
        if not n:
            raise SystemExit("the other side has left")
        view = view[n:]
    return data


class BenchClient:
    """What a client does in each kind of round."""

    def __init__(self, number: int, n_clients: int, hub: str) -> None:
        self.number, self.n_clients, self.hub = number, n_clients, hub
        self.update = make_update(number)
        self.states: dict[str, fediac.State] = {}
        self.tcp: TcpTransport | None = None
        self.port = 0
        self.group: Any = None

    def run(self, told: Mapping[str, Any]) -> dict[str, Any]:
        if told["by"] == "gloo":
            return self.all_reduce(told)
        name = told["settings"]
        state = self.states.get(told["by"] + name, fediac.State())
        compressor = make_compressor(name, self.n_clients)
        stream = Stream(SEED, told["round"], self.number)
        run = compressor.run_round(self.update, state, stream)
        n_resent = 0
        if told["by"] == "switch":
            address = f"{self.hub}:{told['port']}"
            with fediac.SwitchClient(
                address, session=told["session"], client=self.number
            ) as door:
                outcome, ledger = door.run(run, round_number=told["round"])
                n_resent = door.n_resent
        else:
            if self.tcp is None or self.port != told["port"]:
                self.port = told["port"]
                self.tcp = TcpTransport((self.hub, self.port))
            outcomes, ledger = run_lockstep(
                {self.number: run}, self.tcp, round_number=told["round"]
            )
            outcome = outcomes[self.number]
        self.states[told["by"] + name] = outcome.state
        mean = dense(outcome, self.update)
        n_bytes = ledger.traffic(fediac.WIRE).n_bytes
        return {"sum": mean_of(mean), "bytes": n_bytes, "resent": n_resent}

    def all_reduce(self, told: Mapping[str, Any]) -> dict[str, Any]:
        import torch
        from torch import distributed

        if self.group is None:
            distributed.init_process_group(
                "gloo",
                init_method=told["store"],
                rank=self.number,
                world_size=self.n_clients,
            )
            self.group = True
            return {"sum": 0.0, "bytes": 0, "resent": 0}
        values = torch.from_numpy(self.update).clone()
        distributed.all_reduce(values)
        values /= self.n_clients
        share = 2 * (self.n_clients - 1) / self.n_clients
        n_bytes = int(2 * share * 4 * RESNET18_DIM)  # a ring, up and down
        return {"sum": mean_of(values.numpy()), "bytes": n_bytes, "resent": 0}


def dense(outcome: Outcome, like: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    mean: npt.NDArray[np.float32] = outcome.mean.dense(like)
    return mean


def mean_of(values: npt.NDArray[np.float32]) -> float:
    """Return a number that tells two means apart, from some of their entries."""
    return float(np.asarray(values[::97], np.float64).sum())


def main() -> None:
    number, n_clients, hub = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    client = BenchClient(number, n_clients, hub)
    os.write(1, b'{"ready": true}\n')
    with native.single_thread():
        for line in sys.stdin:
            os.write(1, (json.dumps(client.run(json.loads(line))) + "\n").encode())


if __name__ == "__main__":
    main()
