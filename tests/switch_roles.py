"""A conductor and its clients as processes that a test can kill, and their account.

python -m tests.switch_roles conductor CONDUCTOR SWITCH FOLDER
python -m tests.switch_roles NUMBER CONDUCTOR SWITCH FOLDER
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import fediac
from fediac.compressors.protocol import State
from fediac.remote.client_disk import ClientDisk
from fediac.remote.journal_file import FileJournal
from fediac.sessions.client import Holdings
from fediac.sessions.journal import Committed
from fediac.sessions.replay import Compressing
from fediac.switch.pipeline import Switch
from fediac.transports.arrays import ArrayTransport
from fediac.transports.lockstep import run_lockstep

N_CLIENTS, DIM = 3, 2000
RECIPE = Compressing(lambda n: fediac.FediAC(n, n_votes="20%", threshold=min(2, n)), 5)
FIRST = np.linspace(-1, 1, DIM, dtype=np.float32)
BOUNDS = fediac.Bounds(
    switch_s=1.0, member_s=0.6, lease_s=5.0, gather_s=2.5, round_s=30.0, goodbye_s=5.0
)


def update_of(client: int, round_number: int) -> npt.NDArray[np.float32]:
    """Return what a client's training gives, the same each time."""
    rng = np.random.default_rng((client, round_number))
    made = rng.normal(size=DIM) * rng.exponential(size=DIM) * 0.01
    return made.astype(np.float32)


def key() -> bytes | None:
    written = os.environ.get("FEDIAC_KEY")
    return bytes.fromhex(written) if written else None


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def conduct(
    address: str, switch: str, folder: Path, n_rounds: int, enough: int
) -> None:
    with fediac.Conductor(
        switch,
        RECIPE,
        FIRST,
        job=1,
        journal=folder / "journal",
        listen=address,
        key=key(),
        bounds=BOUNDS,
    ) as conductor:
        say(conductor.address)
        while conductor.model.round_number < n_rounds:
            made = conductor.run_round(range(N_CLIENTS), enough=enough)
            say(*made.record.members)


def take_part(client: int, conductor: str, folder: Path) -> None:
    say("here")
    fediac.Participant(
        conductor,
        RECIPE,
        client=client,
        folder=folder / f"client-{client}",
        key=key(),  # what the test gives clients is made of the job's
        wait_s=30.0,
        patience_s=1.0,
    ).run(lambda _, number: update_of(client, number))


def start(role: str, *more: object, **environment: str) -> "subprocess.Popen[str]":
    """Start one of them; its first line says that it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.switch_roles", role, *map(str, more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def committed_rounds(folder: Path) -> list[Committed]:
    """Return what the journal has of rounds."""
    journal = FileJournal(folder / "journal")
    records = journal.load()
    journal.close()
    return [each for each in records if isinstance(each, Committed)]


def holdings_of(folder: Path) -> list[Holdings]:
    """Return what clients have on their disks."""
    found = [ClientDisk(folder / f"client-{i}").load() for i in range(N_CLIENTS)]
    return [each for each in found if each is not None]


def made_again(
    records: list[Committed],
) -> tuple[npt.NDArray[np.float32], list[State]]:
    """Make committed rounds again in memory: the model, and each client's state.

    Right where each client took part in every round, up to the last one that it did.
    """
    model, states = FIRST, [State()] * N_CLIENTS
    for number, record in enumerate(records, 1):
        assert record.round_number == number, "a round counts once"
        rounds = {
            i: RECIPE.begin(
                update_of(i, number),
                states[i],
                round_number=number,
                client=i,
                n=len(record.members),
            )
            for i in record.members
        }
        transport = ArrayTransport(Switch().open(len(rounds)))
        outcomes, _ = run_lockstep(rounds, transport, round_number=number)
        for i, each in outcomes.items():
            states[i] = each.state
        model = model - outcomes[record.members[0]].mean.dense(model)
    return model, states


if __name__ == "__main__":
    role, conductor, switch, where, *more = sys.argv[1:]
    if role == "conductor":
        conduct(conductor, switch, Path(where), int(more[0]), int(more[1]))
    else:
        take_part(int(role), conductor, Path(where))
