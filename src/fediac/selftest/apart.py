"""Rounds whose conductor and clients are processes of their own, and may be killed."""

import queue
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fediac.errors import RunError
from fediac.network.key_file import VARIABLE, parse_key
from fediac.selftest.account import check_job
from fediac.selftest.network import Network
from fediac.selftest.processes import Child, Crew, Heard
from fediac.selftest.results import Trial
from fediac.selftest.roles import Job
from fediac.wire.tag import member_key

_LONGEST_PAUSE_S = 1.0
"""Between two kills."""

_PATIENT = 0.5
"""How often a round is waited for before: else nothing but kills would happen."""

_ROUND_S, _LOOK_S = 30.0, 0.05

_LONGEST_AWAY_S = 0.3
"""Before who was killed is started again."""

SWITCH, CONDUCTOR = "switch", "conductor"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done to a job.

    Attributes:
        job: Its processes.
        n_rounds: Rounds that it makes at least.
        n_kills: How often somebody is killed meanwhile.
    """

    job: Job
    n_rounds: int
    n_kills: int = 0


class Apart:
    """The processes of a job, and what they said.

    Args:
        plan: What is done to them.
        crew: Who starts them.
        net: The network that they have.
        trial: Where it is noted.
        tell: Is told how far it is.

    Attributes:
        told: Round -> what they said the model was after it.
    """

    def __init__(
        self,
        plan: Plan,
        crew: Crew,
        net: Network,
        trial: Trial,
        tell: Callable[[str], None],
    ) -> None:
        self._plan, self._crew, self._net = plan, crew, net
        self._trial, self._tell = trial, tell
        self._listen = f"127.0.0.1:{_free_port()}"
        self.told: defaultdict[int, set[str]] = defaultdict(set)
        self._resent: dict[int, int] = {}
        self._said: Heard = queue.Queue()
        self._conductor = self._start_conductor()
        self._clients = [self._start_client(i) for i in range(plan.job.n_clients)]
        self._round_s = time.monotonic()

    def _start_conductor(self) -> Child:
        plan = self._plan
        words = [self._net.address, self._listen, str(plan.n_rounds)]
        words += plan.job.words()
        return self._crew.start(CONDUCTOR, CONDUCTOR, *words, into=self._said)

    def _start_client(self, number: int) -> Child:
        words = ("client", str(number), self._listen, *self._plan.job.words())
        job_key = parse_key(self._crew.environment[VARIABLE], VARIABLE)
        told = {VARIABLE: member_key(job_key).hex()}
        name = f"client-{number}"
        return self._crew.start(name, *words, into=self._said, environment=told)

    # What they say

    def _listen_until(self, until_s: float, *, ends: bool) -> bool:
        """Take what is said until a time; return whether all have ended well.

        Args:
            until_s: When to go on.
            ends: Whether they may end.
        """
        while (left_s := until_s - time.monotonic()) > 0:
            everyone = (self._conductor, *self._clients)
            if ends and not any(each.is_alive for each in everyone):
                break
            try:
                child, said = self._said.get(timeout=min(left_s, 0.5))
            except queue.Empty:
                self._require_alive(ends=ends)
                continue
            self._note(child, said)
        while not self._said.empty():
            self._note(*self._said.get())
        return not any(each.is_alive for each in (self._conductor, *self._clients))

    def _require_alive(self, *, ends: bool) -> None:
        for each in (self._conductor, *self._clients):
            if not each.is_alive and (each.exit_code or not ends):
                each.require_well()

    def _note(self, child: Child, said: dict[str, Any]) -> None:
        if "n_resent" in said:
            self._resent[child.pid] = said["n_resent"]
        self._trial.note_buffer(said.get("buffer_bytes"))
        if said["event"] != "round":
            return
        number = said["number"]
        self.told[number].add(said["model"])
        if child.name == CONDUCTOR:
            now_s = time.monotonic()
            took_s, self._round_s = now_s - self._round_s, now_s
            self._trial.longest_wait_s = max(self._trial.longest_wait_s, took_s)
            kills = f", {self._trial.kills} kills" if self._plan.n_kills else ""
            self._tell(f"{self._plan.job.algorithm}: round {number}{kills}")

    def listen_for(self, seconds: float) -> None:
        """Take what is said for a while; nobody may end in it.

        Raises:
            RunError: Somebody did.
        """
        self._listen_until(time.monotonic() + seconds, ends=False)

    @property
    def conductor_pid(self) -> int:
        """The conductor's number."""
        return self._conductor.pid

    # What is done to them

    def strike(self, rng: np.random.Generator) -> None:
        """Kill as many as planned, one after the other, and start them again."""
        for _ in range(self._plan.n_kills):
            if rng.random() < _PATIENT:
                self.wait_for_a_round()
            self._pause(rng, _LONGEST_PAUSE_S)
            names = [SWITCH, CONDUCTOR, *range(self._plan.job.n_clients)]
            victim = names[int(rng.integers(len(names)))]
            self.kill(victim, rng)

    def _pause(self, rng: np.random.Generator, longest_s: float) -> None:
        self.listen_for(float(rng.random()) * longest_s)

    def wait_for_a_round(self) -> None:
        """Let a round be committed, if that does not take too long."""
        n_rounds, end_s = len(self.told), time.monotonic() + _ROUND_S
        while len(self.told) == n_rounds and time.monotonic() < end_s:
            self.listen_for(_LOOK_S)

    def kill(self, victim: str | int, rng: np.random.Generator) -> None:
        """Kill the switch, the conductor or a client, and start it again soon."""
        self._trial.kills += 1
        away_s = float(rng.random()) * _LONGEST_AWAY_S
        if victim == SWITCH:
            self._net.kill_switch()
            time.sleep(away_s)
            self._net.start_switch()
            return
        child = self._conductor if isinstance(victim, str) else self._clients[victim]
        child.kill()
        time.sleep(away_s)
        if isinstance(victim, str):
            self._conductor = self._start_conductor()
        else:
            self._clients[victim] = self._start_client(victim)

    def finish(self) -> None:
        """Let the last rounds be made, and wait for all to end."""
        self._conductor.tell("end")
        bounds = self._plan.job.bounds
        end_s = time.monotonic() + bounds.round_s + bounds.goodbye_s
        if not self._listen_until(end_s, ends=True):
            raise RunError(f"a job did not end within {bounds.round_s:g} s")
        for each in (self._conductor, *self._clients):
            each.require_well()
        self._trial.retransmissions = sum(self._resent.values())


def run_apart(
    plan: Plan,
    crew: Crew,
    net: Network,
    trial: Trial,
    tell: Callable[[str], None],
) -> None:
    """Run a job's rounds in processes, kill some of them, and compare with memory."""
    start_s = time.monotonic()
    apart = Apart(plan, crew, net, trial, tell)
    apart.strike(np.random.default_rng((plan.job.seed, 1)))
    apart.finish()
    trial.seconds = time.monotonic() - start_s
    tell(f"{plan.job.algorithm}: the same in memory")
    found = check_job(plan.job, apart.told)
    trial.rounds, trial.rounds_retried = found.n_rounds, found.n_given_up
    trial.differences += found.wrong


def _free_port() -> int:
    """Return a port that nobody listens on, for all conductors of a job."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
