"""Federated rounds of processes that meet at a switch, each started by hand.

    fediac switch --listen 127.0.0.1:4900      # terminal 1
    python examples/switch_clients.py          # terminal 2: the conductor of the rounds
    python examples/switch_clients.py 0        # terminal 3: client 0
    python examples/switch_clients.py 1        # terminal 4: client 1

Three more words move them to other machines: where the conductor listens, where the
switch is, and a folder for what must outlive each process. Kill any of them at any time
and start it again: nothing is lost, and nothing is counted twice.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fediac

N_CLIENTS, N_ROUNDS, DIM = 2, 10, 1000
RECIPE = fediac.Compressing(
    lambda n: fediac.FediAC(n, n_votes="20%", threshold=2), seed=1
)


def train(model: NDArray[np.float32], client: int) -> NDArray[np.float32]:
    """Return the update of one client: a step towards the numbers that it has."""
    wanted = np.sin(np.arange(DIM) + client).astype(np.float32)
    return np.float32(0.3) * (model - wanted)


def conduct(address: str, switch: str, folder: Path) -> None:
    """Make the rounds, with both clients."""
    nothing = np.zeros(DIM, dtype=np.float32)
    journal = folder / "rounds.journal"
    with fediac.Conductor(
        switch, RECIPE, nothing, job=1, journal=journal, listen=address
    ) as conductor:
        while conductor.model.round_number < N_ROUNDS:
            made = conductor.run_round(range(N_CLIENTS))
            print(f"round {made.record.round_number}: {made.record.members}")


def take_part(client: int, conductor: str, folder: Path) -> None:
    """Be one client, until the conductor says that it is over."""
    own = fediac.Participant(
        conductor, RECIPE, client=client, folder=folder / f"client-{client}"
    )
    model = own.run(lambda values, _: train(values, client))
    print(f"client {client}: {model.round_number} rounds, {model.values[:3]}")


if __name__ == "__main__":
    given = sys.argv[1:]
    usual = ["conductor", "127.0.0.1:4910", "127.0.0.1:4900", "runs/switch-clients"]
    role, conductor, switch, folder = given + usual[len(given) :]
    if role == "conductor":
        conduct(conductor, switch, Path(folder))
    else:
        take_part(int(role), conductor, Path(folder))
