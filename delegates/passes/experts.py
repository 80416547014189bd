"""Mixtures of experts in plain operators, for delegates that know none of ours.

Every expert computes all rows; where it was not chosen its output is multiplied by 0. Every new
node takes the source lines and the module path of the node that it replaces.
"""

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.passes.graph import call_like

EXPERTS = "thimble.experts.default"
_LEAST_SUM = 1e-6  # what is added to a sum of sigmoids
_LOWEST = -65504.0  # in float16, which has no -inf to clamp at; no gate opens there
_PARTS = 3  # matrices of an expert: gate, up and down

_aten = torch.ops.aten


class ExpertsArguments(NamedTuple):
    """The arguments of a `thimble::experts`."""

    input: Node
    scores: Node
    weights: Sequence[Node]
    scales: Sequence[Node]
    biases: Sequence[Node]
    up_type: Sequence[int]
    down_type: Sequence[int]
    num_experts_per_tok: int
    normalized: bool
    activation: str
    limit: float | None = None
    sigmoid: bool = False
    choice_bias: Node | None = None
    share_scale: float = 1.0


def expand_experts(program: ExportedProgram) -> int:
    """Replaces every mixture in place, by linears as the model's others are, and what routes rows;
    returns how many there were."""
    graph = program.graph
    nodes = [node for node in graph.nodes if str(node.target) == EXPERTS]
    for node in nodes:
        given = ExpertsArguments(*cast(tuple[Any, ...], node.args))
        with graph.inserting_before(node):
            shares = _shares(node, given)
            total: Node | None = None
            for number in range(len(given.weights) // _PARTS):
                share = call_like(node, _aten.narrow.default, shares, -1, number, 1)
                out = call_like(node, _aten.mul.Tensor, _expert(node, given, number), share)
                total = out if total is None else call_like(node, _aten.add.Tensor, total, out)
        assert total is not None
        total.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(total)
        graph.erase_node(node)
    program.graph_module.recompile()
    return len(nodes)


def _shares(node: Node, given: ExpertsArguments) -> Node:
    """Each row's weights of all experts, (..., num_experts); 0 of those that it does not use."""

    def call(target: Any, *args: Any) -> Node:
        return call_like(node, target, *args)

    scores, count = given.scores, given.num_experts_per_tok
    likely = scores
    if given.sigmoid:
        likely = call(_aten.sigmoid.default, scores)
    elif not given.normalized:
        likely = call(_aten.softmax.int, scores, -1)
    ranked = likely
    if given.choice_bias is not None:
        ranked = call(_aten.add.Tensor, likely, given.choice_bias)
    best = call(_aten.topk.default, ranked, count, -1, True, True)
    chosen = call(operator.getitem, best, 1)
    if given.sigmoid:
        weights = call(_aten.gather.default, likely, -1, chosen)
        if given.normalized:
            sum = call(_aten.sum.dim_IntList, weights, [-1], True)
            weights = call(_aten.div.Tensor, weights, call(_aten.add.Tensor, sum, _LEAST_SUM))
        weights = call(_aten.mul.Tensor, weights, given.share_scale)
    else:
        weights = call(operator.getitem, best, 0)
        if given.normalized:
            weights = call(_aten.softmax.int, weights, -1)
    nothing = call(_aten.mul.Tensor, scores, 0.0)
    return call(_aten.scatter.src, nothing, -1, chosen, weights)


def _expert(node: Node, given: ExpertsArguments, number: int) -> Node:
    """What one expert makes of all rows."""

    def call(target: Any, *args: Any, like: Node) -> Node:
        made = call_like(node, target, *args)
        made.meta["val"] = like.meta["val"]
        return made

    first = number * _PARTS
    gate = _linear(node, given, first, given.input, given.up_type)
    up = _linear(node, given, first + 1, given.input, given.up_type)
    if given.limit is not None:
        gate = call(_aten.clamp.default, gate, _LOWEST, given.limit, like=gate)
        up = call(_aten.clamp.default, up, -given.limit, given.limit, like=up)
        up = call(_aten.add.Tensor, up, 1.0, like=up)
    if given.activation == "quick_gelu":
        slope = call(_aten.mul.Tensor, gate, 1.702, like=gate)
        slope = call(_aten.sigmoid.default, slope, like=gate)
        active = call(_aten.mul.Tensor, gate, slope, like=gate)
    elif given.activation == "relu2":
        cut = call(_aten.relu.default, gate, like=gate)
        active = call(_aten.mul.Tensor, cut, cut, like=gate)
    else:
        target = {"silu": _aten.silu.default, "relu": _aten.relu.default}
        active = call(target.get(given.activation, _aten.gelu.default), gate, like=gate)
        if given.activation == "gelu_tanh":
            active.kwargs = {"approximate": "tanh"}
    inner = call(_aten.mul.Tensor, active, up, like=up)
    return _linear(node, given, first + 2, inner, given.down_type)


def _linear(node: Node, given: ExpertsArguments, which: int, x: Node, type: Sequence[int]) -> Node:
    """One of the matrices times x, quantized as the model's linears are."""
    weight = given.weights[which]
    bias = given.biases[which] if given.biases else None
    if given.scales:
        arguments = (x, weight, given.scales[which], bias, *type)
        made = call_like(node, torch.ops.thimble.linear.default, *arguments)
    else:
        made = call_like(node, _aten.linear.default, x, weight, *([] if bias is None else [bias]))
    rows, known = weight.meta["val"].shape[0], x.meta["val"]
    made.meta["val"] = known.new_empty((*known.shape[:-1], rows))
    return made
