"""What the paper itself reports: arXiv 2402.03815, Sec. V-B, Tables I and II."""

from dataclasses import dataclass

SOURCE = "arXiv 2402.03815, Tables I and II"

TABLES = {"fast": "Table I", "slow": "Table II"}
"""Switch -> the table with its traffic: high and low performance in the paper."""

FIGURE_S = 500.0
"""Simulated seconds that the paper trains for its figures (Sec. V-B)."""


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """Traffic until the target, upload and download of all clients.

    Attributes:
        target: Test accuracy.
        fediac_mb: FediAC's; the paper's MB is 2^20 bytes, as SwitchML's rounds show.
        second: The best baseline, and what it needed.
    """

    target: float
    fediac_mb: int
    second: str
    second_mb: int

    @property
    def saving(self) -> float:
        """The share by which FediAC needed less than the best baseline."""
        return 1.0 - self.fediac_mb / self.second_mb


ROWS: dict[str, dict[str, PublishedRow]] = {
    "fast": {
        "CIFAR-10_IID": PublishedRow(0.63, 1_732, "SwitchML", 5_756),
        "CIFAR-10_non-IID": PublishedRow(0.64, 4_169, "libra", 12_219),
        "FEMNIST": PublishedRow(0.79, 528, "libra", 897),
        "CIFAR-100_IID": PublishedRow(0.45, 3_658, "SwitchML", 7_707),
        "CIFAR-100_non-IID": PublishedRow(0.41, 3_550, "SwitchML", 10_276),
    },
    "slow": {
        "CIFAR-10_IID": PublishedRow(0.63, 1_763, "SwitchML", 5_756),
        "CIFAR-10_non-IID": PublishedRow(0.64, 4_037, "libra", 12_127),
        "FEMNIST": PublishedRow(0.79, 352, "libra", 995),
        "CIFAR-100_IID": PublishedRow(0.45, 3_539, "SwitchML", 7_707),
        "CIFAR-100_non-IID": PublishedRow(0.41, 3_547, "SwitchML", 11_561),
    },
}
"""Switch -> row -> what the paper reports."""

CLAIMS = {
    "fig-accuracy": "FediAC ends 1.15 to 7.71 points above the second best",
    "fig-noniid": "accuracy rises with β, and FediAC is above libra at every β",
    "fig-scale": "best thresholds: 5 to 15 % of N (IID), 10 to 20 % of N (non-IID)",
}
"""Figure -> what the paper says that it shows (Sec. V-B1 and V-B3)."""


def find_row(switch: str, beside: str | None) -> PublishedRow | None:
    """Return the paper's row for a switch, None where it has none."""
    return ROWS.get(switch, {}).get(beside or "")
