"""One round for a training loop: updates or models in, in whatever form it has them."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from array_api_compat import array_namespace

from fediac.compressors.protocol import Compressor, State
from fediac.core.types import Array
from fediac.switch.pipeline import Switch
from fediac.transports.argument_checks import require_updates
from fediac.transports.forms import (
    BufferRule,
    Form,
    find_form,
    require_like,
)
from fediac.transports.protocol import SwitchElsewhere
from fediac.transports.statistics import average_statistics, weigh
from fediac.transports.vectors import RoundResult, aggregate_vectors


def aggregate(  # noqa: PLR0913 - the package's one call; settings by name
    updates: Sequence[Any],
    compressor: Compressor,
    *,
    seed: int,
    round_number: int,
    base: Any = None,  # noqa: ANN401 - any form
    statistics: BufferRule = "average",
    buffers: Collection[Any] | None = None,
    weights: Sequence[int | None] | None = None,
    switch: Switch | SwitchElsewhere | None = None,
    states: Sequence[State] | None = None,
    out: Sequence[State] | None = None,
    phase: str = "",
) -> RoundResult:
    """Return the aggregated update of one round, and its other results.

    All clients run in lockstep: NumPy arrays and CPU tensors as packets through
    ``switch``, tensors on an accelerator as whole arrays there, with the same bits.
    What is not a vector is put into one, in the order of the first client, and given
    back as it came: whole numbers, such as batch norm's count of batches, do not take
    part, and their mean update is 0.

    Args:
        updates: One a client, w − w_local: a vector, a list of arrays (one a layer), or
            arrays by name as in a state_dict; None for a client that is absent. With
            ``base``: the clients' models after their training.
        compressor: The algorithm. Its ``n_clients`` must be at least the number of
            updates that are present.
        seed: The run's seed.
        round_number: Tells the random numbers of rounds apart.
        base: The model that clients began the round with, in the same form.
            ``model`` of the result is then the one after it.
        statistics: Batch norm's running statistics: ``average`` them as a dense sum of
            24 bits beside the round, or ``leave`` them as they were.
        buffers: Names (or places in a list) of the arrays that are such statistics; by
            default those that end in ``running_mean`` or ``running_var``.
        weights: How much each client counts in the mean, such as how many examples it
            has: a whole number of at least 1 for each that is present. The switch adds
            them first, which is billed as a packet of 32 bits each way. By default all
            count alike, and nothing is asked.
        switch: Where sums are made: in this process, by default in a new one with 1 MiB
            of registers, or elsewhere, as by `fediac.RemoteSwitch`.
        states: What the last round returned; fresh ones by default.
        out: Where to put the next residuals: ``states`` again, to overwrite the old
            ones, or states with other arrays. If a round in place fails after all, old
            residuals are put back for an algorithm of your own, and made NaN for one of
            this package, so that a second try counts nothing twice; other arrays, or
            none, leave ``states`` as they are.
        phase: For a second aggregation in the same round: its name in the ledger, and
            what keeps its random numbers apart from the first one's.

    Raises:
        UpdateError: An update, with its residual, has an entry that is not finite or
            beyond 2**100, or it does not fit the others.
        ValueError: The switch is too small for one of this package's algorithms.
            Nothing has been changed in either case.
    """
    require_updates(updates)
    form = find_form(updates, base, statistics=statistics, buffers=buffers)
    switch = Switch() if switch is None else switch
    vectors, changes = updates, None
    if form is not None:
        vectors, changes = _flatten(form, updates, has_base=base is not None)
    result = aggregate_vectors(
        vectors,
        compressor,
        seed=seed,
        round_number=round_number,
        weights=weights,
        switch=switch,
        states=states,
        out=out,
        phase=phase,
        warns=True,
    )
    if form is None:
        return result
    parts = dict(form.split(result.mean, form.learned))
    if changes is not None:
        averaged = average_statistics(
            weigh(changes, weights),
            sent=result.ledger,
            switch=switch,
            seed=seed,
            round_number=round_number,
            phase=phase,
        )
        parts |= form.split(averaged.mean, form.statistics)
        result = replace(result, ledger=result.ledger.then(averaged.ledger))
    mean = {key: parts.get(key, _zeros(each)) for key, each in form.like.items()}
    if base is None:
        return replace(result, mean=form.give_back(mean))
    model = form.subtract(parts)
    return replace(result, mean=form.give_back(mean), model=form.give_back(model))


def _flatten(
    form: Form, updates: Sequence[Any], *, has_base: bool
) -> tuple[list[Array | None], list[Array | None] | None]:
    """Return clients' updates as vectors, and the changes of their statistics."""
    vectors: list[Array | None] = [None] * len(updates)
    changes = list(vectors)
    pairs = ((form.learned, vectors), (form.statistics, changes))
    starts = [form.flatten(form.like, keys) if keys else None for keys, _ in pairs]
    for client, given in enumerate(updates):
        if given is None:
            continue
        arrays = form.read(client, given)
        for (keys, into), start in zip(pairs, starts, strict=True):
            if start is None:
                continue
            own = form.flatten(arrays, keys)
            if has_base:
                require_like(client, own, start)
                own = start - own
            into[client] = own
    return vectors, changes if form.statistics else None


def _zeros(array: Array) -> Array:
    return array_namespace(array).zeros_like(array)
