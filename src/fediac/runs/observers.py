"""Observers of a run, and the one that does nothing."""

from typing import Protocol

from fediac.runs.records import Round
from fediac.runs.settings import RunSettings


class Observer(Protocol):
    """An observer of a run: it is told what happens, and changes nothing."""

    def start(
        self, settings: RunSettings, n_clients: int, before: Round | None
    ) -> None:
        """A run starts, or goes on after the round ``before``."""
        ...

    def doubt(self, why: str) -> None:
        """Something speaks against the algorithm's settings in the run that starts."""
        ...

    def client_done(self) -> None:
        """One more client of the round has finished its training."""
        ...

    def round_done(self, record: Round) -> None:
        """A round is over."""
        ...


class NoObserver:
    """An observer that does nothing."""

    def start(
        self, settings: RunSettings, n_clients: int, before: Round | None
    ) -> None:
        """Do nothing."""

    def doubt(self, why: str) -> None:
        """Do nothing."""

    def client_done(self) -> None:
        """Do nothing."""

    def round_done(self, record: Round) -> None:
        """Do nothing."""
