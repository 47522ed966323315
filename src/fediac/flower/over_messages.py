"""The ServerApp as switch and far server: exchanges of all members in, answers out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fediac.compressors import Compressor
from fediac.core.exchange import Answer, Exchange
from fediac.flower.records import count_bytes
from fediac.sessions.messages import Step
from fediac.switch import Switch
from fediac.transports.capacity import require_capacity
from fediac.transports.exchange_checks import check_same
from fediac.transports.memory import MemoryTransport

Asked = tuple[Exchange, ...]


@dataclass(slots=True)
class Traffic:
    """Bytes of arrays that a round has sent, by what for and which way.

    Attributes:
        counts: (phase, ``up`` or ``down``) -> bytes.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, phase: str, direction: str, n_bytes: int) -> None:
        """Count bytes."""
        self.counts[phase, direction] += n_bytes


class Carrier:
    """Carries the exchanges of one attempt at a round in this process.

    Args:
        compressor: The round's.
        n_places: Clients that were asked to take part.
        members: Places of those that do.
    """

    def __init__(
        self, compressor: Compressor, n_places: int, members: Sequence[int]
    ) -> None:
        present = sum(1 << place for place in members)
        self._transports = []
        for _ in ("learned", "statistics"):
            switch = Switch()
            job = switch.open(n_places, present=present)
            self._transports.append(MemoryTransport(switch, job))
        require_capacity(compressor, job.layout)

    def carry(
        self, asked: Mapping[int, Asked], n_learned: int, traffic: Traffic
    ) -> Step:
        """Return the answers to what all members ask together.

        Args:
            asked: Place -> its exchanges.
            n_learned: How many of these are the compressor's; others are statistics'.
            traffic: What is sent is counted there.
        """
        answers: list[Answer] = []
        n_asked = len(next(iter(asked.values())))
        bounds = ((0, n_learned, ""), (n_learned, n_asked, "statistics"))
        for transport, (start, stop, name) in zip(
            self._transports, bounds, strict=True
        ):
            part = {place: each[start:stop] for place, each in asked.items()}
            if start < stop:
                check_same(part, {})
            for i in range(stop - start):
                requests = {place: each[i] for place, each in part.items()}
                answer = transport.carry(requests)
                answers.append(answer)
                _count(requests, answer, name, traffic)
        return tuple(answers)


def _count(
    requests: Mapping[int, Exchange], answer: Answer, name: str, traffic: Traffic
) -> None:
    phase = name or next(iter(requests.values())).phase
    traffic.add(phase, "up", count_bytes(requests.values()))
    traffic.add(phase, "down", len(requests) * count_bytes([answer]))
