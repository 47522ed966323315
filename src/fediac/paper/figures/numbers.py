"""What the paper's figures show: stored runs -> plain rows of numbers."""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from statistics import fmean
from typing import Any, TypeAlias

from fediac.core.shares import parse_share
from fediac.errors import RunError
from fediac.paper.entrants import ON_UNEVEN_DATA
from fediac.paper.figures.names import BEST_VOTES
from fediac.paper.figures.style import ENTRANTS
from fediac.paper.published import FIGURE_S
from fediac.paper.scenarios import NAMES, find_scenario
from fediac.paper.targets import find_target, make_row
from fediac.runs.records import Round
from fediac.runs.stored import Run

Row: TypeAlias = dict[str, Any]
Numbers: TypeAlias = list[Row]

_SWITCHES = ("fast", "slow")
_OTHER_VOTES = ("fediac-topk-", "fediac-shared-")


def accuracy_numbers(runs: Sequence[Run], *, until_s: float) -> Numbers:
    """Return a row for each scenario, switch and entrant, with a point for each round.

    Of several seeds, a point has the means of a round's times and accuracies, and the
    range of accuracies; rounds that not all seeds finish in time have none.

    Args:
        runs: Others than the entrants of the comparison are left out, and of FediAC's
            other votes all but the best.
        until_s: Rounds that end later are left out.
    """
    rows: Numbers = []
    for scenario in _in_order(run.scenario for run in runs):
        every = [run for run in runs if run.scenario == scenario]
        target = _mean_target(scenario, every)
        best = find_best_votes(scenario, every)
        names = [best if name == BEST_VOTES else name for name in ENTRANTS]
        inside = [run for run in every if run.entrant in names]
        for switch in list_switches(inside):
            for entrant in names:
                seeds = [run for run in inside if run.entrant == entrant]
                if seeds:
                    row = _accuracy_row(seeds, switch, until_s)
                    rows.append(row | {"target": target})
    return rows


def find_best_votes(name: str, runs: Sequence[Run]) -> str | None:
    """Return which of FediAC's other votes need the least traffic to the target.

    Those of `CANDIDATES` with the target reached by every seed; None without any.
    """
    if name not in NAMES:
        return None
    scenario = find_scenario(name)
    spent: dict[str, list[float]] = {}
    for run in runs:
        target = find_target(scenario, run.seed, runs)
        if target is None or not run.entrant.startswith(_OTHER_VOTES):
            continue
        row = make_row(run, scenario, target, next(iter(run.last.time_s)))
        mib = row.spent_mib if row.reached else inf
        spent.setdefault(run.entrant, []).append(mib)
    reached = {name: fmean(each) for name, each in spent.items() if inf not in each}
    return min(reached, key=reached.__getitem__, default=None)


def noniid_numbers(runs: Sequence[Run], *, until_s: float = FIGURE_S) -> Numbers:
    """Return a row for each switch, scenario, algorithm and beta: final accuracies.

    Args:
        runs: FediAC's and libra's on Dirichlet partitions count; one for a scenario,
            algorithm, beta and seed.
        until_s: When final is; earlier if some run ends earlier, for all then.

    Raises:
        RunError: Two runs are of the same scenario, algorithm, beta and seed.
    """
    kept = [
        run
        for run in runs
        if run.settings.algorithm in ON_UNEVEN_DATA
        and run.settings.data.partition == "dirichlet"
    ]
    return _final_rows(
        kept,
        lambda run: {
            "scenario": run.scenario,
            "algorithm": run.settings.algorithm,
            "beta": run.settings.data.beta,
        },
        switches=list_switches(kept),
        until_s=until_s,
    )


def scale_numbers(runs: Sequence[Run], *, until_s: float = FIGURE_S) -> Numbers:
    """Return a row for each scenario, number of clients and threshold.

    The clock is that of the slow switch, as in the paper, if the runs have it.

    Args:
        runs: FediAC's count; one for a scenario, number of clients, threshold and
            seed.
        until_s: When final is; earlier if some run ends earlier, for all then.

    Raises:
        RunError: Two runs are of the same numbers and seed.
    """
    kept = [run for run in runs if run.settings.algorithm == "fediac"]
    switches = list_switches(kept)
    return _final_rows(
        kept,
        lambda run: {
            "scenario": run.scenario,
            "n_clients": run.settings.clients.n_clients,
            "share": _share(run),
            "threshold": parse_share(
                run.settings.of("fediac").threshold,
                of=run.settings.clients.n_clients,
                name="fediac.threshold",
            ),
        },
        switches=["slow"] if "slow" in switches else switches[:1],
        until_s=until_s,
    )


