"""The ServerApp: FedAvg, as the app's config compresses it; a page in the end."""

from pathlib import Path

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fediac.flower import CompressedStrategy, write_page
from fediacexample.task import Net, load_test
from fediacexample.task import test as test_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and write what came of it."""
    config = context.run_config
    net, examples = Net(), load_test()

    def evaluate(_round: int, arrays: ArrayRecord) -> MetricRecord:
        net.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = test_model(net, examples)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    own = FedAvg(
        fraction_train=float(config["fraction-train"]),
        fraction_evaluate=0.0,
        min_available_nodes=int(config["min-nodes"]),
    )
    strategy = CompressedStrategy.from_config(own, config)
    result = strategy.start(
        grid,
        ArrayRecord(net.state_dict()),
        num_rounds=int(config["num-server-rounds"]),
        timeout=float(config["round-timeout"]),
        evaluate_fn=evaluate,
    )
    if config["page"]:
        write_page(result, Path(str(config["page"])), title="FediAC inside Flower")
