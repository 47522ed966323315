"""A small app whose training is arithmetic, and the same rounds in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

import fediac
from fediac.compressors import find
from fediac.flower import compress_mod

N_CLIENTS = 4
SEED = 5

Model = dict[str, Any]


def start() -> Model:
    rng = np.random.default_rng(1)
    return {
        "layer.weight": rng.normal(size=(20, 30)).astype(np.float32),
        "norm.running_mean": rng.normal(size=16).astype(np.float32),
        "norm.running_var": rng.uniform(1, 2, size=16).astype(np.float32),
        "norm.num_batches_tracked": np.asarray(7),
        "head.bias": rng.normal(size=10).astype(np.float32),
    }


def trained(arrays: Model, client: int) -> Model:
    """Stand in for training: a change that follows from the model and the client."""
    out = {}
    for place, (name, each) in enumerate(arrays.items()):
        if each.dtype.kind != "f":
            out[name] = each + 1
            continue
        rng = np.random.default_rng([client, place])
        change = rng.standard_t(2, size=each.shape) * 0.1 * (1 + abs(each))
        out[name] = np.asarray(each - change, dtype=each.dtype)
    return out


def make_app(
    mod: Mod = compress_mod, n_examples: Sequence[Any] = (3,) * N_CLIENTS
) -> ClientApp:
    app = ClientApp(mods=[mod])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        record = message.content.array_records["arrays"]
        before = {key: each.numpy() for key, each in record.items()}
        client = int(context.node_config["partition-id"])
        after = trained(before, client)
        message.content["arrays"] = ArrayRecord(
            {key: Array(np.asarray(each)) for key, each in after.items()}
        )
        metrics: dict[str, Any] = {"loss": 0.5}
        said = n_examples[client % len(n_examples)]
        if said is not None:
            metrics["num-examples"] = said
        message.content["metrics"] = MetricRecord(metrics)
        del message.content["config"]
        return Message(message.content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, _context: Context) -> Message:
        record = message.content.array_records["arrays"]
        total = sum(float(each.numpy().sum()) for each in record.values())
        metrics = MetricRecord({"num-examples": 2, "total": total})
        message.content.clear()
        message.content["metrics"] = metrics
        return Message(message.content, reply_to=message)

    return app


def record_of(model: Model) -> ArrayRecord:
    return ArrayRecord({key: Array(np.asarray(each)) for key, each in model.items()})


def in_memory(
    algorithm: str,
    settings: dict[str, Any],
    n_rounds: int,
    absent: Sequence[tuple[int, int]] = (),
    weights: Sequence[int] | None = None,
) -> tuple[Model, Any, list[Any]]:
    """Return the model, states and results of rounds by `fediac.aggregate`.

    Args:
        absent: (round, client), both as `aggregate` numbers them.
        weights: How much clients count; None: all the same.
    """
    model: Model = start()
    states: Any = None
    history = []
    for number in range(1, n_rounds + 1):
        models = [
            None if (number, client) in absent else trained(model, client)
            for client in range(N_CLIENTS)
        ]
        counted = None
        if weights is not None:
            present = zip(models, weights, strict=True)
            counted = [None if each is None else weight for each, weight in present]
        result = fediac.aggregate(
            models,
            find(algorithm)(N_CLIENTS, **settings),
            base=model,
            seed=SEED,
            round_number=number,
            states=states,
            weights=counted,
        )
        model, states = result.model, result.states
        history.append(result)
    return model, states, history
