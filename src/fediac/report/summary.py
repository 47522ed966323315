"""The report in plain words: who got there with least, and what to be careful about."""

from collections.abc import Sequence
from dataclasses import dataclass

from fediac.console import count
from fediac.names import short_name
from fediac.number_words import (
    join,
    mib,
    percent,
    seconds,
    span,
    whole,
)
from fediac.report.consensus import consensus_notes
from fediac.report.differences import are_repeats, differing
from fediac.report.target import (
    Standing,
    Target,
    rank,
    repeats,
    saving,
    second_best,
)
from fediac.runs.records import Round
from fediac.runs.stored import Run


@dataclass(frozen=True, slots=True)
class Headline:
    """A number to show large, and what it is."""

    number: str
    meaning: str


def title(runs: Sequence[Run]) -> str:
    """Return what the report is about, in a few words."""
    names = {
        run.summary.dataset if run.summary else run.settings.data.name for run in runs
    }
    models = {run.settings.model.name for run in runs}
    topic = ", ".join(sorted(names | models))
    if len(names) == len(models) == 1:
        topic = ", ".join((*names, *models))
    about = runs[0].label if len(runs) == 1 else f"{len(runs)} runs compared"
    if are_repeats(runs):
        about = f"{short_name(runs[0].algorithm)}, {count(len(runs), 'run')}"
    return f"{about}: {topic}"


def subtitle(runs: Sequence[Run]) -> str:
    """Return what all runs share, in a few words."""
    parts = []
    for key, noun in (("n_clients", "client"), ("dim", "parameter")):
        numbers = {getattr(run.summary, key) for run in runs if run.summary}
        if len(numbers) == 1:
            parts.append(count(numbers.pop(), noun))
    n_rounds = sorted({len(run.rounds) for run in runs})
    first = f"{whole(n_rounds[0])} to " if n_rounds[1:] else ""
    parts.append(first + count(n_rounds[-1], "round"))
    seeds = {run.seed for run in runs}
    if len(seeds) == 1:
        parts.append(f"seed {seeds.pop()}")
    return " · ".join(parts)


def summarize(runs: Sequence[Run], target: Target | None) -> list[str]:
    """Return the report's first paragraph, a sentence or two an item."""
    if target is None:
        return _without_target(runs)
    standings = rank(runs, target, "payload")
    reached = [each for each in standings if each.reached is not None]
    if not reached:
        return _nobody(runs, target)
    second = second_best(standings)
    alike = repeats(reached)
    if second is None and len(alike) > 1:
        is_only = len(repeats(standings)) < len(standings)
        sentences = _repeated(alike, target, is_only=is_only)
    else:
        sentences = [_winner(standings, target), *_fastest(reached)]
    sentences += _losers([each.run for each in standings if each.reached is None])
    if len(runs) == 1:
        sentences.append("There is only this run, so nothing to compare it with.")
    return sentences


def _winner(standings: Sequence[Standing], target: Target) -> str:
    best = standings[0]
    if best.reached is None:
        raise ValueError("standings must begin with a run that reached the target")
    goal = percent(target.accuracy)
    cost = (
        f"{mib(best.mib('payload'))} of payload ({mib(best.mib('wire'))} on the wire)"
    )
    rounds = f"in {count(best.reached.number, 'round')}"
    less, second = saving(standings, "payload"), second_best(standings)
    if less is not None and second is not None:
        return (
            f"{_name(best.run)} reached {goal} accuracy with the least traffic: {cost} "
            f"{rounds}, {percent(less)} less than the second best, {_name(second.run)} "
            f"({mib(second.mib('payload'))})."
        )
    only = "" if len(standings) == 1 else "Only "
    return f"{only}{_name(best.run)} reached {goal} accuracy: {cost} {rounds}."


def _repeated(alike: Sequence[Standing], target: Target, *, is_only: bool) -> list[str]:
    """Say what runs needed that are no rivals, as they differ only in their seed."""
    algorithm = short_name(alike[0].run.algorithm)
    rounds = [each.reached for each in alike if each.reached is not None]
    payload, wire = (
        span((each.mib[view] for each in rounds), mib) for view in ("payload", "wire")
    )
    needed = span((each.number for each in rounds), _rounds)
    sentences = [
        f"{'Only ' if is_only else ''}{algorithm} reached {percent(target.accuracy)} "
        f"accuracy, in {count(len(alike), 'run')} that differ only in the seed: "
        f"{payload} of payload ({wire} on the wire) in {needed}."
    ]
    taken = [
        f"{times} with the {switch} switch" for switch, times in _times(rounds).items()
    ]
    if taken:
        sentences.append(f"They took {join(taken)}, in simulated time.")
    return sentences


def _times(rounds: Sequence[Round]) -> dict[str, str]:
    """Return the least and the longest time with every switch that all have."""
    shared = [
        switch
        for switch in rounds[0].time_s
        if all(switch in each.time_s for each in rounds)
    ]
    return {
        switch: span((each.time_s[switch] for each in rounds), seconds)
        for switch in shared
    }


def _rounds(number: float) -> str:
    return count(int(number), "round")