def list_switches(runs: Iterable[Run]) -> list[str]:
    """Return the switches that all of some runs were timed on, the fast one first."""
    timed = [set(run.last.time_s) for run in runs]
    common = set.intersection(*timed) if timed else set()
    known = [name for name in _SWITCHES if name in common]
    return known + sorted(common.difference(known))


def _share(run: Run) -> float:
    """Return FediAC's threshold in percent of the clients, as given if a share."""
    threshold = run.settings.of("fediac").threshold
    if isinstance(threshold, str) and threshold.strip().endswith("%"):
        return float(threshold.strip()[:-1])
    n_clients = run.settings.clients.n_clients
    count = parse_share(threshold, of=n_clients, name="fediac.threshold")
    return 100.0 * count / n_clients


def _mean_target(name: str, runs: Sequence[Run]) -> float | None:
    """Return a scenario's target; where FedAvg fixes it, the mean over seeds."""
    if name not in NAMES:
        return None
    scenario = find_scenario(name)
    found = [find_target(scenario, seed, runs) for seed in {run.seed for run in runs}]
    targets = [target for target in found if target is not None]
    return sum(targets) / len(targets) if targets else None


def _accuracy_row(seeds: Sequence[Run], switch: str, until_s: float) -> Row:
    finished = [_finished(run, switch, until_s) for run in seeds]
    rounds = zip(*finished, strict=False)  # as many as every seed has
    return {
        "scenario": seeds[0].scenario,
        "switch": switch,
        "entrant": seeds[0].entrant,
        "seeds": [run.seed for run in seeds],
        "until_s": until_s,
        "ends_early": any(run.last.time_s[switch] < until_s for run in seeds),
        "points": [
            {"round": each[0].number, "time_s": _mean_time(each, switch)}
            | _spread([record.accuracy for record in each])
            for each in rounds
        ],
    }


def _final_rows(
    runs: Sequence[Run],
    key: Callable[[Run], Row],
    *,
    switches: Sequence[str],
    until_s: float,
) -> Numbers:
    """Return the final accuracies, a row for each switch and key, in order of keys."""
    if not runs or not switches:
        return []
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(key(run).values()), []).append(run)
    rows: Numbers = []
    for switch in switches:
        within_s = min(until_s, *(run.last.time_s[switch] for run in runs))
        for _, seeds in sorted(groups.items(), key=lambda item: item[0]):
            _check_seeds(seeds)
            finished = [_finished(run, switch, within_s) for run in seeds]
            row: Row = {"switch": switch} | key(seeds[0]) | {"within_s": within_s}
            row["seeds"] = [run.seed for run in seeds]
            row["rounds"] = [len(each) for each in finished]
            # A seed without any round in time has no final accuracy, so none is given.
            finals = [each[-1].accuracy for each in finished if each]
            rows.append(row | _spread(finals if len(finals) == len(seeds) else []))
    return rows


def _check_seeds(runs: Sequence[Run]) -> None:
    """Refuse runs that differ in what the figure does not show."""
    names: dict[int, str] = {}
    for run in runs:
        name = f"{run.scenario}/{run.entrant}"
        if run.seed in names:
            raise RunError(
                f"{names[run.seed]} and {name} with seed {run.seed} would be the same "
                "point of the figure; leave one out"
            )
        names[run.seed] = name


def _finished(run: Run, switch: str, until_s: float) -> list[Round]:
    return [each for each in run.rounds if each.time_s[switch] <= until_s]


def _mean_time(rounds: Sequence[Round], switch: str) -> float:
    times = [each.time_s[switch] for each in rounds]
    return sum(times) / len(times)


def _spread(values: Sequence[float]) -> Row:
    """Return mean and range; all None without values."""
    if not values:
        return {"accuracy": None, "lowest": None, "highest": None}
    return {
        "accuracy": sum(values) / len(values),
        "lowest": min(values),
        "highest": max(values),
    }


def _in_order(names: Iterable[str]) -> list[str]:
    """Return scenarios once each, in the order of the paper's tables."""
    found = set(names)
    known = [name for name in NAMES if name in found]
    return known + sorted(found.difference(known))
