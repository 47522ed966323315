"""A Flower app in this process: nodes with contexts, and a grid to them."""

import copy
import itertools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

Fault = Callable[[int, Message], str | None]
"""(node, message) -> ``lost``: never answered; ``error``; None: as it should be."""


@dataclass
class LocalGrid(Grid):
    """Nodes are numbered; each has a context, which a test may throw away.

    Attributes:
        fault: What goes wrong.
        node_config: Node -> what its config has beside the usual.
        contexts: Node -> its context, once it was needed.
        sent: All messages to nodes.
        run_config: The app's config.
        is_threaded: Nodes work at the same time, each in a thread.
    """

    app: ClientApp
    n_nodes: int = 4
    fault: Fault = lambda _node, _message: None
    node_config: dict[int, dict[str, str]] = field(default_factory=dict)
    contexts: dict[int, Context] = field(default_factory=dict)
    sent: list[Message] = field(default_factory=list)
    is_threaded: bool = False
    run_config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self._numbers = itertools.count(1)
        self._replies: dict[str, Message] = {}

    def context(self, node: int) -> Context:
        if node not in self.contexts:
            config = {"partition-id": node - 1, **self.node_config.get(node, {})}
            self.contexts[node] = Context(
                run_id=1,
                node_id=node,
                node_config=config,  # type: ignore[arg-type] # plain values
                state=RecordDict(),
                run_config=self.run_config,
            )
        return self.contexts[node]

    def set_run(self, run: object) -> None:
        pass

    @property
    def run(self) -> object:
        return None

    def create_message(self, *args: object, **kwargs: object) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(range(1, self.n_nodes + 1))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        numbers = []
        for message in messages:
            number = str(next(self._numbers))
            numbers.append(number)
            metadata = copy.copy(message.metadata)
            self.sent.append(_message(copy.deepcopy(message.content), metadata))
            node = message.metadata.dst_node_id
            fault = self.fault(node, message)
            if fault == "lost":
                continue
            metadata.__dict__["_message_id"] = number
            got = _message(copy.deepcopy(message.content), metadata)
            self._start(number, node, got, fault)
        return numbers

    def _start(
        self, number: str, node: int, message: Message, fault: str | None
    ) -> None:
        def work() -> None:
            self._replies[number] = self._answer(node, message, fault)

        self.context(node)
        if self.is_threaded:
            threading.Thread(target=work, daemon=True).start()
        else:
            work()

    def _answer(self, node: int, message: Message, fault: str | None) -> Message:
        if fault == "error":
            return Message(Error(0, "as the test says"), reply_to=message)
        return self.app(message, self.context(node))

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = sorted(set(message_ids) & set(self._replies), key=int)
        return [self._replies.pop(number) for number in found]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        del timeout
        return self.pull_messages(self.push_messages(messages))


def _message(content: RecordDict, metadata: Any) -> Message:
    return Message(content, metadata=metadata)  # type: ignore[call-overload] # internal
