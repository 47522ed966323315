"""Made-up run folders for tests of the report. Nothing here was measured.

Bytes follow the closed forms of each algorithm; accuracy follows a smooth curve that
somebody chose, so that the runs differ in every way a report has to show.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fediac.archives import write_archive

DIM = 11_173_962
N_CLIENTS = 20
MIB = 2**20
SWITCHES = {"fast": 1.0, "slow": 1.12}
"""Switch -> how much longer its phases take."""

PACKETS_PER_S = 1_400


@dataclass(frozen=True)
class Shape:
    """What an algorithm sends a round, and how its accuracy grows."""

    up: dict[str, float]
    """Phase -> share of 32 bits an entry that a client sends."""
    down: dict[str, float]
    chosen: float
    ceiling: float
    pace: float
    gamma: float = 0.0
    bits: int = 0


SHAPES = {
    "fediac": Shape(
        {"votes": 1 / 32, "levels": 0.08 * 10 / 32, "statistics": 0.001},
        {"votes": 1 / 32, "levels": 0.08 * 10 / 32, "statistics": 0.001},
        chosen=0.08,
        ceiling=0.71,
        pace=5.2,
        gamma=0.62,
        bits=10,
    ),
    "switchml": Shape(
        {"peak": 1e-6, "levels": 12 / 32},
        {"peak": 1e-6, "levels": 12 / 32},
        chosen=1.0,
        ceiling=0.70,
        pace=4.1,
        gamma=0.11,
        bits=12,
    ),
    "omnireduce": Shape(
        {"peak": 1e-6, "blocks": 0.55},
        {"peak": 1e-6, "blocks": 0.96},
        chosen=0.05,
        ceiling=0.68,
        pace=5.0,
        gamma=0.55,
        bits=32,
    ),
    "libra": Shape(
        {"peak": 1e-6, "indexed": 0.012, "server": 0.008},
        {"peak": 1e-6, "indexed": 0.05, "server": 0.11},
        chosen=0.01,
        ceiling=0.69,
        pace=7.4,
        gamma=0.81,
        bits=32,
    ),
    "fedavg": Shape({"server": 1.0}, {"server": 1.0}, 1.0, ceiling=0.72, pace=4.0),
    "topk": Shape(
        {"server": 0.02}, {"server": 0.3}, 0.01, ceiling=0.61, pace=8.0, gamma=0.84
    ),
}


def write_run(
    folder: Path,
    algorithm: str,
    *,
    n_rounds: int = 24,
    target: float | None = 0.63,
    has_summary: bool = True,
    **changes: object,
) -> Path:
    """Write one run's folder; ``changes`` are settings of the top level."""
    folder.mkdir(parents=True)
    rounds = make_rounds(algorithm, n_rounds)
    settings = {"algorithm": algorithm, "seed": 1, "tuning": "local", **changes}
    (folder / "config.toml").write_text(_config(settings, target))
    write_rounds(folder, rounds)
    if has_summary:
        summary = _summary(algorithm, rounds, target)
        (folder / "summary.json").write_text(json.dumps(summary, indent=2))
    return folder


def give_metric(folder: Path, metric: str) -> None:
    """Let a run's folder say that its metric came in Python."""
    with (folder / "config.toml").open("a") as file:
        file.write(f'\n[experiment]\nmetric = "{metric}"\n')


def write_comparison(folder: Path, algorithms: Sequence[str] = tuple(SHAPES)) -> Path:
    """Write a run of every algorithm; slower ones get fewer rounds."""
    n_rounds = {"fedavg": 12, "switchml": 16, "omnireduce": 14, "libra": 30, "topk": 30}
    for algorithm in algorithms:
        write_run(folder / algorithm, algorithm, n_rounds=n_rounds.get(algorithm, 24))
    return folder


def zip_folder(folder: Path) -> Path:
    """Write the archive that stands for a folder, beside it."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    archive = folder.with_name(f"{folder.name}.zip")
    write_archive(archive, files)
    return archive


def write_rounds(folder: Path, rounds: Sequence[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(each) + "\n" for each in rounds)
    (folder / "rounds.jsonl").write_text(lines)


def read_rounds(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def edit_rounds(folder: Path, edit: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change a run's rounds in place."""
    rounds = read_rounds(folder)
    edit(rounds)
    write_rounds(folder, rounds)


def make_rounds(algorithm: str, n_rounds: int) -> list[dict[str, Any]]:
    """Return the lines of ``rounds.jsonl`` as objects."""
    shape = SHAPES[algorithm]
    time_s = dict.fromkeys(SWITCHES, 0.0)
    payload_mib = wire_mib = 0.0
    rounds = []
    for number in range(1, n_rounds + 1):
        traffic = _traffic(shape, number)
        timing = {
            switch: _timing(shape, number, slowness)
            for switch, slowness in SWITCHES.items()
        }
        round_s = {switch: max(timing[switch]["finish_s"]) for switch in timing}
        time_s = {switch: time_s[switch] + round_s[switch] for switch in time_s}
        payload_mib += _total(traffic["payload"]) / MIB
        wire_mib += _total(traffic["wire"]) / MIB
        accuracy = _accuracy(shape, number)
        rounds.append(
            {
                "round": number,
                "time_s": time_s,
                "round_s": round_s,
                "accuracy": accuracy,
                "loss": 2.3 * (1.0 - accuracy),
                "train_loss": 2.2 * (1.0 - accuracy),
                "traffic": traffic,
                "payload_mib": payload_mib,
                "wire_mib": wire_mib,
                "clients": N_CLIENTS,
                "votes": DIM // 20 if "votes" in shape.up else 0,
                "chosen": int(shape.chosen * DIM * _drift(number)),
                "bits": shape.bits,
                "peak": 0.15 / math.sqrt(number),
                "scale": 12.0 * math.sqrt(number),
                "gamma": _gamma(shape, number),
                "aggregations": int(667 * _drift(number)),
                "register_bytes": 4096,
                "timing": timing,
                "train_s": 1.25,
                "compress_s": 0.125,
                "simulate_s": 0.0625,
                "evaluate_s": 0.25,
                "real_s": 2.0 * number,
            }
        )
    return rounds


