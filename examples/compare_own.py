"""FediAC beside FedAvg on your own model and unequal clients, with a report.

python examples/compare_own.py
"""

import torch
from torch import nn

import fediac

x = torch.randn(6000, 20, generator=torch.Generator().manual_seed(1))
y = (x[:, :3] ** 2).argmax(dim=1)
sizes = [2000, 1200, 800, 400, 300, 200, 75, 25, 1000]  # eight clients, and a test set
parts = list(zip(torch.split(x, sizes), torch.split(y, sizes), strict=True))
fedavg, fediac_25 = fediac.FedAvg(8), fediac.FediAC(8, n_votes="25%", threshold=2)


def make_model() -> nn.Module:
    """Return a network with batch norm and dropout; any module will do."""
    normed = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU())
    return nn.Sequential(normed, nn.Dropout(0.2), nn.Linear(64, 3))


compared = fediac.compare(
    make_model,
    train=parts[:8],
    test=parts[8],
    compressors={"fediac": fediac_25, "fedavg": fedavg},
    n_rounds=15,
)
print(compared)
compared.report("report.html")
