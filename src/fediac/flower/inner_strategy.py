"""The app's own strategy, given the compressed mean as if one client had sent it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import Strategy

from fediac.flower.records import array_record, arrays_of


class Inner:
    """A strategy that others' models are averaged for.

    Args:
        strategy: The app's.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.arrays_key: str = getattr(strategy, "arrayrecord_key", "arrays")
        self.weight_key: str = getattr(strategy, "weighted_by_key", "num-examples")

    def aggregate(
        self,
        server_round: int,
        model: Mapping[str, Any],
        replies: Sequence[Message],
    ) -> tuple[dict[str, Any], MetricRecord | None]:
        """Return the next model and the clients' metrics taken together.

        Args:
            server_round: Which round.
            model: The model that the mean update leads to.
            replies: Clients' replies, with their metrics.
        """
        contents = [each.content for each in replies]
        weight = sum(self._weights(contents)) or 1.0
        stand_in = replies[0]
        stand_in.content = RecordDict(
            {
                self.arrays_key: array_record(model),
                "metrics": MetricRecord({self.weight_key: weight}),
            }
        )
        arrays, metrics = self.strategy.aggregate_train(server_round, [stand_in])
        combine = getattr(self.strategy, "train_metrics_aggr_fn", None)
        if combine is not None and all(each.metric_records for each in contents):
            metrics = combine(contents, self.weight_key)
        if arrays is None:
            return dict(model), metrics
        return _typed(arrays_of(arrays), model), metrics

    def _weights(self, contents: Iterable[RecordDict]) -> list[float]:
        found = []
        for content in contents:
            for record in content.metric_records.values():
                weight: Any = record.get(self.weight_key, 0.0)
                found.append(float(weight))
        return found

    def keeps(self) -> dict[str, Any]:
        """Return what the strategy keeps between rounds, such as momentum."""
        found: dict[str, Any] = {}
        for name, value in vars(self.strategy).items():
            if isinstance(value, ArrayRecord):
                found[name] = {"record": arrays_of(value)}
            elif _is_arrays(value) and isinstance(value, dict):
                kept = {key: np.asarray(each) for key, each in value.items()}
                found[name] = {"dict": kept}
            elif _is_arrays(value):
                found[name] = {"list": [np.asarray(each) for each in value]}
        return found

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Give it back what it kept."""
        for name, each in kept.items():
            (kind, value), *_ = each.items()
            makers: dict[str, Any] = {
                "record": array_record,
                "dict": dict,
                "list": list,
            }
            setattr(self.strategy, name, makers[kind](value))


def _is_arrays(value: object) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(each, np.ndarray | np.generic) for each in value)


def _typed(arrays: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays with the types of the model: weighting makes whole numbers floats.

    Whole numbers, such as a count of batches, stay what they were.
    """
    return {
        name: like[name]
        if like[name].dtype.kind in "iub"
        else np.asarray(arrays[name], dtype=like[name].dtype)
        for name in like
    }
