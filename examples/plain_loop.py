"""Federated learning as one plain loop: nothing but PyTorch and `fediac.aggregate`.

Twenty clients train a small network on the digits inside the package, unevenly shared
out. Nothing is hidden, so this is the place to begin when your training loop is your
own: the clients' models go in, as state_dicts, and the next global model comes back.

    python examples/plain_loop.py
"""

import copy

import numpy as np
import torch
from torch import Tensor, nn

import fediac

N_CLIENTS = 20
N_ROUNDS = 10
N_EPOCHS = 2
BATCH_SIZE = 32
LR = 0.1
SEED = 1

Examples = tuple[Tensor, Tensor]
"""Images and their labels."""


def load_digits() -> tuple[Examples, Examples, list[np.ndarray]]:
    """Return examples to train on and to test on, and who has which of the first."""
    data = fediac.load_dataset("digits")
    train, test = (
        (torch.tensor(part.images / np.float32(255)), torch.tensor(part.labels))
        for part in (data.train, data.test)
    )
    clients = fediac.partition.dirichlet(
        data.train.labels, N_CLIENTS, beta=0.5, min_size=BATCH_SIZE, seed=SEED
    )
    return train, test, clients


def make_model(generator: torch.Generator) -> nn.Module:
    """Return a network with two layers, its weights drawn by ``generator``."""
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(28 * 28, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.05, generator=generator)
    return model


def train_client(
    start: nn.Module, own: Examples, generator: torch.Generator
) -> dict[str, Tensor]:
    """Return a client's model after training, which leaves the global one alone."""
    images, labels = own
    model = copy.deepcopy(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for _ in range(N_EPOCHS):
        order = torch.randperm(len(labels), generator=generator)
        for batch in torch.split(order, BATCH_SIZE):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            torch.autograd.backward(loss)
            optimizer.step()
    return model.state_dict()


def measure_accuracy(model: nn.Module, test: Examples) -> float:
    """Return the share of test images that the model gets right."""
    images, labels = test
    with torch.no_grad():
        return float((model(images).argmax(dim=1) == labels).float().mean())


def main() -> None:
    """Train, and print after every round what is known then."""
    torch.set_num_threads(1)  # steps this small are slower on several
    train, test, clients = load_digits()
    generator = torch.Generator().manual_seed(SEED)
    model = make_model(generator)
    compressor = fediac.FediAC(N_CLIENTS, n_votes="5%", threshold=3)
    n_entries = sum(each.numel() for each in model.parameters())
    states = None  # what clients keep between rounds: residuals and the agreed width

    for round_number in range(1, N_ROUNDS + 1):
        trained = [
            train_client(model, (train[0][rows], train[1][rows]), generator)
            for rows in clients
        ]
        result = fediac.aggregate(
            trained,
            compressor,
            base=model.state_dict(),
            seed=SEED,
            round_number=round_number,
            states=states,
        )
        model.load_state_dict(result.model)
        states = result.states
        print(
            f"round {round_number:2}: accuracy {measure_accuracy(model, test):.3f}, "
            f"{result.ledger.traffic().payload_mib:.3f} MiB, "
            f"{result.facts.chosen:,} of {n_entries:,} entries"
        )


if __name__ == "__main__":
    main()
