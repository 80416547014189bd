"""Rounds the weights of convolutions, and moves their biases by what that adds to their outputs on
average (Nagel et al., 2019): thin layers, as depthwise ones, are off by as much in every place."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from delegates.passes.graph import arguments
from exporter.module.round_weights import MOST, Products, rounded

_aten = torch.ops.aten
_CONVOLUTIONS = _aten.conv1d.default, _aten.conv2d.default


class _Noting(nn.Module):
    """Passes a convolution's input on, and notes the mean by channel, and the products of a thin
    one. The observer there cannot tell: others may share it, such as a pooling's before and behind.
    """

    def __init__(self, products: Products | None) -> None:
        super().__init__()
        self.products = products
        self.total: Tensor | None = None
        self.count = 0

    def forward(self, x: Tensor) -> Tensor:
        sums = x.double().sum([dim for dim in range(x.dim()) if dim != 1])
        self.total = sums if self.total is None else self.total + sums
        self.count += x.numel() // x.shape[1]
        if self.products is not None:
            self.products.add(x)
        return x


@contextmanager
def rounding_weights(prepared: GraphModule) -> Iterator[None]:
    """Within it, a module that PT2E has prepared is calibrated; at the end, its weights are rounded
    and its biases moved."""
    seen: dict[Node, _Noting] = {}
    for node in list(prepared.graph.nodes):
        is_observed = node.target in _CONVOLUTIONS and all(
            _observer(prepared, node.args[index]) is not None for index in (0, 1)
        )
        if is_observed:
            seen[node] = _Noting(_products(prepared, node))
            _note(prepared, node, seen[node])
    prepared.recompile()
    try:
        yield
    finally:
        for node in seen:
            _note_no_more(prepared, node)
        prepared.recompile()
    read_by = Counter(_bias_name(node) for node in seen)
    for node, one in seen.items():
        if one.total is not None and read_by[_bias_name(node)] == 1:
            _round(prepared, node, one)


def _note(prepared: GraphModule, node: Node, noting: _Noting) -> None:
    name = f"noting_{node.name}"
    prepared.add_submodule(name, noting)
    with prepared.graph.inserting_before(node):
        node.update_arg(0, prepared.graph.call_module(name, (node.args[0],)))


def _note_no_more(prepared: GraphModule, node: Node) -> None:
    noted: Any = node.args[0]
    node.update_arg(0, noted.args[0])
    prepared.graph.erase_node(noted)
    prepared.delete_submodule(str(noted.target))


def _bias_name(node: Node) -> str:
    return str(getattr(node.args[2], "target", "")) if len(node.args) > 2 else ""


def _products(prepared: GraphModule, node: Node) -> Products | None:
    """For a convolution whose outputs have few weights."""
    observed: Any = node.args[1]
    weight = _tensor(prepared, observed.args[0])
    given = arguments(node)
    if weight is None or weight[0].numel() > MOST or isinstance(given["padding"], str):
        return None
    given["kernel"] = list(weight.shape[2:])
    kernel, stride, padding, dilation = (
        _both(given[name], weight.dim() - 2, rest)
        for name, rest in (("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1))
    )
    return Products((kernel, stride, padding, dilation), given["groups"])


def _both(numbers: Any, dims: int, rest: int) -> tuple[int, ...]:
    """A number for each side of a picture; a sound is one of one line."""
    values = [numbers] if isinstance(numbers, int) else list(numbers)
    values = values * dims if len(values) == 1 else values
    return (rest,) * (2 - dims) + tuple(values)


def _observer(prepared: GraphModule, node: Any) -> Any:
    """The part that observes what a node passes on."""
    is_part = isinstance(node, Node) and node.op == "call_module"
    return prepared.get_submodule(str(node.target)) if is_part else None


def _round(prepared: GraphModule, node: Node, seen: _Noting) -> None:
    observer: Any = _observer(prepared, node.args[1])
    observed: Any = node.args[1]
    weight = _tensor(prepared, observed.args[0])
    bias_node: Any = node.args[2] if len(node.args) > 2 else None
    bias = _tensor(prepared, bias_node)
    assert seen.total is not None
    if weight is None or bias is None:
        return
    scales = observer.calculate_qparams()[0].double()
    if not bool(torch.isfinite(scales).all()) or scales.numel() != weight.shape[0]:
        return
    exact, steps = weight.double(), scales.reshape(-1, *[1] * (weight.dim() - 1))
    integers = (exact / steps).round().clamp(-127, 127) * steps
    known = seen.products.total if seen.products is not None else None
    if known is not None and bool(torch.isfinite(known).all()):
        integers = rounded(weight, scales, known)
        _put(prepared, observed.args[0], integers.to(weight.dtype))
    lost, mean = exact - integers, seen.total / seen.count
    groups = mean.numel() // weight.shape[1]
    by_group = lost.flatten(2).sum(2).reshape(groups, -1, weight.shape[1])
    shift = (by_group @ mean.reshape(groups, -1, 1)).flatten()
    _put(prepared, bias_node, bias + shift.to(bias.dtype))


def _put(prepared: GraphModule, node: Node, tensor: Tensor) -> None:
    """Another tensor where a node reads one: the user's module has the same, and keeps it."""
    owner, _, name = str(node.target).rpartition(".")
    setattr(prepared.get_submodule(owner), name, nn.Parameter(tensor, requires_grad=False))


def _tensor(prepared: GraphModule, node: Any) -> Tensor | None:
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    owner, _, name = str(node.target).rpartition(".")
    found: Any = getattr(prepared.get_submodule(owner), name)
    return found if isinstance(found, Tensor) else None
