"""The server's side: a strategy around the app's own, which gets the compressed mean.

The app's strategy says who trains and what becomes of the mean; between that stand the
message rounds of the compressor. Clients keep the model and apply the mean themselves:
who was away, or has another model, gets it whole. Where fewer than half of all nodes
take part in a round, nobody keeps a model, as next time most would get it anyway.
"""

from collections.abc import Callable, Iterable, Mapping
from logging import INFO
from pathlib import Path
from typing import Any, get_args

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    Bulyan,
    FedMedian,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    Krum,
    MultiKrum,
    QFedAvg,
    Result,
    Strategy,
)
from flwr.supercore import log

from fediac.errors import ArgumentError
from fediac.flower.algorithm import Algorithm
from fediac.flower.grid import PromptGrid
from fediac.flower.inner_strategy import Inner
from fediac.flower.nodes_folder import NodesFolder
from fediac.flower.over_switch import RoadSettings
from fediac.flower.server import Server
from fediac.flower.server_journal import Book
from fediac.flower.server_messages import ServerSettings, Weights

_NEED_EVERY_MODEL = (
    Bulyan,
    FedMedian,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    Krum,
    MultiKrum,
    QFedAvg,
)
"""Strategies that look at each client's model, which a compressed sum does not have."""

_CONFIG = "fediac."
"""What names of settings begin with in an app's config."""


