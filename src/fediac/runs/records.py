"""What a run writes: one line a round, and a summary."""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fediac.console import count
from fediac.core.ledger import MIB, PAYLOAD, Ledger, View
from fediac.errors import RunError, say_count
from fediac.files import write_whole
from fediac.runs.rounds import (
    Round,
    check_next,
    parse_object,
    read_whole_round,
)
from fediac.runs.settings import StopSettings
from fediac.sim.timing import RoundTiming
from fediac.transports import WIRE

if TYPE_CHECKING:  # what is stored can be read where PyTorch is not installed
    from fediac.training.federation import FederatedRound

Record = dict[str, Any]

CONFIG = "config.toml"
ROUNDS = "rounds.jsonl"
SUMMARY = "summary.json"
CHECKPOINT = "checkpoint.safetensors"


def make_record(
    done: "FederatedRound",
    timings: Mapping[str, RoundTiming],
    before: Record | None,
    *,
    simulate_s: float,
) -> Record:
    """Return the line of one round.

    Args:
        done: The round.
        timings: How long it took on each switch.
        before: The line of the round before; None in the first.
        simulate_s: Seconds that the clock itself took here.
    """
    facts = done.result.facts
    totals = {
        f"{view.name}_mib": (before or {}).get(f"{view.name}_mib", 0.0)
        + _round_bytes(done.ledger, view) / MIB
        for view in (PAYLOAD, WIRE)
    }
    return {
        "round": done.progress.round_number,
        "time_s": {
            name: (before or {"time_s": {name: 0.0}})["time_s"][name] + timing.round_s
            for name, timing in timings.items()
        },
        "round_s": {name: timing.round_s for name, timing in timings.items()},
        "accuracy": done.evaluation.accuracy,
        "loss": _finite(done.evaluation.loss),
        "train_loss": _finite(done.train_loss),
        "traffic": {
            view.name: _by_phase(done.ledger, view) for view in (PAYLOAD, WIRE)
        },
        **totals,
        "clients": len(done.clients),
        "votes": facts.votes,
        "chosen": facts.chosen,
        "clamped": facts.clamped,
        "bits": facts.bits,
        "peak": facts.peak,
        "scale": facts.scale,
        "gamma": facts.gamma,
        "aggregations": facts.aggregations,
        "register_bytes": facts.register_bytes,
        "timing": {name: _describe(timing) for name, timing in timings.items()},
        "train_s": done.train_s,
        "compress_s": done.compress_s,
        "simulate_s": simulate_s,
        "evaluate_s": done.evaluate_s,
    }


def _finite(value: float) -> float | None:
    """Return a number that JSON has; None for the loss of a model that diverged."""
    return value if math.isfinite(value) else None


def _round_bytes(ledger: Ledger, view: View) -> float:
    traffic = ledger.traffic(view)
    return traffic.payload_bits / 8 if view is PAYLOAD else traffic.n_bytes


def _by_phase(ledger: Ledger, view: View) -> Record:
    return {
        direction: {
            phase: _round_bytes(ledger.select(direction=direction, phase=phase), view)
            for phase in ledger.phases
        }
        for direction in ("up", "down")
    }


def _describe(timing: RoundTiming) -> Record:
    return {
        "compute_s": timing.shares["compute"],
        "phases": [
            {
                "name": phase.name,
                "upload_s": phase.upload_s,
                "download_s": phase.download_s,
            }
            for phase in timing.phases
        ],
        "finish_s": [client.finish_s for client in timing.clients],
        "utilization": timing.switch.utilization,
        "bottleneck": timing.bottleneck,
    }


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


class RoundLog:
    """The file of a run's lines."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ROUNDS

    def append(self, record: Record) -> None:
        """Add a line; it is on disk when this returns.

        Raises:
            RunError: A number is not finite: somebody's own algorithm may tell so.
        """
        try:
            line = json.dumps(record, allow_nan=False)
        except ValueError:
            names = [name for name, each in record.items() if not _is_finite(each)]
            what = ", ".join(names) or "all numbers"
            raise RunError(f"round {record['round']}: {what} must be finite") from None
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())

    def keep_until(self, round_number: int) -> list[Record]:
        """Return the lines up to a round, and drop what comes after it.

        A run that was killed may have written a line, or part of one, after its last
        checkpoint; going on will write it again.

        Raises:
            RunError: A line that must be there is missing or damaged.
        """
        data = self._path.read_bytes() if self._path.exists() else b""
        lines = data.split(b"\n")[:-1][:round_number]
        if len(lines) < round_number:
            raise RunError(
                f"{self._path}: must have a line for each of "
                f"{say_count(round_number, 'round')} in the checkpoint, "
                f"got {len(lines)}"
            )
        records = parse_records(lines, self._path)
        write_whole(self._path, b"".join(line + b"\n" for line in lines))
        return records


def parse_records(lines: Sequence[bytes], path: Path) -> list[Record]:
    """Return the lines of ``path``, which are rounds from the first on.

    Whoever goes on with a run or makes tables of it can take every number of a line
    that ``make_record`` and a run put there.

    Raises:
        RunError: A line is damaged, or a round is missing.
    """
    records: list[Record] = []
    last: Round | None = None
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        record = parse_object(line, where)
        if record.get("round") != number:
            raise RunError(
                f"{where}: round must be {number}, got {record.get('round')}"
            )
        now = read_whole_round(record, where)
        if last is not None:
            check_next(now, last, where)
        records.append(record)
        last = now
    return records


def stop_reason(stop: StopSettings, record: Record) -> str:
    """Return why a run is over after this line; empty while it is not."""
    checks: list[tuple[float | None, float, Callable[[float], str]]] = [
        (stop.target, record["accuracy"], lambda goal: f"accuracy reached {goal:g}"),
        (
            stop.n_rounds,
            record["round"],
            # A longer run may be asked to stop where it has long been.
            lambda _: f"{count(record['round'], 'round')} done",
        ),
        (
            stop.simulated_s,
            min(record["time_s"].values()),
            lambda goal: f"{goal:g} simulated {_seconds(goal)} over",
        ),
        (stop.real_s, record["real_s"], lambda goal: f"{goal:g} {_seconds(goal)} over"),
    ]
    for goal, value, say in checks:
        if goal is not None and value >= goal:
            return say(goal)
    return ""


def _seconds(number: float) -> str:
    return "second" if number == 1 else "seconds"


def summarize(records: list[Record], target: float | None) -> Record:
    """Return the last line's numbers, and those of the first at the target."""
    last = records[-1]
    names = ("accuracy", "payload_mib", "wire_mib", "time_s")
    summary: Record = {"rounds": last["round"]}
    summary |= {name: last[name] for name in names}
    summary["best_accuracy"] = max(record["accuracy"] for record in records)
    summary["target"] = None if target is None else _at_target(records, target)
    return summary


def _at_target(records: list[Record], target: float) -> Record:
    first = find_reached(records, target)
    names = ("round", "payload_mib", "wire_mib", "time_s")
    numbers = {name: first and first[name] for name in names}
    return {"accuracy": target, "reached": first is not None, **numbers}


def find_reached(records: Iterable[Record], target: float) -> Record | None:
    """Return the first line with at least this accuracy."""
    return next((each for each in records if each["accuracy"] >= target), None)


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary of a run or of a comparison, all or nothing."""
    write_whole(folder / SUMMARY, json.dumps(summary, indent=2) + "\n")
