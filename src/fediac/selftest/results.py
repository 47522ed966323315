"""What a self-test found: numbers for programs, lines for people."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fediac.console import count
from fediac.selftest.under_attack import Attacked


@dataclass(slots=True)
class Trial:
    """What came of one algorithm's rounds.

    Attributes:
        rounds: That were compared with the round in memory.
        packets: Datagrams that reached the switch.
        retransmissions: Packets that members sent again.
        seconds: All rounds together; not what memory took.
        drops: Reason -> packets that the switch dropped.
        kills: Processes that were killed.
        rounds_retried: Attempts at rounds that were given up, and made again.
        longest_wait_s: The longest that a round took, from its beginning to its end.
        differences: What is not as it must be, in words; none: all is equal.
        relay: What happened to datagrams on their way.
        buffer_bytes: The smallest receive buffer that a client got; None: unknown.
    """

    rounds: int = 0
    packets: int = 0
    retransmissions: int = 0
    seconds: float = 0.0
    drops: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    rounds_retried: int = 0
    longest_wait_s: float = 0.0
    differences: list[str] = field(default_factory=list)
    relay: Counter[str] = field(default_factory=Counter)
    buffer_bytes: int | None = None

    def note_buffer(self, n_bytes: int | None) -> None:
        """Note a client's receive buffer, if it has said what it got."""
        given = [each for each in (self.buffer_bytes, n_bytes) if each is not None]
        self.buffer_bytes = min(given, default=None)

    @property
    def is_equal(self) -> bool:
        """Whether everything is as it was in memory, and something was compared."""
        return self.rounds > 0 and not self.differences

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "equal": self.is_equal,
            "rounds": self.rounds,
            "packets": self.packets,
            "retransmissions": self.retransmissions,
            "packets_per_s": self.packets / self.seconds if self.seconds else 0.0,
            "seconds": self.seconds,
            "drops": dict(self.drops),
            "kills": self.kills,
            "rounds_retried": self.rounds_retried,
            "longest_wait_s": self.longest_wait_s,
            "differences": self.differences,
            "relay": dict(self.relay),
            "buffer_bytes": self.buffer_bytes,
        }


def add_up(trials: Iterable[Trial]) -> Trial:
    """Return the numbers of several trials together."""
    total = Trial()
    for each in trials:
        total.rounds += each.rounds
        total.packets += each.packets
        total.retransmissions += each.retransmissions
        total.seconds += each.seconds
        total.drops.update(each.drops)
        total.kills += each.kills
        total.rounds_retried += each.rounds_retried
        total.longest_wait_s = max(total.longest_wait_s, each.longest_wait_s)
        total.differences += each.differences
        total.relay.update(each.relay)
        total.note_buffer(each.buffer_bytes)
    return total


def say_trial(name: str, trial: Trial) -> str:
    """Return what came of an algorithm in one line."""
    verdict = "equal to the bit" if trial.is_equal else "DIFFERENT"
    kills = f" and {count(trial.kills, 'kill')}" if trial.kills else ""
    again = ""
    if trial.rounds_retried:
        again = f", {count(trial.rounds_retried, 'attempt')} given up"
    return (
        f"{name}: {count(trial.rounds, 'round')}{kills} {verdict}{again}; "
        f"{count(trial.packets, 'packet')}, {trial.retransmissions:,} sent again, "
        f"{trial.seconds:.1f} s, the longest round {trial.longest_wait_s:.1f} s"
    )


def document(trials: Mapping[str, Trial], attacked: Attacked | None) -> dict[str, Any]:
    """Return all of a self-test as JSON has it."""
    total = add_up(trials.values()).document()
    total["equal"] = all(each.is_equal for each in trials.values())
    total["accepted"] = None if attacked is None else attacked.n_accepted
    if attacked is not None:
        total["attacks"] = attacked.document()
        total["differences"] += attacked.differences
    return {**total, "algorithms": {k: v.document() for k, v in trials.items()}}
