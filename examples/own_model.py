"""Your own PyTorch model and arrays, trained by ten clients through a switch.

python examples/own_model.py
"""

import torch
from torch import nn

import fediac


def make_data(n_examples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points in 20 dimensions and which of three directions is nearest."""
    generator = torch.Generator().manual_seed(1)
    directions = torch.randn(20, 3, generator=generator)
    points = torch.randn(n_examples, 20, generator=generator)
    return points, (points @ directions).argmax(dim=1)


def make_model() -> nn.Module:
    """Return a small network; any module will do."""
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3))


def main() -> None:
    """Train for ten rounds and print what each brought."""
    x, y = make_data(4000)
    experiment = fediac.Experiment(
        make_model,
        train=(x[:3000], y[:3000]),
        test=(x[3000:], y[3000:]),
        compressor=fediac.FediAC(10),
        epochs=2,
        batch_size=20,
        lr=0.2,
        lr_decay=0.0,
    )
    for done in experiment.run(10):
        print(
            f"round {done.round_number:2}: accuracy {done.accuracy:.3f}, "
            f"{1024 * done.payload_mib:6.1f} KiB, {done.time_s:5.2f} s simulated"
        )


if __name__ == "__main__":
    main()
