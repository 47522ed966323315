"""Runs -> who is compared: an algorithm with one setting, and its runs of all seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from fediac.compressors import CATALOG
from fediac.names import short_name
from fediac.palette import N_COLOURS
from fediac.report.differences import are_repeats
from fediac.report.reading import choose_labels
from fediac.runs.records import Round
from fediac.runs.stored import Run

N_STYLES = 8
"""Dashes that tell the settings of one algorithm apart; the first is a whole line."""

Look = tuple[int, int]
"""The number of an algorithm's colour and marker, and of its setting's dashes."""


@dataclass(frozen=True, slots=True)
class Contender:
    """An algorithm with one setting, as it is compared.

    Attributes:
        runs: They differ in nothing but the seed.
        label: Its name in a report, unlike that of any other.
    """

    runs: tuple[Run, ...]
    label: str
    look: Look

    @property
    def algorithm(self) -> str:
        """The algorithm's name in the settings."""
        return self.runs[0].algorithm

    @property
    def name(self) -> str:
        """The label, after the algorithm where the label does not say it."""
        algorithm = short_name(self.algorithm)
        is_named = algorithm.lower() in self.label.lower()
        return self.label if is_named else f"{algorithm} {self.label}"

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches that all of its runs were timed with."""
        first, *others = (run.switches for run in self.runs)
        return tuple(name for name in first if all(name in each for each in others))

    @property
    def rounds(self) -> list[Round]:
        """All rounds of all runs."""
        return [each for run in self.runs for each in run.rounds]

    @property
    def best_run(self) -> Run:
        """The run with the highest accuracy, the first of equals."""
        return max(self.runs, key=lambda run: run.best.accuracy)


def name_metric(contenders: Sequence[Contender]) -> str:
    """Return what the accuracy of these is called; all names, where they differ."""
    runs = (run for each in contenders for run in each.runs)
    return " / ".join(dict.fromkeys(run.metric for run in runs))


def list_contenders(runs: Sequence[Run]) -> list[Contender]:
    """Return runs by what they have in common but the seed, in their first order."""
    groups: list[list[Run]] = []
    for run in runs:
        for group in groups:
            if group[0].algorithm == run.algorithm and are_repeats([*group, run]):
                group.append(run)
                break
        else:
            groups.append([run])
    groups = [sorted(group, key=lambda run: run.seed) for group in groups]
    labels = choose_labels([group[0] for group in groups])
    looks = _choose_looks([group[0].algorithm for group in groups], labels)
    return [
        Contender(tuple(group), label, look)
        for group, label, look in zip(groups, labels, looks, strict=True)
    ]


def _choose_looks(algorithms: Sequence[str], labels: Sequence[str]) -> list[Look]:
    """Return a colour for each algorithm and a style for each name, on every page.

    Algorithms of the catalog have their own colours. A setting's style comes from its
    name, so it is the same elsewhere, unless another setting on the page has taken it.
    """
    known = list(CATALOG)
    known += [name for name in dict.fromkeys(algorithms) if name not in CATALOG]
    looks: list[Look] = []
    for algorithm, label in zip(algorithms, labels, strict=True):
        colour = known.index(algorithm) % N_COLOURS
        is_plain = label == short_name(algorithm)
        first = 0 if is_plain else 1 + crc32(label.encode()) % (N_STYLES - 1)
        order = [(first + step) % N_STYLES for step in range(N_STYLES)]
        free = [style for style in order if (colour, style) not in looks]
        looks.append((colour, (free or order)[0]))
    return looks
