"""The numbers of each round, in Flower's own metrics.

How much of their updates clients have sent is known to them alone, once they know that
their session counts. They say so with their next reply, and it is then added to the
metrics of the round that it belongs to.
"""

from collections.abc import Mapping
from logging import INFO
from typing import Any

from flwr.app import MetricRecord
from flwr.supercore import log

from fediac.flower.over_messages import Traffic

PREFIX = "fediac-"


class RoundMetrics:
    """The metrics of all rounds of a run."""

    def __init__(self) -> None:
        self._records: dict[int, MetricRecord] = {}
        self._of_session: dict[int, int] = {}
        self._facts: dict[int, list[Mapping[str, Any]]] = {}
        self._members: dict[int, int] = {}

    def begin(
        self, number: int, record: MetricRecord | None, traffic: Traffic
    ) -> MetricRecord:
        """Return the record of a round, with what it has sent.

        Args:
            number: The round.
            record: What the app's own strategy has.
            traffic: The bytes.
        """
        record = MetricRecord() if record is None else record
        self._records[number] = record
        for (phase, direction), n_bytes in traffic.counts.items():
            self._add(number, f"bytes-{phase}-{direction}", n_bytes)
            self._add(number, f"bytes-{direction}", n_bytes)
        return record

    def name_session(self, number: int, session: int, n_members: int) -> None:
        """Say which session a round was made by."""
        self._of_session[session] = number
        self._members[number] = n_members
        self._facts[number] = []

    def add_bytes(self, number: int, phase: str, direction: str, n_bytes: int) -> None:
        """Add bytes that are sent after a round's end, such as for evaluation."""
        if number in self._records and n_bytes:
            self._add(number, f"bytes-{phase}-{direction}", n_bytes)
            self._add(number, f"bytes-{direction}", n_bytes)

    def set(self, number: int, name: str, value: float) -> None:
        """Set one number of a round."""
        self._records[number][PREFIX + name] = value

    def _add(self, number: int, name: str, value: int) -> None:
        record, key = self._records[number], PREFIX + name
        before: Any = record.get(key, 0)
        record[key] = before + value

    def hear(self, values: Mapping[str, Any]) -> None:
        """Take what a client says of a session that it knows to count."""
        number = self._of_session.get(values.get("settled", 0))
        if number is None:
            return
        facts = {
            key.removeprefix("facts."): each
            for key, each in values.items()
            if key.startswith("facts.")
        }
        known = self._facts[number]
        known.append(facts)
        energy = sum(each["energy"] for each in known)
        left = sum(each["left_energy"] for each in known)
        self.set(number, "gamma", left / energy if energy else 0.0)
        self.set(number, "votes", sum(each["n_votes"] for each in known))
        chosen = round(sum(each["n_chosen"] for each in known) / len(known))
        self.set(number, "chosen", chosen)
        self.set(number, "clamped", sum(each["n_clamped"] for each in known))
        self.set(number, "bits", known[0]["bits"])
        if len(known) == self._members[number]:
            self._say(number)

    def _say(self, number: int) -> None:
        record = self._records[number]
        log(
            INFO,
            "fediac: round %s: %s entries chosen, gamma %.4f, %s bytes up, %s down",
            number,
            record[f"{PREFIX}chosen"],
            record[f"{PREFIX}gamma"],
            record.get(f"{PREFIX}bytes-up", 0),
            record.get(f"{PREFIX}bytes-down", 0),
        )
        del self._facts[number], self._members[number]
        self._of_session = {s: n for s, n in self._of_session.items() if n != number}
