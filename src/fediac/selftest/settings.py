"""What a self-test is asked to do."""

from dataclasses import dataclass, field

from fediac.compressors.catalog import served_by_switch
from fediac.errors import ArgumentError, ConfigError, hint_name
from fediac.selftest.weather import Weather
from fediac.wire.header import MAX_CLIENTS

ALL = "all"

MOST_PROCESSES = 64
"""Clients that are a process each."""

CHILD = "fediac.selftest.child"


@dataclass(frozen=True, slots=True)
class SelftestSettings:
    """A self-test.

    Attributes:
        algorithms: Their names, one after the other.
        n_clients: Clients of every round.
        dim: Entries in an update.
        n_rounds: Rounds of each algorithm.
        weather: How bad the network between clients and switch is.
        n_kills: How often a client, the coordinator or the switch is killed.
        attacks: Whether a stranger attacks the switch, too.
        seed: Decides updates, rounding and what is lost.
        child: The module that the processes run; tests have others, with mistakes.
    """

    algorithms: tuple[str, ...] = field(default_factory=served_by_switch)
    n_clients: int = 8
    dim: int = 1_000_000
    n_rounds: int = 3
    weather: Weather = field(default_factory=Weather)
    n_kills: int = 0
    attacks: bool = False
    seed: int = 1
    child: str = CHILD

    def __post_init__(self) -> None:
        if not 1 <= self.n_clients <= MAX_CLIENTS:
            raise ArgumentError(
                "n_clients", f"must be in 1..{MAX_CLIENTS}, got {self.n_clients}"
            )
        if self.n_kills and not self.is_apart:
            raise ArgumentError(
                "n_kills",
                f"needs a process for each client, and there are at most "
                f"{MOST_PROCESSES}, got {self.n_clients} clients",
            )
        for name in ("dim", "n_rounds"):
            if getattr(self, name) < 1:
                raise ArgumentError(
                    name, f"must be at least 1, got {getattr(self, name)}"
                )

    @property
    def is_apart(self) -> bool:
        """Whether each client is a process; more of them are all in one."""
        return self.n_clients <= MOST_PROCESSES


def read_algorithms(name: str) -> tuple[str, ...]:
    """Return the algorithms that a name stands for.

    Raises:
        ConfigError: It stands for none that a switch over a network can serve.
    """
    served = served_by_switch()
    if name == ALL:
        return served
    if name not in served:
        hint = hint_name(name, (*served, ALL))
        raise ConfigError(
            f"--algorithm {name!r} cannot be run through a switch over a network{hint}"
        )
    return (name,)
