"""What the processes of a job do: its conductor, and each of its clients."""

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fediac.compressors.catalog import find
from fediac.network.key_file import VARIABLE, parse_key
from fediac.remote.client_disk import ClientDisk
from fediac.remote.conductor import Bounds, Conductor
from fediac.remote.participant import Participant
from fediac.selftest.updates import make_update
from fediac.sessions.messages import Model
from fediac.sessions.replay import Compressing

Say = Callable[..., None]

JOURNAL, KEPT = "journal", "kept"
"""Files of a job, and of a client: rounds whose updates it had in its folder."""


@dataclass(frozen=True, slots=True)
class Job:
    """What the processes of a job have in common.

    Attributes:
        algorithm: How rounds are run.
        n_clients: Clients that there are.
        dim: Entries in an update.
        seed: Of updates and rounding.
        folder: Where its journal and its clients' folders are.
        is_rough: Whether processes are killed: then nobody is waited for long.
    """

    algorithm: str
    n_clients: int
    dim: int
    seed: int
    folder: Path
    is_rough: bool

    def words(self) -> list[str]:
        """Return it as words of a command."""
        return [str(getattr(self, each.name)) for each in fields(self)]

    @classmethod
    def read(cls, words: list[str]) -> Self:
        """Return the job that `words` wrote."""
        algorithm, n_clients, dim, seed, folder, is_rough = words
        return cls(
            algorithm,
            int(n_clients),
            int(dim),
            int(seed),
            Path(folder),
            is_rough == str(True),
        )

    @property
    def recipe(self) -> Compressing:
        """How a member runs a round."""
        return Compressing(find(self.algorithm), self.seed)

    @property
    def first(self) -> npt.NDArray[np.float32]:
        """The model before the first round."""
        return np.zeros(self.dim, dtype=np.float32)

    @property
    def enough(self) -> int:
        """With so many clients a round goes on without the others."""
        return max(1, self.n_clients // 2) if self.is_rough else self.n_clients

    @property
    def bounds(self) -> Bounds:
        """How long the conductor waits: also for those who compress in the meantime."""
        work_s = self.dim * self.n_clients / 1e6
        if self.is_rough:
            return Bounds(
                switch_s=2 + work_s,
                member_s=2 + work_s,
                lease_s=10 + work_s,
                gather_s=3 + work_s,
                round_s=300 + 10 * work_s,
            )
        return Bounds(
            switch_s=30 + work_s,
            member_s=60 + 5 * work_s,
            lease_s=60 + work_s,
            attempt_s=7200,
            gather_s=600,
            round_s=7200,
            goodbye_s=60 + work_s,
        )

    def folder_of(self, client: int) -> Path:
        """Return where a client keeps what it must not forget."""
        return self.folder / f"client-{client}"

    def update(self, client: int, round_number: int) -> npt.NDArray[np.float32]:
        """Return what a client's training gives, the same each time."""
        return make_update(
            self.dim, seed=self.seed, client=client, round_number=round_number
        )


def conduct(job: Job, switch: str, listen: str, n_rounds: int, say: Say) -> None:
    """Make rounds until there are enough and a line says that it shall end.

    The last one is made with all clients.
    """
    is_ending = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.readline()
        is_ending.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    with Conductor(
        switch,
        job.recipe,
        job.first,
        job=1,
        journal=job.folder / JOURNAL,
        listen=listen,
        key=_key(),
        bounds=job.bounds,
    ) as conductor:
        say("listening", address=conductor.address)
        while not is_ending.is_set() or conductor.model.round_number < n_rounds - 1:
            _make_round(conductor, job, job.enough, say)
        _make_round(conductor, job, job.n_clients, say)
    say("over", n_resent=conductor.n_resent)


def _make_round(conductor: Conductor, job: Job, enough: int, say: Say) -> None:
    made = conductor.run_round(range(job.n_clients), enough=enough)
    say(
        "round",
        number=made.record.round_number,
        members=made.record.members,
        model=digest(conductor.model.values),
        n_resent=conductor.n_resent,
    )


def take_part(job: Job, client: int, conductor: str, say: Say) -> None:
    """Take part until the conductor says that it is over."""
    folder = job.folder_of(client)
    holds = ClientDisk(folder).load()
    note = partial(_note, folder / KEPT)
    if holds is not None and holds.work is not None:  # killed before it was noted
        note(holds.work.round_number)
    participant = Participant(
        conductor,
        job.recipe,
        client=client,
        folder=folder,
        key=_key(),
        wait_s=job.bounds.round_s,
        patience_s=job.bounds.switch_s,
    )

    def train(_: Any, number: int) -> npt.NDArray[np.float32]:  # noqa: ANN401
        return job.update(client, number)

    def tell(model: Model) -> None:
        say(
            "round",
            number=model.round_number,
            model=digest(model.values),
            n_resent=participant.n_resent,
        )

    participant.run(train, on_round=tell, on_kept=note)
    say("over", n_resent=participant.n_resent, buffer_bytes=participant.buffer_bytes)


def digest(values: npt.NDArray[np.float32]) -> str:
    """Return a model's bits as a short word."""
    data = np.ascontiguousarray(values).data
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _note(path: Path, number: int) -> None:
    """Write a number down that outlives this process."""
    with path.open("a") as file:
        file.write(f"{number}\n")


def _key() -> bytes | None:
    written = os.environ.get(VARIABLE)
    return parse_key(written, VARIABLE) if written else None
