"""A switch with a lossy network before it, each a process of its own."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple

from fediac.defaults import REGISTER_BYTES
from fediac.selftest.processes import Child, Crew
from fediac.selftest.results import Trial
from fediac.selftest.settings import SelftestSettings

_ANYWHERE = "127.0.0.1:0"
_MAX_JOBS = 2


class Network:
    """A switch and a relay.

    Args:
        crew: Who starts them.
        settings: How bad the network is.

    Attributes:
        address: Where clients find the switch: at the relay.
        counts: What the relay did.
    """

    def __init__(self, crew: Crew, settings: SelftestSettings) -> None:
        self._crew = crew
        self._memory = str(_MAX_JOBS * REGISTER_BYTES)
        self._n_packets = 0
        self._drops: Counter[str] = Counter()
        self._switch = self._start(_ANYWHERE)
        self.switch_address: str = self._switch.wait_for("listening")["address"]
        shares = [str(share) for share in astuple(settings.weather)]
        words = ["relay", self.switch_address, str(settings.seed), *shares]
        self._relay = crew.start("relay", *words)
        self.address: str = self._relay.wait_for("listening")["address"]

    def _start(self, address: str) -> Child:
        words = ("switch", address, self._memory, str(_MAX_JOBS))
        return self._crew.start("switch", *words)

    def pids(self) -> dict[str, int]:
        """Return the numbers of its processes."""
        return {"switch": self._switch.pid, "relay": self._relay.pid}

    def _count(self, event: str) -> None:
        """Add what a switch said last; between two readings it is not known."""
        said = self._switch.last.get(event) or self._switch.last.get("reading", {})
        self._n_packets += said.get("packets_in", 0)
        self._drops.update(said.get("drops", {}))

    def kill_switch(self) -> None:
        """Kill the switch: what it knew is gone."""
        self._switch.kill()
        self._count("reading")

    def start_switch(self) -> None:
        """Start it again, where it was."""
        self._switch = self._start(self.switch_address)
        self._switch.wait_for("listening")

    def stop(self, trial: Trial) -> None:
        """Stop both, and note what they counted."""
        self._relay.stop()
        self._switch.stop()
        self._count("stopped")
        trial.packets, trial.drops = self._n_packets, self._drops
        counts = dict(self._relay.last.get("stopped", {}))
        counts.pop("event", None)
        trial.relay = Counter(counts)


@contextmanager
def network(crew: Crew, settings: SelftestSettings, trial: Trial) -> Iterator[Network]:
    """Have a network inside the block; what it counted is noted in the trial."""
    made = Network(crew, settings)
    yield made
    made.stop(trial)