def _name(run: Run) -> str:
    """Return a run's label, after its algorithm where the label does not say it."""
    name = short_name(run.algorithm)
    is_named = name.lower() in run.label.lower()
    return run.label if is_named else f"{name} {run.label}"


def _fastest(reached: Sequence[Standing]) -> list[str]:
    """Say how long the thriftiest run took, and who was faster, for every switch."""
    best, *alike = repeats(reached)
    own = best.reached.time_s if best.reached else {}
    if not own:
        return []
    taken = join([f"{seconds(own[key])} with the {key} switch" for key in own])
    sentences = [f"It took {taken}, in simulated time."]
    rivals = [each for each in reached if each not in alike]
    for switch in own:
        first = min(rivals, key=lambda each, key=switch: _arrival(each, key))  # type: ignore[misc]  # a default binds the loop's value
        if first.run.label != best.run.label:
            sentences.append(
                f"With the {switch} switch {_name(first.run)} was there earlier, after "
                f"{seconds(_arrival(first, switch))}."
            )
    is_first = all(
        own[switch] <= _arrival(each, switch) for each in reached for switch in own
    )
    if len(rivals) > 1 and is_first:
        sentences[0] = f"It also was there first: after {taken}, in simulated time."
    return sentences


def _arrival(each: Standing, switch: str) -> float:
    times = each.reached.time_s if each.reached else {}
    return times.get(switch, float("inf"))


def _losers(runs: Sequence[Run]) -> list[str]:
    if not runs:
        return []
    names = join([_name(run) for run in runs])
    bests = join([_best(run) for run in runs])
    noun = "Its best was" if len(runs) == 1 else "Their best were"
    return [f"{names} never reached it. {noun} {bests}."]


def _nobody(runs: Sequence[Run], target: Target) -> list[str]:
    goal = percent(target.accuracy)
    who = "The run" if len(runs) == 1 else f"None of the {len(runs)} runs"
    verb = "did not reach" if len(runs) == 1 else "reached"
    nearest = max(runs, key=lambda run: run.best.accuracy)
    sentences = [f"{who} {verb} {goal} accuracy."]
    several = f"The nearest was {_name(nearest)} with"
    return [
        *sentences,
        f"{'Its best was' if len(runs) == 1 else several} {_best(nearest)}, after "
        f"{_costs(nearest.best)}.",
    ]


def _without_target(runs: Sequence[Run]) -> list[str]:
    sentences = [
        f"{_name(run)} had its best accuracy, {percent(run.best.accuracy)}, in round "
        f"{whole(run.best.number)}, after {_costs(run.best)}."
        for run in runs
    ]
    return [*sentences, "No target accuracy is set, so none is compared."]


def _costs(at: Round) -> str:
    """Return what had been spent by the end of a round."""
    times = [
        f"{seconds(value)} ({switch} switch)" for switch, value in at.time_s.items()
    ]
    return join([f"{mib(at.mib['payload'])} of payload", *times])


def _best(run: Run) -> str:
    return f"{percent(run.best.accuracy)} in round {whole(run.best.number)}"


def headlines(runs: Sequence[Run], target: Target | None) -> list[Headline]:
    """Return the few numbers to remember."""
    standings = [] if target is None else rank(runs, target, "payload")
    if target is None or standings[0].reached is None:
        return _plain_headlines(runs)
    second = second_best(standings)
    alike = [each for each in repeats(standings) if each.reached is not None]
    compared = alike if second is None else alike[:1]
    rounds = [each.reached for each in compared if each.reached is not None]
    first = standings[0].run
    name = _name(first) if len(rounds) == 1 else short_name(first.algorithm)
    goal = percent(target.accuracy)
    payload = span((each.mib["payload"] for each in rounds), mib)
    shown = [Headline(payload, f"payload, {name} to {goal}")]
    less = saving(standings, "payload")
    if less is not None and second is not None:
        other = _name(second.run)
        shown.append(
            Headline(f"{percent(less)} less", f"than {other}, the second best")
        )
    shown += [
        Headline(times, f"to {goal}, {switch} switch")
        for switch, times in _times(rounds).items()
    ]
    needed = span((each.number for each in rounds), _rounds)
    return [*shown, Headline(needed, f"to {goal}")]


def _plain_headlines(runs: Sequence[Run]) -> list[Headline]:
    run = max(runs, key=lambda run: run.best.accuracy)
    best = run.best
    return [
        Headline(percent(best.accuracy), f"best accuracy, {_name(run)}"),
        Headline(whole(best.number), "its round"),
        Headline(mib(best.mib["payload"]), "payload until then"),
        *(
            Headline(seconds(value), f"until then, {switch} switch")
            for switch, value in best.time_s.items()
        ),
    ]


def cautions(runs: Sequence[Run], left_out: Sequence[str]) -> list[str]:
    """Return what a reader must know before comparing the runs."""
    notes = list(left_out)
    for run in runs:
        every = [*run.notes, *consensus_notes(run)]
        notes += [f"{run.label}: {note}" for note in every]
    names = differing(runs)
    if names and not are_repeats(runs):
        notes.append(
            f"The runs differ in more than the algorithm ({', '.join(names)}): compare "
            "them with care."
        )
    return notes
