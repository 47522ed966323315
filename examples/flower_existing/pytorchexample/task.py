"""pytorchexample: A Flower / PyTorch app."""

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import fediac


class Net(nn.Module):
    """A small convolutional network with batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.norm = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(16 * 4 * 4, 120)
        self.fc2 = nn.Linear(120, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of a batch of images."""
        x = self.pool(torch.relu(self.norm(self.conv1(x))))
        x = self.pool(torch.relu(self.conv2(x)))
        x = torch.relu(self.fc1(torch.flatten(x, 1)))
        logits: Tensor = self.fc2(x)
        return logits


@cache
def _load() -> fediac.Dataset:
    """Return the digits inside fediac; a process reads them once."""
    return fediac.load_dataset("digits")


def load_data(
    partition_id: int, num_partitions: int, batch_size: int
) -> tuple[DataLoader[tuple[Tensor, ...]], DataLoader[tuple[Tensor, ...]]]:
    """Return one client's examples to train on and to test on."""
    data = _load()
    parts = []
    for part in (data.train, data.test):
        chosen = np.arange(partition_id, len(part.labels), num_partitions)
        images = torch.tensor(part.images[chosen], dtype=torch.float32) / 255
        labels = torch.tensor(part.labels[chosen])
        parts.append(TensorDataset(images.reshape(-1, 1, 28, 28), labels))
    train, test = parts
    return (
        DataLoader(train, batch_size=batch_size, shuffle=True),
        DataLoader(test, batch_size=256),
    )


def train(
    net: nn.Module,
    trainloader: DataLoader[tuple[Tensor, ...]],
    epochs: int,
    lr: float,
    proximal_mu: float = 0.0,
) -> float:
    """Train the model; return the mean loss of the last epoch."""
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    start = [each.detach().clone() for each in net.parameters()]
    net.train()
    for _ in range(epochs):
        total, n_batches = 0.0, 0
        for images, labels in trainloader:
            optimizer.zero_grad()
            loss = criterion(net(images), labels)
            if proximal_mu:
                far = sum(
                    (a - b).pow(2).sum()
                    for a, b in zip(net.parameters(), start, strict=True)
                )
                loss = loss + proximal_mu / 2 * far
            loss.backward()
            optimizer.step()
            total, n_batches = total + loss.item(), n_batches + 1
    return total / max(n_batches, 1)


def test(
    net: nn.Module, testloader: DataLoader[tuple[Tensor, ...]]
) -> tuple[float, float]:
    """Return the loss and the accuracy of the model."""
    criterion = nn.CrossEntropyLoss(reduction="sum")
    loss, correct, number = 0.0, 0, 0
    net.eval()
    with torch.no_grad():
        for images, labels in testloader:
            outputs = net(images)
            loss += criterion(outputs, labels).item()
            correct += int((outputs.argmax(1) == labels).sum())
            number += len(labels)
    return loss / number, correct / number
