"""What a run settles about its algorithm: an input of every round that follows.

Before the first round, which entries are hot, for libra; after it, FediAC's threshold
and bits, where a server sets them. Checkpoints keep it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fediac.compressors import Compressor, FediAC, LearnsHot
from fediac.errors import FediacError, LocalProtocolError
from fediac.names import is_own
from fediac.runs.server_tuning import tune_on_server
from fediac.runs.settings import RunSettings
from fediac.switch import Switch

if TYPE_CHECKING:  # algorithms can be made where PyTorch is not installed
    from torch import Tensor

    from fediac.training.federation import FederatedRound, Federation, Progress

_HOT_ROUNDS_FROM = 1 << 31
"""Round numbers of the training that finds hot entries: no real round's."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What is settled while a run goes on, and kept in its checkpoints.

    Attributes:
        numbers: FediAC's threshold and bits, once the server has set them.
        hot: Hot entries, as libra has them, once they are found; a tensor.
    """

    numbers: Mapping[str, Any] = field(default_factory=dict)
    hot: Any | None = None


NOTHING = Settled()
"""As a run begins."""


def settle_beforehand(
    algorithm: str,
    compressor: Compressor,
    federation: "Federation",
    progress: "Progress",
) -> Settled:
    """Return what is settled before the first round: which entries are hot.

    Args:
        algorithm: Its name in the settings.
        compressor: The same, with nothing settled.
        federation: Trains, if need be.
        progress: Where the run begins.
    """
    if is_own(algorithm) or not isinstance(compressor, LearnsHot):
        return NOTHING
    if compressor.hot.shape[0]:  # they were given
        return NOTHING
    return Settled(hot=find_hot(federation, compressor, progress))


def is_tuned_by_server(settings: RunSettings) -> bool:
    """Return whether a server sets threshold and bits by the first round's updates."""
    return settings.algorithm == "fediac" and settings.tuning == "server"


def settle_by_first_round(
    settings: RunSettings, federation: "Federation", done: "FederatedRound"
) -> Settled:
    """Return what the server sets by the first round's updates: threshold and bits."""
    given = settings.of("fediac")
    dim = federation.model.dim
    voters = FediAC(
        len(done.clients),
        n_votes=given.n_votes,
        entries_per_vote=given.entries_per_vote,
    )
    factors = federation.factors(done.clients)
    candidates = tune_on_server(
        [
            each.update * factors[client]
            for client, each in zip(done.clients, done.trained, strict=True)
        ],
        n_votes=voters.count_votes(dim),
        law=given.law,
        seed=settings.seed,
        entries_per_vote=voters.group_length(dim),
        rank_by=given.rank_by,
    )
    if not candidates:
        raise FediacError("no threshold has gamma below 1 on the first round's updates")
    best = candidates[0]
    return Settled({"threshold": best.threshold, "bits": best.bits})


def find_hot(
    federation: "Federation", algorithm: LearnsHot, progress: "Progress"
) -> "Tensor":
    """Return the entries that an algorithm such as libra finds hot before the run.

    It sees a few rounds of plain averaging on a copy of the model that is thrown away.
    Like in the paper, nobody is billed for them.
    """
    switch = federation.switch
    if not isinstance(switch, Switch):
        raise LocalProtocolError("hot entries need a switch in this process")
    updates = _train_beforehand(federation, progress, algorithm.hot_rounds)
    n_addresses = switch.indexed_capacity(federation.n_clients)
    hot: Tensor = algorithm.find_hot(updates, n_addresses)
    return hot


def _train_beforehand(
    federation: "Federation", progress: "Progress", n_rounds: int
) -> "Iterator[Tensor]":
    """Yield the updates of all clients in rounds of plain averaging."""
    parameters, statistics = progress.parameters, progress.statistics
    everyone = list(range(federation.n_clients))
    for number in range(1, n_rounds + 1):
        federation.model.parameters.copy_(parameters)
        federation.model.statistics.copy_(statistics)
        trained = federation.engine.train(
            everyone,
            round_number=_HOT_ROUNDS_FROM + number,
            rate=federation.rate(number),
        )
        yield from (each.update for each in trained)
        parameters = parameters - _mean([each.update for each in trained])
        statistics = statistics - _mean([each.statistics for each in trained])


def _mean(tensors: "list[Tensor]") -> "Tensor":
    total = tensors[0].new_zeros(tensors[0].shape)
    for each in tensors:
        total += each
    return total / len(tensors)
