"""The model, the data and the training: nothing of Flower or of compression."""

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

import fediac

Examples = tuple[Tensor, Tensor]


class Net(nn.Module):
    """Two layers, 50,890 parameters."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.hidden = nn.Linear(28 * 28, 64)
        self.out = nn.Linear(64, 10)
        for each in self.parameters():
            nn.init.normal_(each, std=0.05, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of a batch of images."""
        logits: Tensor = self.out(torch.relu(self.hidden(x.flatten(1))))
        return logits


@cache
def _load() -> fediac.Dataset:
    """Return the digits inside fediac; a process reads them once."""
    return fediac.load_dataset("digits")


def load_train(client: int, n_clients: int) -> Examples:
    """Return one client's examples: labels are shared out unevenly."""
    data = _load()
    shares = fediac.partition.dirichlet(data.train.labels, n_clients, beta=1.0, seed=1)
    return _tensors(
        data.train.images[shares[client]], data.train.labels[shares[client]]
    )


def load_test() -> Examples:
    """Return the examples that no client has."""
    data = _load()
    return _tensors(data.test.images, data.test.labels)


def _tensors(images: np.ndarray, labels: np.ndarray) -> Examples:
    return torch.tensor(images / np.float32(255)), torch.tensor(labels)


def train(net: nn.Module, own: Examples, *, epochs: int, lr: float) -> float:
    """Train a model on one client's examples; return the last mean loss."""
    images, labels = own
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    losses = [0.0]
    for _ in range(epochs):
        losses.clear()
        for chosen in torch.randperm(len(labels)).split(32):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return sum(losses) / max(1, len(losses))


def test(net: nn.Module, examples: Examples) -> tuple[float, float]:
    """Return the loss and the accuracy of a model."""
    images, labels = examples
    with torch.no_grad():
        logits = net(images)
    loss = nn.functional.cross_entropy(logits, labels)
    right = (logits.argmax(1) == labels).float().mean()
    return loss.item(), right.item()
