"""What is searched: each model within its bounds, and each mistake it must find.

A mutant is the model with a mistake that somebody could make, switched on by the
preprocessor. A search that does not find the mistake would not find it in the protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

LIVENESS = "LIVENESS"
"""The switch with which a model claims that something does happen."""


@dataclass(frozen=True, slots=True)
class Search:
    """One run of SPIN.

    Attributes:
        model: The file in this folder, without its ending.
        bounds: How much of everything there is; the model's own defaults are not used.
        claim: What holds; in a mutant, what holds no longer.
        mutant: The mistake that is switched on.
        is_live: Whether something must happen, in place of something that must not.
        is_small: Whether the tests run it, too.
    """

    model: str
    bounds: Mapping[str, int] = field(hash=False)
    claim: str
    mutant: str = ""
    is_live: bool = False
    is_small: bool = True

    @property
    def switches(self) -> list[str]:
        """Return what the preprocessor is told."""
        names = [self.mutant] * bool(self.mutant) + [LIVENESS] * self.is_live
        return [f"-D{name}" for name in names] + self.bound_switches

    @property
    def bound_switches(self) -> list[str]:
        """Return the bounds as the preprocessor takes them."""
        return [f"-D{name}={value}" for name, value in self.bounds.items()]

    @property
    def bound_words(self) -> str:
        """Return the bounds as people say them."""
        said = [
            f"{value} {name.lower()[: -1 if value == 1 else None]}"
            for name, value in self.bounds.items()
        ]
        return ", ".join(said)

    @property
    def title(self) -> str:
        """Return the words of a table's row."""
        what = self.mutant or ("liveness" if self.is_live else "safety")
        return f"{self.model:<7}{what:<22}{self.bound_words}"


def _slots(clients: int, observers: int, slots: int, packets: int) -> dict[str, int]:
    names = ("CLIENTS", "OBSERVERS", "SLOTS", "PACKETS")
    return dict(zip(names, (clients, observers, slots, packets), strict=True))


def _rounds(clients: int, sessions: int, coordinators: int = 1) -> dict[str, int]:
    names = ("CLIENTS", "SESSIONS", "COORDINATORS")
    return dict(zip(names, (clients, sessions, coordinators), strict=True))


_SUMS = "counted once, the same bytes for all, no slot reused too early"
_ANSWERS = "every member gets every answer"
_KEPT = "nothing lost, nothing twice; all apply the same mean"

PROOFS = (
    Search("slots", _slots(3, 1, 6, 7), _SUMS, is_small=False),
    Search("rounds", _rounds(1, 4), _KEPT, is_small=False),
    Search("rounds", _rounds(2, 2), _KEPT, is_small=False),
    Search("slots", _slots(3, 1, 4, 6), _ANSWERS, is_live=True, is_small=False),
    Search("rounds", _rounds(1, 2, 2), _KEPT, is_small=False),
    Search("rounds", _rounds(1, 3), _KEPT),
    Search("slots", _slots(3, 1, 4, 6), _SUMS),
    Search("slots", _slots(3, 0, 4, 6), _SUMS),
    Search("slots", _slots(2, 1, 4, 6), _ANSWERS, is_live=True),
)
"""Searches that must be complete and find nothing, the longest first."""

_MISTAKES = {
    "slots": {
        "WINDOW_TOO_LARGE": "a window is at most half of the slots",
        "SLOT_REUSED_EARLY": "a slot waits for the answers of all its members",
        "QUORUM": "a slot is complete when all members are in, not the first of them",
        "OBSERVER_NOT_COUNTED": "the observer counts in the bitmap",
        "NO_DUPLICATE_CHECK": "a packet that comes twice is counted once",
        "NO_STALE_CHECK": "a late copy of an older packet takes no slot",
        "SLOT_FREED_AT_ONCE": "a slot keeps its answer until nobody needs it",
        "SWITCH_FORGETS": "a switch that forgot does not go on with the session",
    },
    "rounds": {
        "FORGETS_EARLY": "a client keeps its update until it is told the outcome",
        "GIA_NOT_SAVED": "the gia is on disk before the first levels",
        "PARTIAL_SUMS": "sums of some members are never given out",
        "ABORT_IS_OUTCOME": "the switch's ABORT is no outcome",
        "COMMIT_WITHOUT_MEAN": "mean and commit are one record of the journal",
        "JOURNAL_AFTER_END": "a commit is in the journal before anybody is told",
        "NUMBER_REUSED": "a session's number is never used again",
        "APPLIED_EARLY": "a client applies no mean before the session is committed",
        "SESSION_REJOINED": "a coordinator that restarts does not rejoin its session",
        "MODEL_NOT_SENT": "a client that missed a round gets the model",
    },
}
_NEVER = {
    "NO_REPEATS": "a member repeats what was not answered",
    "WAIT_ENDS": "after a WAIT, too, a member repeats at some time",
    "REPEATS_UNANSWERED": "a repeat of a complete slot is answered again",
}
_MUTANT_BOUNDS = {"slots": _slots(2, 1, 4, 5), "rounds": _rounds(2, 2)}

MUTANTS = (
    *(
        Search(model, _MUTANT_BOUNDS[model], claim, mutant)
        for model, mistakes in _MISTAKES.items()
        for mutant, claim in mistakes.items()
    ),
    Search(
        "rounds",
        _rounds(1, 2, 2),
        "a coordinator of an older epoch commits nothing",
        "OLD_EPOCH_COMMITS",
    ),
    *(
        Search("slots", _slots(2, 1, 2, 3), claim, mutant, is_live=True)
        for mutant, claim in _NEVER.items()
    ),
    Search(
        "rounds",
        _rounds(2, 2),
        "(false, on purpose) not both rounds are ever committed with all clients",
        "WITNESS",
    ),
)
"""Searches that must find an error."""

SEARCHES = PROOFS + MUTANTS
