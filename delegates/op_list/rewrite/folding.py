"""Batch norms folded into the convolutions and linears before them, in eval mode."""

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.rewrite.editing import Editing, value_of
from delegates.passes.graph import arguments

_aten = torch.ops.aten
BATCH_NORMS = (
    _aten._native_batch_norm_legit_no_training.default,
    _aten.batch_norm.default,
)
_BEFORE = (
    *(_aten.conv1d.default, _aten.conv2d.default, _aten.convolution.default),
    *(_aten.conv1d.padding, _aten.conv2d.padding, _aten.linear.default),
)


def factors(editing: Editing, norm: Node) -> tuple[Tensor, Tensor] | None:
    """What a norm multiplies each channel by, and then adds, in float64; None where its numbers
    are not constants."""
    given, constants = arguments(norm), editing.constants
    center, spread = (constants.get(given[f"running_{part}"]) for part in ("mean", "var"))
    parts = [given[name] for name in ("weight", "bias") if given[name] is not None]
    if center is None or spread is None or given.get("training"):
        return None
    if any(part not in constants for part in parts):
        return None
    factor = (spread.double() + given["eps"]).rsqrt()
    if given["weight"] is not None:
        factor = factor * constants[given["weight"]]
    moved = -center.double() * factor
    if given["bias"] is not None:
        moved = moved + constants[given["bias"]]
    return factor, moved


def fold_batch_norms(editing: Editing) -> None:
    for node in list(editing.graph.nodes):
        if node.target in BATCH_NORMS:
            fold_batch_norm(editing, node)
    editing.finish()


def fold_batch_norm(editing: Editing, norm: Node) -> Node | None:
    """Returns what computes it with the layer before it; None where it stays."""
    source: Any = args_of(norm)[0]
    known = factors(editing, norm)
    if known is None or source.target not in _BEFORE or len(source.users) != 1:
        return None
    given = arguments(source)
    weight, bias = (editing.constants.get(given[name]) for name in ("weight", "bias"))
    if weight is None or given["bias"] is not None and bias is None or given.get("transposed"):
        return None
    if source.target is _aten.linear.default and source.meta["val"].dim() != 2:
        return None  # its channels are others than the norm's
    factor, moved = known
    if bias is not None:
        moved = moved + bias.double() * factor
    scaled = weight.double() * factor.view(-1, *[1] * (weight.dim() - 1))
    given["weight"] = editing.fresh(norm, scaled.to(weight.dtype))
    given["bias"] = editing.fresh(norm, moved.to(weight.dtype))
    named = {"input": args_of(source)[0]} if "input" in given else {}
    args = (given | named).values()
    folded = editing.call(norm, source.target, *args)
    whole = value_of(norm) is not None
    for user in [norm] if whole else list(norm.users):
        if whole or args_of(user)[1] == 0:
            user.replace_all_uses_with(folded)
    return folded
