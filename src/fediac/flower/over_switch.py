"""Over a switch: votes and levels go by UDP, Flower says who takes part.

The ServerApp opens a session at the switch and observes it, so it has every answer at
no cost to the clients. Whatever goes wrong there, the round is made over Flower's
messages instead, from the same updates.
"""

import ipaddress
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from logging import WARNING
from typing import Any

from flwr.supercore import log

from fediac.compressors import Compressor
from fediac.compressors.forecast import sends_to_server
from fediac.compressors.protocol import Outcome, Round, ask
from fediac.core.exchange import Answer
from fediac.errors import ArgumentError, ConfigError, SessionError
from fediac.flower.client_round import PairRun
from fediac.network.addresses import Endpoint
from fediac.network.key_file import VARIABLE, parse_key
from fediac.remote.coordinator import Coordinator
from fediac.sessions.messages import Step

_SILENCE_S = 20.0
"""How long a client may be silent: its process may have to start first."""

_PATIENCE_S = 5.0
"""How long the switch may be silent."""

_LEASE_S = 3600.0
"""The coordinator is silent while clients train."""


@dataclass(frozen=True, slots=True)
class RoadSettings:
    """Which switch, and how clients reach it.

    Attributes:
        address: ``HOST:PORT``.
        mtu: The longest IP packet that all paths take.
        key_over: ``tls``: Flower's connections are, so clients may be told the keys
            of sessions over them. Otherwise they may only if the switch, and so all
            that reaches it, is on the loopback.
    """

    address: str
    mtu: int = 1500
    key_over: str = ""

    def __post_init__(self) -> None:
        Endpoint.parse(self.address, name="switch")
        if self.key_over not in ("", "tls"):
            raise ArgumentError(
                "key_over",
                "must be 'tls', if Flower's connections are, or empty, got "
                f"{self.key_over!r}",
            )

    @property
    def may_tell_key(self) -> bool:
        """Whether clients may be told keys by Flower's messages."""
        host = self.address.rpartition(":")[0].strip("[]")
        is_loopback = host == "localhost"
        with suppress(ValueError):
            is_loopback = ipaddress.ip_address(host).is_loopback
        return is_loopback or self.key_over == "tls"


def own_key() -> bytes | None:
    """Return the key in this process's environment; None: there is none."""
    written = os.environ.get(VARIABLE)
    return parse_key(written, VARIABLE) if written else None


@dataclass(slots=True)
class Passage:
    """What became of a session.

    Attributes:
        number: The session's.
        steps: All answers; none if it was lost.
        lost: Places, among the members, of who was silent.
        why: What went wrong.
    """

    number: int = 0
    steps: list[Step] = field(default_factory=list)
    lost: tuple[int, ...] = ()
    why: str = ""


class Road:
    """The way over a switch, for all rounds of a job.

    Args:
        settings: Which switch.
        job: The job's number.

    Raises:
        ConfigError: There is a key, and clients may not be told it.
    """

    def __init__(self, settings: RoadSettings, job: int) -> None:
        self.settings = settings
        self._job = job
        self._key = own_key()
        if self._key is not None and not settings.may_tell_key:
            raise ConfigError(
                f"switch {settings.address} has a key, and clients are told a key for "
                "each session over Flower's connections: these must be TLS, and "
                "key_over must say so with 'tls'"
            )
        self._coordinator: Coordinator | None = None
        self._is_told = False

    def suits(self, compressor: Compressor, dim: int, *, name: str) -> bool:
        """Return whether a switch can add all that an algorithm sends."""
        if not sends_to_server(compressor, dim):
            return True
        if not self._is_told:
            self._is_told = True
            log(
                WARNING,
                "fediac: %s sends floats to a far server, which is this ServerApp: not "
                "over the switch",
                name,
            )
        return False

    def told(self, key: bytes) -> dict[str, Any]:
        """Return what clients must know of the switch and of a session there.

        Args:
            key: The session's; they are told it if the job has a key.
        """
        told: dict[str, Any] = {
            "switch": self.settings.address,
            "mtu": self.settings.mtu,
        }
        if self._key is not None:
            told["key"] = key
        return told

    def go(
        self,
        n_members: int,
        round_number: int,
        run: PairRun,
        begin: Callable[[int, bytes], None],
    ) -> Passage:
        """Return what became of a round's session at the switch.

        Args:
            n_members: How many clients take part.
            round_number: Which round.
            run: The server's own, which adds nothing.
            begin: Called with the session's number and key when clients may join it.
        """
        passage = Passage()
        try:
            if self._coordinator is None:
                self._coordinator = Coordinator(
                    self.settings.address,
                    job=self._job,
                    key=self._key,
                    mtu=self.settings.mtu,
                    patience_s=_PATIENCE_S,
                    silence_s=_SILENCE_S,
                    lease_s=_LEASE_S,
                )
            with self._coordinator.open(
                n_members, round_number=round_number
            ) as session:
                passage.number = session.number
                begin(session.number, session.key)
                session.run(as_round(run, passage.steps))
        except SessionError as error:
            passage.steps.clear()
            passage.lost, passage.why = error.missing, str(error)
        return passage


def as_round(run: PairRun, steps: list[Step]) -> Round:
    """Run learned values and statistics as one round; keep all answers in ``steps``.

    One exchange follows the other: a switch answers each for itself.
    """
    while not run.is_over:
        answers: list[Answer] = []
        for each in run.asked:
            answer: Answer = yield from ask(each)
            answers.append(answer)
        steps.append(tuple(answers))
        run.feed(steps[-1])
    outcome: Outcome = run.outcome
    return outcome


def places_of(lost: Sequence[int], members: Sequence[int]) -> set[int]:
    """Return the members at some places."""
    return {members[place] for place in lost if place < len(members)}
