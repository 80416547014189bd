"""Moves the biases of convolutions by what rounding their weights adds to their outputs on average
(Nagel et al., 2019): thin layers, as depthwise ones, are off by as much in every place."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

_aten = torch.ops.aten
_CONVOLUTIONS = _aten.conv1d.default, _aten.conv2d.default


@dataclass
class _Mean:
    """Of a convolution's input, by channel."""

    total: Tensor | None = None
    count: int = 0

    def add(self, x: Tensor) -> None:
        sums = x.double().sum([dim for dim in range(x.dim()) if dim != 1])
        self.total = sums if self.total is None else self.total + sums
        self.count += x.numel() // x.shape[1]


@contextmanager
def correcting_biases(prepared: GraphModule) -> Iterator[None]:
    """Within it, a module that PT2E has prepared is calibrated; its biases are moved at the end."""
    means: dict[Node, _Mean] = {}
    handles = []
    for node in prepared.graph.nodes:
        observer = _observer(prepared, node.args[0]) if node.target in _CONVOLUTIONS else None
        if observer is not None and _observer(prepared, node.args[1]) is not None:
            mean = means[node] = _Mean()
            handles.append(observer.register_forward_hook(_noting(mean)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    read_by = Counter(_bias_name(node) for node in means)
    for node, mean in means.items():
        if mean.total is not None and read_by[_bias_name(node)] == 1:
            _correct(prepared, node, mean.total / mean.count)


def _bias_name(node: Node) -> str:
    return str(getattr(node.args[2], "target", "")) if len(node.args) > 2 else ""


def _noting(mean: _Mean) -> Any:
    return lambda _, args, output: mean.add(output)


def _observer(prepared: GraphModule, node: Any) -> Any:
    """The part that observes what a node passes on."""
    is_part = isinstance(node, Node) and node.op == "call_module"
    return prepared.get_submodule(str(node.target)) if is_part else None


def _correct(prepared: GraphModule, node: Node, mean: Tensor) -> None:
    observer: Any = _observer(prepared, node.args[1])
    observed: Any = node.args[1]
    weight = _tensor(prepared, observed.args[0])
    bias_node: Any = node.args[2] if len(node.args) > 2 else None
    bias = _tensor(prepared, bias_node)
    if weight is None or bias is None:
        return
    scales = observer.calculate_qparams()[0].double().reshape(-1, *[1] * (weight.dim() - 1))
    if not bool(torch.isfinite(scales).all()) or scales.numel() != weight.shape[0]:
        return
    exact = weight.double()
    lost = exact - (exact / scales).round().clamp(-127, 127) * scales
    groups = mean.numel() // weight.shape[1]
    by_group = lost.flatten(2).sum(2).reshape(groups, -1, weight.shape[1])
    shift = (by_group @ mean.reshape(groups, -1, 1)).flatten()
    # The user's module has the same tensor, and keeps it.
    owner, _, name = str(bias_node.target).rpartition(".")
    moved = nn.Parameter(bias + shift.to(bias.dtype), requires_grad=False)
    setattr(prepared.get_submodule(owner), name, moved)


def _tensor(prepared: GraphModule, node: Any) -> Tensor | None:
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    owner, _, name = str(node.target).rpartition(".")
    found: Any = getattr(prepared.get_submodule(owner), name)
    return found if isinstance(found, Tensor) else None
