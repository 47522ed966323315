"""A model as a graph, in which batch norms are joined with the layers that follow.

A model is traced as `torch.fx` does it: its code runs once with stand-ins for tensors.
Models whose code looks at the values or sizes it gets cannot be traced, and stay as
they are.
"""

import copy
import operator

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from fediac.native import StepKernels
from fediac.training.cuda.convolutions import can_convolve
from fediac.training.cuda.norms import JoinedNorm

_FAILURES = (
    *(RuntimeError, TypeError, ValueError, AttributeError, LookupError),
    *(AssertionError, NotImplementedError),
)
"""Errors of code that is given a stand-in for a tensor."""

_RECTIFIERS = (torch.relu, torch.relu_, functional.relu, functional.relu_)


class _Tracer(fx.Tracer):
    """Traces code that stays in one mode: a graph cannot show a change of modes."""

    def __init__(self) -> None:
        super().__init__()
        self._mode = _mode()

    def create_node(self, *args: object, **options: object) -> fx.Node:
        """Return a node of the graph."""
        if _mode() != self._mode:
            raise RuntimeError("a part of the model has a mode of its own")
        return super().create_node(*args, **options)  # type: ignore[arg-type] # as given


def _mode() -> tuple[object, ...]:
    return (
        torch.is_grad_enabled(),
        *(torch.is_autocast_enabled(each) for each in ("cuda", "cpu")),
        *(torch.get_autocast_dtype(each) for each in ("cuda", "cpu")),
    )


def trace(module: nn.Module) -> fx.GraphModule | None:
    """Return the module's computation as a graph of its layers, None if it has none.

    The layers are the module's own, so are all parameters and statistics.
    """
    try:
        return fx.GraphModule(module, _Tracer().trace(module))
    except _FAILURES:
        return None


def can_trace(module: nn.Module, inputs: Tensor) -> bool:
    """Return whether a graph of the module computes the same bits as the module.

    Both train on the inputs, as copies. Code may have seen that it gets stand-ins, and
    gone another way.
    """
    own = copy.deepcopy(module).train()
    other = copy.deepcopy(own)
    traced = trace(other)
    if traced is None:
        return False
    with torch.no_grad():
        scores = own(inputs)
        try:
            is_same = torch.equal(traced(inputs), scores)
        except _FAILURES:
            return False
    statistics = zip(own.buffers(), other.buffers(), strict=True)
    return is_same and all(torch.equal(one, two) for one, two in statistics)


def join_norms(traced: fx.GraphModule, kernels: StepKernels | None) -> None:
    """Join batch norms with the addition and the rectifier that follow them."""
    for node in list(traced.graph.nodes):
        norm = _layer(traced, node)
        if type(norm) is nn.BatchNorm2d and _is_usual(norm) and _has_one_input(node):
            _join(traced, _find_run(traced, node), norm, kernels)
    traced.graph.lint()
    traced.recompile()


def narrow_layers(traced: fx.GraphModule) -> list[nn.Module]:
    """Return the layers that do not share their parameters and can use narrow ones.

    They are those whose parameters autocast narrows before it uses them: convolutions
    and linear layers.
    """
    nodes = list(traced.graph.nodes)
    layers = {each for node in nodes if (each := _layer(traced, node)) is not None}
    plain = {each for each in layers if _is_narrowed(each)}
    others = [each for each in traced.modules() if each not in plain]
    used = {id(value) for each in others for value in each.parameters(recurse=False)}
    for node in nodes:
        if node.op == "get_attr":
            used.add(id(_attribute(traced, node)))
    kept = [each for each in traced.modules() if each in plain]
    return [
        each
        for each in kept
        if not any(id(value) in used for value in each.parameters())
    ]


def takes_narrow(traced: fx.GraphModule, layers: list[nn.Module]) -> bool:
    """Return whether inputs go only to such layers, which narrow them."""
    inputs = [each for each in traced.graph.nodes if each.op == "placeholder"]
    return all(_layer(traced, user) in layers for each in inputs for user in each.users)


