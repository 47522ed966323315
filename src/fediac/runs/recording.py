"""What a run does about its records: make them, write them, and know when to stop."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fediac.console import count
from fediac.core.ledger import MIB, PAYLOAD, Ledger, View
from fediac.errors import RunError, say_count
from fediac.files import replacing, write_whole
from fediac.plan.updates import updates_name
from fediac.runs.records import (
    ROUNDS,
    SUMMARY,
    Phase,
    Round,
    SentBytes,
    Timing,
    Traffic,
    read_rounds,
)
from fediac.runs.settings import StopSettings
from fediac.sim.timing import RoundTiming
from fediac.transports import WIRE

if TYPE_CHECKING:  # when to stop can be asked where PyTorch is not installed
    from fediac.training.federation import FederatedRound
    from fediac.training.local import LocalResult


def make_round(
    done: "FederatedRound",
    timings: Mapping[str, RoundTiming],
    before: Round | None,
    *,
    simulate_s: float,
    real_s: float,
    tuned: dict[str, int] | None = None,
) -> Round:
    """Return the record of one round.

    Args:
        done: The round.
        timings: How long it took on each switch.
        before: The round before; None in the first.
        simulate_s: Seconds that the clock itself took here.
        real_s: Seconds since the run's start.
        tuned: What the server set after the round.
    """
    facts, ledger = done.result.facts, done.ledger
    past_s = dict.fromkeys(timings, 0.0) if before is None else before.time_s
    past_mib = {"payload": 0.0, "wire": 0.0} if before is None else before.mib
    return Round(
        number=done.progress.round_number,
        time_s={name: past_s[name] + each.round_s for name, each in timings.items()},
        round_s={name: each.round_s for name, each in timings.items()},
        accuracy=done.evaluation.accuracy,
        loss=_finite(done.evaluation.loss),
        train_loss=_finite(done.train_loss),
        traffic=Traffic(_by_phase(ledger, PAYLOAD), _by_phase(ledger, WIRE)),
        payload_mib=past_mib["payload"] + _round_bytes(ledger, PAYLOAD) / MIB,
        wire_mib=past_mib["wire"] + _round_bytes(ledger, WIRE) / MIB,
        clients=len(done.clients),
        votes=facts.votes,
        chosen=facts.chosen,
        clamped=facts.clamped,
        bits=facts.bits,
        peak=facts.peak,
        scale=facts.scale,
        gamma=facts.gamma,
        aggregations=facts.aggregations,
        register_bytes=facts.register_bytes,
        timing={name: _describe(timing) for name, timing in timings.items()},
        train_s=done.train_s,
        compress_s=done.compress_s,
        simulate_s=simulate_s,
        evaluate_s=done.evaluate_s,
        real_s=real_s,
        tuned=tuned,
    )


def _finite(value: float) -> float | None:
    """Return a number that JSON has; None for the loss of a model that diverged."""
    return value if math.isfinite(value) else None


def _round_bytes(ledger: Ledger, view: View) -> float:
    traffic = ledger.traffic(view)
    return traffic.payload_bits / 8 if view is PAYLOAD else traffic.n_bytes


def _by_phase(ledger: Ledger, view: View) -> SentBytes:
    up, down = (
        {
            phase: _round_bytes(ledger.select(direction=direction, phase=phase), view)
            for phase in ledger.phases
        }
        for direction in ("up", "down")
    )
    return SentBytes(up, down)


def _describe(timing: RoundTiming) -> Timing:
    return Timing(
        compute_s=timing.shares["compute"],
        phases=tuple(
            Phase(phase.name, phase.upload_s, phase.download_s)
            for phase in timing.phases
        ),
        finish_s=tuple(client.finish_s for client in timing.clients),
        utilization=timing.switch.utilization,
        bottleneck=timing.bottleneck,
    )


class RoundLog:
    """The file of a run's rounds."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ROUNDS

    def append(self, record: Round) -> None:
        """Add a line; it is on disk when this returns.

        Raises:
            RunError: A number is not finite, as a user's own algorithm may report.
        """
        wrong = [
            name
            for name, each in msgspec.structs.asdict(record).items()
            if isinstance(each, float) and not math.isfinite(each)
        ]
        if wrong:
            raise RunError(f"round {record.number}: {', '.join(wrong)} must be finite")
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def require_length(self, n_rounds: int) -> None:
        """Refuse a file with other rounds than those that this process knows of.

        Raises:
            RunError: Somebody else went on with the run, and may have ended.
        """
        there = self._path.read_bytes().count(b"\n") if self._path.exists() else 0
        if there != n_rounds:
            raise RunError(
                f"{self._path}: must have {say_count(n_rounds, 'round')} to go on, got "
                f"{there}; another process went on with this run"
            )

    def keep_until(self, round_number: int) -> list[Round]:
        """Return the rounds up to one, and drop what comes after it.

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
        rounds = read_rounds(lines, self._path)
        write_whole(self._path, b"".join(line + b"\n" for line in lines))
        return rounds


def save_updates(
    folder: Path, round_number: int, trained: "Sequence[LocalResult]"
) -> None:
    """Write the updates of a round to ``updates-ROUND.npy``, one a row.

    They are what training gave, before any residual is added.

    Args:
        folder: The run's folder.
        round_number: The round.
        trained: What its clients trained.
    """
    rows = np.stack([each.update.cpu().numpy() for each in trained])
    with (
        replacing(folder / updates_name(round_number)) as temporary,
        temporary.open("wb") as file,
    ):
        np.save(file, rows)


def write_rounds(folder: Path, records: Iterable[Round]) -> None:
    """Write all rounds of a run at once, all or nothing."""
    lines = (msgspec.json.encode(each) + b"\n" for each in records)
    write_whole(folder / ROUNDS, b"".join(lines))


def stop_reason(stop: StopSettings, record: Round) -> str:
    """Return why a run is over after this round; empty while it is not."""
    checks: list[tuple[float | None, float, Callable[[float], str]]] = [
        (stop.target, record.accuracy, lambda goal: f"accuracy reached {goal:g}"),
        (
            stop.n_rounds,
            record.number,
            # A longer run may be asked to stop where it has long been.
            lambda _: f"{count(record.number, 'round')} done",
        ),
        (
            stop.simulated_s,
            min(record.time_s.values()),
            lambda goal: f"{goal:g} simulated {_seconds(goal)} over",
        ),
        (stop.real_s, record.real_s, lambda goal: f"{goal:g} {_seconds(goal)} over"),
    ]
    for goal, value, say in checks:
        if goal is not None and value >= goal:
            return say(goal)
    return ""


def _seconds(number: float) -> str:
    return "second" if number == 1 else "seconds"


def write_summary(folder: Path, summary: object) -> None:
    """Write the summary of a run or of a comparison, all or nothing."""
    text = msgspec.json.format(msgspec.json.encode(summary), indent=2)
    write_whole(folder / SUMMARY, text + b"\n")
