"""The report in plain words: verdicts, who never got there, what to be careful of."""

from collections.abc import Sequence

from fediac.console import count
from fediac.names import short_name
from fediac.number_words import join, mib, percent, seconds, whole
from fediac.report.clocks import list_clocks
from fediac.report.consensus import consensus_notes
from fediac.report.contenders import Contender, name_metric
from fediac.report.differences import differing
from fediac.report.target import Standing, Target, rank, traffic
from fediac.report.verdict import Verdict, judge
from fediac.runs.records import Round
from fediac.runs.stored import Run


def title(contenders: Sequence[Contender]) -> str:
    """Return what the report is about, in a few words."""
    runs = [run for each in contenders for run in each.runs]
    names = {
        run.summary.dataset if run.summary else run.settings.data.name for run in runs
    }
    models = {run.settings.model.name for run in runs}
    topic = ", ".join(sorted(names | models))
    if len(names) == len(models) == 1:
        topic = ", ".join((*names, *models))
    return f"{_who(contenders)}: {topic}"


def _who(contenders: Sequence[Contender]) -> str:
    algorithms = list(dict.fromkeys(short_name(each.algorithm) for each in contenders))
    n_seeds = len(contenders[0].runs)
    if len(contenders) == 1:
        return contenders[0].name + (f", {n_seeds} seeds" if n_seeds > 1 else "")
    if len(algorithms) == 1:
        return f"{algorithms[0]}, {len(contenders)} settings"
    if len(algorithms) == len(contenders):
        return f"{len(algorithms)} algorithms"
    return f"{len(algorithms)} algorithms, {len(contenders)} settings"


def subtitle(contenders: Sequence[Contender]) -> str:
    """Return what all runs share, in a few words."""
    runs = [run for each in contenders for run in each.runs]
    parts = []
    for key, noun in (("n_clients", "client"), ("dim", "parameter")):
        numbers = {getattr(run.summary, key) for run in runs if run.summary}
        if len(numbers) == 1:
            parts.append(count(numbers.pop(), noun))
    n_rounds = sorted({len(run.rounds) for run in runs})
    first = f"{whole(n_rounds[0])} to " if n_rounds[1:] else ""
    parts.append(first + count(n_rounds[-1], "round"))
    seeds = sorted({run.seed for run in runs})
    parts.append(f"seed{'s' * (len(seeds) > 1)} {join([*map(str, seeds)])}")
    return " \u00b7 ".join(parts)


def summarize(contenders: Sequence[Contender], target: Target | None) -> list[str]:
    """Return the report's first paragraph, a sentence or two an item."""
    if target is None:
        return _without_target(contenders)
    verdicts = judge(contenders, target)
    if not verdicts:
        return _nobody(contenders, target)
    return [*map(say_verdict, verdicts), *say_missing(contenders, target)]


def say_verdict(verdict: Verdict) -> str:
    """Return a verdict as a sentence."""
    name = verdict.winner.contender.name
    spread = f" ({verdict.spread})" if verdict.spread else ""
    compared = f"; {verdict.compared}" if verdict.compared else ""
    return (
        f"{verdict.title}: {name}, {verdict.number}{spread} in "
        f"{verdict.n_rounds}{compared}."
    )


def say_missing(contenders: Sequence[Contender], target: Target) -> list[str]:
    """Return who did not get to the target, and what the comparison lacks."""
    standings = rank(contenders, target, traffic("payload"))
    never = [each for each in standings if not any(each.rounds)]
    partly = [each for each in standings if any(each.rounds) and not each.reached]
    sentences = [_partly(each) for each in partly]
    if never:
        names = join([each.contender.name for each in never])
        bests = join([_best(each.contender.best_run) for each in never])
        noun = "Its best was" if len(never) == 1 else "Their best were"
        sentences.append(f"{names} never reached it. {noun} {bests}.")
    if len(contenders) == 1:
        sentences.append("There is nothing here to compare it with.")
    return sentences


def _partly(standing: Standing) -> str:
    n_runs = len(standing.rounds)
    n_reached = sum(each is not None for each in standing.rounds)
    name = standing.contender.name
    return f"{name} reached it with {n_reached} of {n_runs} seeds, so it has no mean."


def _nobody(contenders: Sequence[Contender], target: Target) -> list[str]:
    goal = f"{percent(target.accuracy)} {name_metric(contenders)}"
    standings = rank(contenders, target, traffic("payload"))
    partly = [_partly(each) for each in standings if any(each.rounds)]
    nearest = max(contenders, key=lambda each: each.best_run.best.accuracy)
    costs = _costs(nearest.best_run.best, contenders)
    best = f"{_best(nearest.best_run)}, after {costs}."
    if len(contenders) == 1:
        verb = "did not reach" if not partly else "did not always reach"
        return [
            f"{nearest.name} {verb} {goal}.",
            *partly,
            f"Its best was {best}",
        ]
    return [
        f"None of the {len(contenders)} reached {goal}.",
        *partly,
        f"The nearest was {nearest.name} with {best}",
    ]


def _without_target(contenders: Sequence[Contender]) -> list[str]:
    sentences, metric = [], name_metric(contenders)
    for each in contenders:
        best = each.best_run.best
        sentences.append(
            f"{each.name} had its best {metric}, {percent(best.accuracy)}, in round "
            f"{whole(best.number)}, after {_costs(best, contenders)}."
        )
    return [*sentences, f"No target {metric} is set, so none is compared."]


def _costs(at: Round, contenders: Sequence[Contender]) -> str:
    """Return what had been spent by the end of a round."""
    clocks = list_clocks(contenders)
    times = [
        f"{seconds(at.time_s[clock.switch])} ({clock.title})"
        for clock in clocks
        if clock.switch in at.time_s
    ]
    return join([f"{mib(at.mib['payload'])} of payload", *times])


def _best(run: Run) -> str:
    return f"{percent(run.best.accuracy)} in round {whole(run.best.number)}"


def cautions(contenders: Sequence[Contender], left_out: Sequence[str]) -> list[str]:
    """Return what a reader must know before comparing the runs."""
    notes = list(left_out)
    runs = [run for each in contenders for run in each.runs]
    for run in runs:
        every = [*run.notes, *consensus_notes(run)]
        notes += [f"{run.label}: {note}" for note in every]
    names = _differing(contenders)
    if names:
        notes.append(
            f"The runs differ in more than the algorithm ({', '.join(names)}): compare "
            "them with care."
        )
    return notes


def _differing(contenders: Sequence[Contender]) -> list[str]:
    """Return settings in which runs of one seed differ; the seed if none is shared."""
    by_seed: dict[int, list[Run]] = {}
    for run in (run for each in contenders for run in each.runs):
        by_seed.setdefault(run.seed, []).append(run)
    if not any(len(runs) == len(contenders) for runs in by_seed.values()):
        return differing([run for runs in by_seed.values() for run in runs])
    return list(
        dict.fromkeys(name for runs in by_seed.values() for name in differing(runs))
    )