def first_line(algorithm: str) -> str:
    """Return the first line of a made-up run."""
    return json.dumps(make_rounds(algorithm, 1)[0])


def _wave(number: int, client: int = 0) -> float:
    """Return a number in -1..1 that looks like noise, always the same."""
    return math.sin(12.9898 * number + 78.233 * client)


def _drift(number: int) -> float:
    return min(1.0, 0.88 + 0.12 * math.exp(-number / 6) + 0.02 * _wave(number))


def _accuracy(shape: Shape, number: int) -> float:
    value = 0.1 + (shape.ceiling - 0.1) * (1.0 - math.exp(-number / shape.pace))
    return round(value + 0.006 * _wave(number, 7), 4)


def _gamma(shape: Shape, number: int) -> float:
    if not shape.gamma:
        return 0.0
    return shape.gamma * (1.0 + 0.7 * math.exp(-number / 2)) + 0.02 * _wave(number, 3)


def _traffic(shape: Shape, number: int) -> dict[str, Any]:
    def n_bytes(parts: dict[str, float], overhead: float) -> dict[str, int]:
        return {
            phase: int(share * 4 * DIM * N_CLIENTS * overhead * _drift(number))
            for phase, share in parts.items()
        }

    return {
        view: {"up": n_bytes(shape.up, more), "down": n_bytes(shape.down, more)}
        for view, more in (("payload", 1.0), ("wire", 1.045))
    }


def _total(directions: dict[str, dict[str, int]]) -> int:
    return sum(sum(phases.values()) for phases in directions.values())


def _timing(shape: Shape, number: int, slowness: float) -> dict[str, Any]:
    compute_s = 2.0
    phases: list[dict[str, Any]] = []
    for phase, share in shape.up.items():
        n_packets = share * 4 * DIM / 1500 + 1
        upload_s = slowness * n_packets / PACKETS_PER_S * (2.0 + 0.3 * _wave(number))
        download_s = slowness * (shape.down[phase] * 4 * DIM / 1500 + 1) / 7_500
        phases.append({"name": phase, "upload_s": upload_s, "download_s": download_s})
    whole_s = compute_s + sum(each["upload_s"] + each["download_s"] for each in phases)
    finish_s = [
        compute_s + (whole_s - compute_s) * (0.62 + 0.37 * abs(_wave(number, client)))
        for client in range(N_CLIENTS)
    ]
    slowest = number % N_CLIENTS
    finish_s[slowest] = whole_s
    return {
        "compute_s": compute_s,
        "phases": phases,
        "finish_s": finish_s,
        "utilization": 0.01 * slowness,
        "bottleneck": f"uplink of client {slowest}",
    }


def _summary(
    algorithm: str, rounds: Sequence[dict[str, Any]], target: float | None
) -> dict[str, Any]:
    last = rounds[-1]
    hits = [each for each in rounds if target and each["accuracy"] >= target]
    hit = hits[0] if hits else None
    return {
        "algorithm": algorithm,
        "dataset": "made-up",
        "model": "test-cnn",
        "dim": DIM,
        "n_clients": N_CLIENTS,
        "seed": 1,
        "rounds": len(rounds),
        "accuracy": last["accuracy"],
        "best_accuracy": max(each["accuracy"] for each in rounds),
        "payload_mib": last["payload_mib"],
        "wire_mib": last["wire_mib"],
        "time_s": last["time_s"],
        "target": target
        and {
            "accuracy": target,
            "reached": hit is not None,
            "round": hit and hit["round"],
            "payload_mib": hit and hit["payload_mib"],
            "wire_mib": hit and hit["wire_mib"],
            "time_s": hit and hit["time_s"],
        },
        "partition": {
            "name": "dirichlet",
            "sha256": "a1b2" * 16,
            "n_clients": N_CLIENTS,
            "n_examples": 50 * N_CLIENTS,
            "n_used": 50 * N_CLIENTS,
            "min_size": 50,
            "max_size": 50,
            "mean_size": 50.0,
            "clients": [{"size": 50, "n_classes": 1, "class_counts": [50]}] * N_CLIENTS,
        },
        "stopped": "all rounds done",
        "real_s": 60.5,
    }


def _config(settings: dict[str, object], target: float | None) -> str:
    top = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    goal = f"target = {target}\n" if target is not None else ""
    return f"""{top}[data]
name = "made-up"
partition = "dirichlet"
beta = 0.5
[model]
name = "test-cnn"
[clients]
n_clients = {N_CLIENTS}
n_participants = "100%"
[train]
epochs = 5
batch_size = 50
lr = 0.1
lr_decay = 40
[network]
switches = ["fast", "slow"]
memory = "unbounded"
[stop]
rounds = 24
{goal}[save]
checkpoint_every = 10
[versions]
fediac = "0.1.0"
[fediac]
n_votes = "5%"
threshold = 3
bits = 10
[switchml]
bits = 12
[libra]
n_sent = "1%"
"""
