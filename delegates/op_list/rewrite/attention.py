"""ATen's attention over heads, as attention within each sample."""

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.rewrite.editing import Editing, arguments, is_float, value_of

_aten = torch.ops.aten
_CALL = _aten.scaled_dot_product_attention.default
_SAME = (_aten.clone.default, _aten.view.default, _aten.contiguous.default)


def rewrite_attention(editing: Editing) -> None:
    """Rewrites those whose heads were moved in front of the rows, and without a mask: all is seen,
    or all up to its own place."""
    for node in list(editing.graph.find_nodes(op="call_function", target=_CALL)):
        given = arguments(node)
        mask, dropout, causal = given["attn_mask"], given["dropout_p"], given["is_causal"]
        heads = [_before_transpose(x) for x in args_of(node)[:3]]
        seen = _seen(editing, mask, causal)
        if dropout or seen is None or any(x is None for x in heads):
            continue
        if seen == "causal" and heads[0].meta["val"].shape[1] != heads[1].meta["val"].shape[1]:
            continue
        scale = given["scale"]
        if scale is None:
            scale = heads[0].meta["val"].shape[-1] ** -0.5
        attended = editing.call(
            node, torch.ops.thimble.full_attention.default, *heads, float(scale), seen == "causal"
        )
        back = editing.call(node, _aten.transpose.int, attended, 1, 2)
        for user in list(node.users):
            _read_rows(editing, user, node, attended)
        node.replace_all_uses_with(back)
        editing.graph.erase_node(node)  # which counts as random, and is kept where nothing reads it
    editing.finish()


def _before_transpose(node: Any) -> Any:
    """The heads (batch, seq_len, heads, head_dim) that a node moves in front of the rows."""
    while isinstance(node, Node) and _keeps_shape(node):
        node = args_of(node)[0]
    return args_of(node)[0] if is_float(node, 4) and _moves_heads(node) else None


def _moves_heads(node: Node) -> bool:
    """Whether a node swaps rows and heads."""
    if node.target is _aten.transpose.int:
        return sorted(dim % 4 for dim in args_of(node)[1:]) == [1, 2]
    return node.target is _aten.permute.default and list(args_of(node)[1]) == [0, 2, 1, 3]


def _keeps_shape(node: Node) -> bool:
    source = value_of(args_of(node)[0]) if node.args else None
    value = value_of(node)
    return (
        node.target in _SAME
        and source is not None
        and value is not None
        and tuple(source.shape) == tuple(value.shape)
    )


def _read_rows(editing: Editing, user: Node, before: Node, attended: Node) -> None:
    """Replaces the transposes that move rows in front of heads."""
    if _keeps_shape(user):
        for next_user in list(user.users):
            _read_rows(editing, next_user, user, attended)
    elif _moves_heads(user):
        user.replace_all_uses_with(attended)


def _seen(editing: Editing, mask: Any, causal: Any) -> str | None:
    """What a query sees: all, causal; None if it is something else."""
    if mask is None:
        return "causal" if causal else "all"
    while isinstance(mask, Node) and mask.target is _aten.expand.default:
        mask = mask.args[0]
    known = editing.constants.get(mask)
    if known is None or causal:
        return None
    seen = known if known.dtype is torch.bool else known == 0
    if bool(seen.all()):
        return "all"
    return "causal" if _is_causal(seen, known) else None


def _is_causal(seen: Tensor, known: Tensor) -> bool:
    rows, columns = seen.shape[-2:]
    if rows != columns or not bool((seen == torch.ones(rows, rows).tril().bool()).all()):
        return False
    return known.dtype is torch.bool or bool((known[~seen] <= torch.finfo(known.dtype).min).all())
