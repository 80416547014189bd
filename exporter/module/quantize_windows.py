"""Stores a captured module's dense convolutions in int8, a scale a row; windows are rounded as they
are read, so nothing is calibrated."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.op_list.rewrite import sample_of
from delegates.op_list.rewrite.editing import Editing
from delegates.op_list.rewrite.folding import BATCH_NORMS, fold_batch_norm
from delegates.passes.constants import fold_constants
from delegates.passes.graph import arguments
from delegates.passes.weights import copy_graph
from exporter.module.quantize_convolutions import is_of
from quant.rounding.nearest import round_int8

CONVOLUTIONS = torch.ops.aten.conv1d.default, torch.ops.aten.conv2d.default


def dense_of(module: nn.Module, program: ExportedProgram) -> dict[str, nn.Module]:
    """Returns the convolutions that can be stored so, by name: none where sizes other than the
    batch differ from call to call."""
    return {
        name: part
        for name, part in module.named_modules()
        if name
        and isinstance(part, nn.Conv1d | nn.Conv2d)
        and part.groups == 1
        and part.weight.dtype is torch.float32
        and sample_of(program) is not None
    }


@torch.no_grad()
def quantize_windows(program: ExportedProgram, names: Collection[str]) -> ExportedProgram:
    """Returns the program with integers in those convolutions; batch norms behind them are in their
    weights.

    Raises:
        QuantError: a weight is not finite.
    """
    copied = copy_graph(program)
    editing = Editing(copied)
    for node in list(copied.graph.nodes):
        if node.target in CONVOLUTIONS and any(is_of(node, name) for name in names):
            behind = next(iter(node.users))
            is_norm = behind.target in BATCH_NORMS
            _quantize(editing, is_norm and fold_batch_norm(editing, behind) or node)
    editing.finish()
    fold_constants(copied)
    return copied


def _quantize(editing: Editing, node: Node) -> None:
    given: Mapping[str, Any] = arguments(node)
    weight = editing.constants.get(given["weight"])
    if weight is None or given["bias"] is not None and given["bias"] not in editing.constants:
        return
    integers = round_int8(weight.flatten(1), given["weight"].name)
    values, scales = (editing.fresh(node, part) for part in (integers.values, integers.scales))
    kernel = list(weight.shape[2:])
    sides = [
        [*given[name]] * (len(kernel) // len(given[name]))
        for name in ("stride", "padding", "dilation")
    ]
    call = torch.ops.thimble.convolution.default
    bias, x = given["bias"], node.args[0]
    node.replace_all_uses_with(editing.call(node, call, x, values, scales, bias, kernel, *sides))