def _layer(traced: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    """Return the layer that a node calls, if it calls one."""
    return traced.get_submodule(str(node.target)) if node.op == "call_module" else None


def _attribute(traced: fx.GraphModule, node: fx.Node) -> object:
    return operator.attrgetter(str(node.target))(traced)


def _has_hooks(layer: nn.Module) -> bool:
    return any(
        (
            *(layer._forward_hooks, layer._forward_pre_hooks),
            *(layer._backward_hooks, layer._backward_pre_hooks),
        )
    )


def _is_own(layer: nn.Module) -> bool:
    """Return whether the layer may do something other than its class does."""
    return "forward" in vars(layer) or _has_hooks(layer)


def _is_usual(norm: nn.BatchNorm2d) -> bool:
    return (
        norm.affine
        and norm.track_running_stats
        and norm.momentum is not None
        and norm.training
        and not _is_own(norm)
    )


def _is_narrowed(layer: nn.Module) -> bool:
    return type(layer) in (nn.Conv2d, nn.Linear) and not _is_own(layer)


def _has_one_input(node: fx.Node) -> bool:
    return len(node.args) == 1 and not node.kwargs


def _find_run(traced: fx.GraphModule, node: fx.Node) -> list[fx.Node]:
    """Return a batch norm and what may be joined with it: addition, rectifier."""
    user = _only_user(node)
    if user is None:
        return [node]
    if _is_rectifier(traced, user):
        return [node, user]
    after = _only_user(user)
    if after is not None and _is_addition(user, node) and _is_rectifier(traced, after):
        return [node, user, after]
    return [node]


def _only_user(node: fx.Node) -> fx.Node | None:
    users = list(node.users)
    return users[0] if len(users) == 1 else None


def _is_addition(node: fx.Node, norm: fx.Node) -> bool:
    """Return whether a node adds to batch norm's output, and changes nothing else."""
    if node.kwargs or len(node.args) != 2 or len(node.all_input_nodes) != 2:
        return False
    if node.op == "call_method":
        is_in_place = node.target == "add_"
        is_known = node.target in ("add", "add_")
    else:
        is_in_place = node.target is operator.iadd
        is_known = node.target in (operator.add, torch.add, operator.iadd)
    return is_known and (not is_in_place or node.args[0] is norm)


def _is_rectifier(traced: fx.GraphModule, node: fx.Node) -> bool:
    if node.op == "call_module":
        layer = _layer(traced, node)
        return type(layer) is nn.ReLU and not _is_own(layer)
    names = ("relu", "relu_")
    is_method = node.op == "call_method" and node.target in names
    is_function = node.op == "call_function" and node.target in _RECTIFIERS
    return is_method or is_function


def _join(
    traced: fx.GraphModule,
    run: list[fx.Node],
    norm: nn.BatchNorm2d,
    kernels: StepKernels | None,
) -> None:
    """Replace batch norm, addition and rectifier with one layer."""
    node, end = run[0], run[-1]
    before, convolution = _find_convolution(traced, node, kernels)
    inputs = list(node.args if before is None else before.args)
    if len(run) == 3:
        inputs += [each for each in run[1].args if each is not node]
    users = list(end.users)
    # Who uses what is not rectified may change it in place.
    has_two = len(users) > 1 and end is not node
    name = f"joined_{node.name}"
    layer = JoinedNorm(
        norm,
        convolution=convolution,
        rectifies=end is not node,
        has_two=has_two,
        kernels=kernels,
    )
    traced.add_submodule(name, layer.train(norm.training))
    with traced.graph.inserting_after(end):
        joined = traced.graph.call_module(name, tuple(inputs))
    outputs = _take_apart(traced.graph, joined) if has_two else [joined]
    for user, output in zip(
        users, [outputs[0], *outputs[-1:] * (len(users) - 1)], strict=True
    ):
        user.replace_input_with(end, output)
    for each in (*reversed(run), *([] if before is None else [before])):
        traced.graph.erase_node(each)


def _find_convolution(
    traced: fx.GraphModule, node: fx.Node, kernels: StepKernels | None
) -> tuple[fx.Node, nn.Conv2d] | tuple[None, None]:
    """Return the convolution right before a batch norm, if the kernels can do it."""
    (before,) = node.all_input_nodes
    layer = _layer(traced, before)
    if (
        kernels is None
        or kernels.convolutions is None
        or type(layer) is not nn.Conv2d
        or _is_own(layer)
        or not can_convolve(layer)
        or len(before.users) > 1
        or not _has_one_input(before)
    ):
        return None, None
    return before, layer


def _take_apart(graph: fx.Graph, pair: fx.Node) -> list[fx.Node]:
    with graph.inserting_after(pair):
        second = graph.call_function(operator.getitem, (pair, 1))
        first = graph.call_function(operator.getitem, (pair, 0))
    return [first, second]
