"""What the coordinator and its clients tell each other, by whatever carries it.

A client says how it stands (`Status`), and the coordinator answers with all that this
client lacks (`Word`). Both are complete each time: one that is lost, late or doubled
does no harm, and whoever has been restarted needs no history.
"""

from dataclasses import dataclass, field

from fediac.core.exchange import Answer
from fediac.core.types import Update

Step = tuple[Answer, ...]
"""The answers to exchanges that travelled together."""


@dataclass(frozen=True, slots=True)
class Model:
    """The model that the first ``round_number`` rounds have made."""

    round_number: int
    values: Update


@dataclass(frozen=True, slots=True)
class Status:
    """How a client stands.

    Attributes:
        client: Its number, the same in all rounds.
        model_round: The last round whose mean its model has.
        ready_round: The round that it has an update for; 0: none.
        unsettled: The session it took part in and knows no end of; 0: none.
        failed: That session, if the client cannot go on with it.
        why: What went wrong there.
    """

    client: int
    model_round: int
    ready_round: int = 0
    unsettled: int = 0
    failed: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a session ended. Only the coordinator knows, once it is in its journal.

    Attributes:
        session: Which one.
        is_committed: Whether its round counts.
        last: The answers of its last step, if it is: a client has saved all others
            before it sent anything of that step, and may have missed these.
    """

    session: int
    is_committed: bool
    last: Step = ()


@dataclass(frozen=True, slots=True)
class Start:
    """A session is open; these are its members, in the order of their places.

    Attributes:
        session: Its number.
        round_number: Its round.
        members: Numbers of the clients; the place in here is the one in packets.
        payload_bytes: Room for items in a packet.
        key: Of its members' tags; they are told it, and know no other.
    """

    session: int
    round_number: int
    members: tuple[int, ...]
    payload_bytes: int
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Word:
    """What a client is told.

    Attributes:
        epoch: The coordinator's; clients that know a newer one ignore this.
        round_number: The round that updates are wanted for.
        verdict: How the client's unsettled session ended, if it has.
        model: The model, for who missed a round.
        start: The session that runs, for its members.
    """

    epoch: int
    round_number: int
    verdict: Verdict | None = None
    model: Model | None = None
    start: Start | None = None

    @property
    def gist(self) -> tuple[object, ...]:
        """What tells it from an older word, without the arrays."""
        return (
            self.epoch,
            self.round_number,
            self.verdict and self.verdict.session,
            self.model and self.model.round_number,
            self.start and self.start.session,
        )


@dataclass(frozen=True, slots=True)
class Hello:
    """The coordinator's first: where the switch is, as it sees it."""

    switch: str


@dataclass(frozen=True, slots=True)
class Alive:
    """The coordinator's answer to a status that it has no news for."""


@dataclass(frozen=True, slots=True)
class Over:
    """The coordinator makes no more rounds."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The coordinator does not go on with a client."""

    why: str
