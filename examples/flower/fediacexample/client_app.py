"""The ClientApp: it trains as any app does; the mod sends what the server asks for."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fediac.flower import compress_mod
from fediacexample.task import Net, load_train
from fediacexample.task import train as train_model

app = ClientApp(mods=[compress_mod])


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the model on this node's examples."""
    net = Net()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    own = load_train(
        int(context.node_config["partition-id"]),
        int(context.node_config["num-partitions"]),
    )
    config = context.run_config
    loss = train_model(
        net, own, epochs=int(config["local-epochs"]), lr=float(config["learning-rate"])
    )
    metrics = MetricRecord({"train-loss": loss, "num-examples": len(own[1])})
    content = {"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}
    return Message(RecordDict(content), reply_to=msg)
