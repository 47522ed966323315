"""Which algorithm in a small model: accuracy, payload and time after eight rounds.

    python -m benchmarks.small_models

The embedded digits, shrunk to 7 x 7 pixels, shared out unevenly (Dirichlet 0.5), and
networks with one hidden layer. Nothing is asserted; docs/settings.md has the numbers.
"""

from collections.abc import Callable
from statistics import fmean

import torch
from torch import Tensor, nn

import fediac
from fediac.compressors import Compressor

N_ROUNDS = 8
SEEDS = (1, 2)
WIDTHS = (16, 50, 160, 500)
CLIENTS = (5, 10, 20)

ALGORITHMS: dict[str, Callable[[int], Compressor]] = {
    "fedavg": fediac.FedAvg,
    "switchml, 10 bits": lambda n: fediac.SwitchML(n, bits=10),
    "switchml, 8 bits": lambda n: fediac.SwitchML(n, bits=8),
    "libra, k = 5 %": lambda n: fediac.Libra(n, n_sent="5%"),
    "fediac": fediac.FediAC,
    "fediac, dense lanes": lambda n: fediac.FediAC(n, lanes="dense"),
    "fediac, the paper's": lambda n: fediac.FediAC(n, n_votes="5%", bits="bound"),
    "fediac, lean": fediac.FediAC.lean,
    "fediac, lean, 2 %": lambda n: fediac.FediAC.lean(n, n_votes="2%"),
}


def load_digits() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return small images and their labels, to train on and to test on."""
    data = fediac.load_dataset("digits")
    train, test = (
        (
            nn.functional.avg_pool2d(torch.tensor(part.images) / 255.0, 4).flatten(1),
            torch.tensor(part.labels),
        )
        for part in (data.train, data.test)
    )
    return train, test


def main() -> None:
    """Print a line for each model, number of clients and algorithm."""
    train, test = load_digits()
    for width in WIDTHS:

        def make_model(width: int = width) -> nn.Module:
            return nn.Sequential(nn.Linear(49, width), nn.ReLU(), nn.Linear(width, 10))

        for n_clients in CLIENTS:
            for name, make in ALGORITHMS.items():
                ends = []
                for seed in SEEDS:
                    experiment = fediac.Experiment(
                        make_model,
                        train,
                        test,
                        compressor=make(n_clients),
                        clients=fediac.partition.dirichlet(
                            train[1].numpy(),
                            n_clients,
                            beta=0.5,
                            min_size=20,
                            seed=seed,
                        ),
                        lr=0.1,
                        epochs=2,
                        batch_size=20,
                        seed=seed,
                        device="cpu",
                        progress=False,
                    )
                    ends.append(list(experiment.run(N_ROUNDS))[-1])
                    experiment.close()
                print(
                    f"{60 * width + 10:6,} parameters, {n_clients:2} clients, "
                    f"{name:20} {100 * fmean(each.accuracy for each in ends):5.1f} % "
                    f"{1024 * fmean(each.payload_mib for each in ends):9.1f} KiB "
                    f"{fmean(each.time_s for each in ends):6.2f} s"
                )


if __name__ == "__main__":
    main()