class CompressedStrategy(Strategy):
    """A strategy whose clients send what a compressor of this package sends.

    Args:
        strategy: The app's own, such as FedAvg, FedProx or FedAdam: it samples clients
            and gets the mean model.
        algorithm: What compresses, as ``fediac list`` names it, such as fediac, or
            ``module:name`` of your own.
        seed: Of all that clients draw.
        statistics: Batch norm's running statistics: ``average`` them as a dense sum of
            24 bits, or ``leave`` them as they were.
        weights: How much clients count in the mean: ``equal``, all the same, or by
            their ``examples``, as FedAvg counts them: what clients say in the metric
            that it weighs by, ``num-examples`` unless the strategy names another. They
            agree on the sum first, in one message round more.
        enough: With fewer clients a round is given up; what they trained goes into
            their residuals.
        grace_s: Once ``enough`` clients have replied, how long to wait for the others;
            None: until Flower's timeout, or until Flower knows that they are gone.
        folder: Where journal and model outlive the ServerApp.
        nodes_folder: Where simulated nodes keep their residuals: a folder, or
            ``memory``. ``auto``: in memory; from 100 nodes on in files below
            ``folder``, or in a temporary one. Others than simulated nodes have
            ``fediac-folder`` in their config.
        switch: ``HOST:PORT`` of a running ``fediac switch``, which then adds votes and
            levels; by messages where it cannot be reached. The key of its jobs is
            $FEDIAC_KEY of the ServerApp; clients are told one for each session.
        mtu: The longest IP packet that all paths to the switch take.
        key_over: ``tls``: Flower's connections are, which a switch with a key needs
            unless it is on the loopback.
        settings: The algorithm's, such as ``n_votes="1%"``; ``preset="lean"``.
    """

    def __init__(  # noqa: PLR0913 - settings, by name
        self,
        strategy: Strategy,
        algorithm: str = "fediac",
        *,
        seed: int = 0,
        statistics: str = "average",
        weights: str = "equal",
        enough: int = 1,
        grace_s: float | None = None,
        folder: str | Path | None = None,
        nodes_folder: str | Path = "auto",
        switch: str | None = None,
        mtu: int = 1500,
        key_over: str = "",
        **settings: Any,  # noqa: ANN401 - an algorithm's own
    ) -> None:
        if isinstance(strategy, _NEED_EVERY_MODEL):
            raise ArgumentError(
                "strategy",
                "must be one that needs the mean alone, such as FedAvg, FedProx or "
                f"FedAdam, got {type(strategy).__name__}, which looks at each model",
            )
        if statistics not in ("average", "leave"):
            raise ArgumentError(
                "statistics", f"must be average or leave, got {statistics!r}"
            )
        if weights not in get_args(Weights):
            raise ArgumentError(
                "weights", f"must be equal or examples, got {weights!r}"
            )
        self._inner = Inner(strategy)
        own_folder = None if folder is None else Path(folder)
        self._book = Book(own_folder)
        self._nodes = NodesFolder(str(nodes_folder), own_folder)
        road = None if switch is None else RoadSettings(switch, mtu, key_over)
        known = ServerSettings(
            Algorithm(algorithm, settings),
            seed,
            averages=statistics == "average",
            enough=enough,
            weight_key=self._inner.weight_key if weights == "examples" else "",
            road=road,
        )
        self._server = Server(known, self._book, self._inner, self._nodes)
        self._enough, self._grace_s = enough, grace_s
        self._behind = 0
        self._n_rounds: int | None = None

    @classmethod
    def from_config(
        cls, strategy: Strategy, config: Mapping[str, Any]
    ) -> "CompressedStrategy":
        """Return what an app's config asks for.

        Args:
            strategy: The app's own.
            config: ``context.run_config``; what begins with ``fediac.`` is used.
        """
        given = {
            name.removeprefix(_CONFIG): value
            for name, value in config.items()
            if name.startswith(_CONFIG) and value != ""
        }
        return cls(strategy, **given)

    def summary(self) -> None:
        """Log what compresses, and the settings of the app's own strategy."""
        algorithm = self._server.settings.algorithm
        given = ", ".join(f"{k}={v!r}" for k, v in algorithm.settings.items())
        log(INFO, "\t├──> Compressed by %s (%s)", algorithm.name, given or "defaults")
        self._inner.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask the app's strategy who trains; leave the model out for who has it."""
        number = server_round + self._behind
        messages = self._inner.strategy.configure_train(number, arrays, config, grid)
        return self._server.ask_to_train(number, arrays, messages, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Go through the compressor's message rounds; give the mean to the strategy."""
        return self._server.end_round(server_round + self._behind, list(replies))

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask the app's strategy who evaluates; leave the model out for who has it."""
        number = server_round + self._behind
        strategy = self._inner.strategy
        messages = strategy.configure_evaluate(number, arrays, config, grid)
        return self._server.ask_to_evaluate(number, arrays, messages, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Hear who lacked something again; give the rest to the app's strategy."""
        number = server_round + self._behind
        heard = self._server.hear_evaluations(number, list(replies))
        if number == self._n_rounds:
            self._server.settle_all()
        return self._inner.strategy.aggregate_evaluate(number, heard)

    def start(  # noqa: PLR0913 - Flower's
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run the rounds that are missing, as Flower does.

        With a folder that has rounds behind it, these are not run again: ``num_rounds``
        counts them, too.
        """
        self._nodes.begin(grid)
        behind, arrays = self._server.begin(initial_arrays, timeout)
        self._behind, self._n_rounds = behind, num_rounds
        if behind:
            log(INFO, "fediac: goes on behind round %s of the journal", behind)
        shifted = evaluate_fn and (lambda at, model: evaluate_fn(at + behind, model))
        try:
            result = super().start(
                PromptGrid(grid, enough=self._enough, grace_s=self._grace_s),
                arrays,
                max(0, num_rounds - behind),
                timeout,
                train_config,
                evaluate_config,
                shifted,
            )
        finally:
            self._book.close()
        if behind:
            _shift(result, behind, arrays)
        return result


def _shift(result: Result, behind: int, arrays: ArrayRecord) -> None:
    """Number the rounds of a result as those of the whole job."""
    if not result.arrays:
        result.arrays = arrays
    for metrics in (
        result.train_metrics_clientapp,
        result.evaluate_metrics_clientapp,
        result.evaluate_metrics_serverapp,
    ):
        shifted = {number + behind: each for number, each in metrics.items()}
        metrics.clear()
        metrics.update(shifted)
