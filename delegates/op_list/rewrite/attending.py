"""Attention of any heads, masks and windows, within each sample or part of it."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.rewrite.editing import Editing, value_of
from delegates.op_list.rewrite.layouts import Layouts
from delegates.op_list.rewrite.places import Placed, concrete
from delegates.passes.graph import arguments

_aten = torch.ops.aten
_CALL = _aten.scaled_dot_product_attention.default
_VIEWS = _aten.view.default, _aten.reshape.default, _aten._unsafe_view.default
_SCALES = _aten.mul.Tensor, _aten.div.Tensor
_PRODUCTS = _aten.matmul.default, _aten.bmm.default


class Mask(NamedTuple):
    """
    Attributes:
        bias: rows (batch, height, keys); None: there is none.
        causal: whether a query sees nothing behind its own place.
        heads, parts: whether each head, each part, has its own.
    """

    bias: Node | None = None
    causal: bool = False
    heads: bool = False
    parts: bool = False


def attend(layouts: Layouts, node: Node) -> Placed | None:
    given = arguments(node)
    placed = layouts.all_placed(node, args_of(node)[:3])
    if given["dropout_p"] or placed is None or any(x.index.dim() != 4 for x in placed):
        return None
    query, key, value = placed
    all_parts, heads, rows, dim = query.index.shape
    keys, parts = key.index.shape[2], all_parts // layouts.samples
    if all_parts % layouts.samples or key.index.shape[0] != all_parts:
        return None
    if key.index.shape != value.index.shape or heads % key.index.shape[1]:
        return None
    scale = dim**-0.5 if given["scale"] is None else given["scale"]
    settled = [_heads(layouts, node, x) for x in placed]
    if any(x is None for x in settled):
        return None
    mask = _mask(layouts, node, query.rows, (parts, heads, rows, keys))
    if mask is None:
        return None
    args: list[Any] = [*settled, float(scale), mask.causal]
    if parts > 1 or mask.bias is not None:
        args += [parts, mask.bias, mask.heads, mask.parts]
    call = layouts.editing.call(node, torch.ops.thimble.full_attention.default, *args)
    out = layouts.editing.call(node, _aten.reshape.default, call, [-1, parts * rows, heads * dim])
    natural = layouts.natural(out, (all_parts, rows, heads, dim))
    return Placed(out, natural.index.transpose(1, 2))


def _heads(layouts: Layouts, node: Node, placed: Placed) -> Node | None:
    """Heads (batch, rows of all parts, heads, head_dim)."""
    parts, heads, rows, dim = placed.index.shape
    behind = placed.moved(_aten.transpose.int, (node, 1, 2), {})
    settled = layouts.rows(node, behind, heads * dim)
    if settled is None:
        return None
    height = parts // layouts.samples * rows
    return layouts.editing.call(node, _aten.reshape.default, settled, [-1, height, heads, dim])


def _mask(
    layouts: Layouts, node: Node, beside: Node, sizes: tuple[int, int, int, int]
) -> Mask | None:
    given = arguments(node)
    mask, causal = given["attn_mask"], bool(given["is_causal"])
    parts, heads, rows, keys = sizes
    if mask is not None and causal:
        return None
    if mask is None and (not causal or rows == keys and parts == 1):
        return Mask(causal=causal)
    if mask is None:
        known: Tensor | None = torch.ones(rows, keys, dtype=torch.bool).tril()
    else:
        known = layouts.table(_without_expand(layouts, mask))
    if known is None:
        return _computed(layouts, node, mask, sizes)
    bias = known.float() if known.dtype is not torch.bool else _as_bias(known)
    if bool((bias == 0).all()):
        return Mask()
    if rows == keys and parts == 1 and _is_causal(bias):
        return Mask(causal=True)
    while bias.dim() < 4:
        bias = bias[None]
    if bias.shape[0] == parts * layouts.samples:
        of_samples = bias.view(layouts.samples, parts, *bias.shape[1:])
        bias = of_samples[0]
        if bool((of_samples != bias).any()):
            return None
    if bias.shape[0] not in (1, parts) or bias.shape[1] not in (1, heads):
        return None
    table = bias.expand(-1, -1, rows, keys).reshape(-1, keys)
    repeated = layouts.settling.repeated(node, table, beside)
    return Mask(repeated, False, bias.shape[1] > 1, bias.shape[0] > 1)


def _without_expand(layouts: Layouts, mask: Any) -> Any:
    while isinstance(mask, Node) and mask.target is _aten.expand.default:
        mask = args_of(mask)[0]
    return mask


def _as_bias(seen: Tensor) -> Tensor:
    return torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)


def _is_causal(bias: Tensor) -> bool:
    rows = bias.shape[-1]
    seen = bias == 0
    if bias.shape[-2] != rows or not bool((seen == torch.ones(rows, rows).tril().bool()).all()):
        return False
    return bool((bias[~seen] <= torch.finfo(torch.float32).min).all())


def _computed(
    layouts: Layouts, node: Node, mask: Node, sizes: tuple[int, int, int, int]
) -> Mask | None:
    """A mask that depends on the inputs, of each sample: (batch, 1 or heads, rows or 1, keys)."""
    value, (parts, heads, rows, keys) = value_of(mask), sizes
    if value is None or value.dim() != 4 or parts != 1:
        return None
    batch, of_heads, of_rows, of_keys = layouts.shape(mask)
    if of_heads not in (1, heads) or of_rows not in (1, rows) or of_keys not in (1, keys):
        return None
    if batch not in (1, layouts.samples):
        return None
    call, biases = layouts.editing.call, layouts.biases
    placed = layouts.of_each_sample(mask) if (of_rows, of_keys) == (rows, keys) else None
    if mask not in biases and placed is not None:
        scores = layouts.rows(node, placed, keys)
        if scores is not None:
            biases[mask] = scores
    if mask not in biases:
        bias = mask
        if value.dtype is torch.bool:
            nothing, hidden = (
                layouts.editing.fresh(node, torch.tensor(x)) for x in (0.0, -torch.inf)
            )
            bias = call(node, _aten.where.self, mask, nothing, hidden)
        elif value.dtype is not torch.float32:
            return None
        size = layouts.sample.meta["val"].shape[0]
        if not isinstance(size, int) or batch != size:
            size = -1 if batch == layouts.samples else size
        if not isinstance(size, int):
            return None
        bias = call(node, _aten.expand.default, bias, [size, of_heads, rows, keys])
        biases[mask] = call(node, _aten.reshape.default, bias, [-1, of_heads * rows, keys])
    return Mask(biases[mask], False, of_heads > 1)


def find_attention(editing: Editing, sample: Node) -> None:
    """Writes softmax(q k^T * scale + mask) v as one call, where it is spelled out."""
    for node in list(editing.graph.nodes):
        if node.target in (_aten.softmax.int, _aten._softmax.default) and _is_heads(node):
            _write_attention(editing, node, sample)
    editing.finish()


def _is_float(node: Any) -> bool:
    """Of any sizes, unlike editing.is_float."""
    value = value_of(node)
    return value is not None and value.dtype is torch.float32


def _is_heads(node: Any) -> bool:
    return _is_float(node) and node.meta["val"].dim() in (3, 4)


def _write_attention(editing: Editing, softmax: Node, sample: Node) -> None:
    product = _only_user(softmax)
    if product is None or product.target not in _PRODUCTS or not _is_heads(product):
        return
    source, dim = args_of(softmax)[:2]
    weights, value = args_of(product)
    if dim not in (-1, softmax.meta["val"].dim() - 1) or _same(weights) is not softmax:
        return
    masks: list[Any] = []
    scale = 1.0
    score = _same(source)
    shapes: list[tuple[Any, Any]] = []  # of scores before and behind each view of them
    while score.target not in _PRODUCTS:
        if score.target in _VIEWS and len(score.users) == 1 and _is_float(args_of(score)[0]):
            viewed = args_of(score)[0]
            shapes.append((list(viewed.meta["val"].shape), list(score.meta["val"].shape)))
            score = _same(viewed)
            continue
        if len(score.users) != 1 or len(score.args) < 2 or score.kwargs:
            return
        left, right = score.args[:2]
        if score.target is _aten.add.Tensor and scale == 1.0:
            scores = [x for x in (left, right) if _leads_to_product(x)]
            if len(scores) != 1:
                return
            mask = right if scores[0] is left else left
            masks.append(_viewed(editing, product, mask, shapes) if shapes else mask)
            if masks[-1] is None:
                return
            score = _same(scores[0])
        elif score.target in _SCALES and isinstance(right, int | float):
            scale = scale * right if score.target is _aten.mul.Tensor else scale / right
            score = _same(left)
        else:
            return
    if str(score.meta["val"].shape) != str(softmax.meta["val"].shape):
        return
    query, turned = args_of(score)
    key = _before_turn(turned)
    if len(score.users) != 1 or key is None or not _is_heads(query) or not _is_heads(value):
        return
    mask = None
    for one in masks:
        if not _is_float(one):
            return
        mask = one if mask is None else editing.call(product, _aten.add.Tensor, mask, one)
    heads = [query, key, value]
    if softmax.meta["val"].dim() == 3:
        count = _heads_of(editing, softmax, sample)
        if not count:
            return
        heads = [_unflattened(editing, product, x, count) for x in heads]
        mask = None if mask is None else _unflattened(editing, product, mask, count)
    call = editing.call(product, _CALL, *heads, mask, 0.0, False, scale=scale)
    if softmax.meta["val"].dim() == 3:
        call = editing.call(product, _aten.flatten.using_ints, call, 0, 1)
    product.replace_all_uses_with(call)


def _viewed(editing: Editing, beside: Node, mask: Any, shapes: list[tuple[Any, Any]]) -> Any:
    """A mask of scores that are then viewed in other shapes, the first of them last; None if a
    size of theirs differs from call to call."""
    if not _is_float(mask):
        return None
    for before, behind in reversed(shapes):
        if not all(isinstance(size, int) for size in before):
            return None
        mask = editing.call(beside, _aten.expand.default, mask, before)
        mask = editing.call(beside, _aten.reshape.default, mask, behind)
    return mask


def _heads_of(editing: Editing, scores: Node, sample: Node) -> int:
    """Of scores (batch * heads, rows, keys); 0 if there are no whole ones."""
    all_heads, batch = concrete(editing, [x.meta["val"].shape[0] for x in (scores, sample)])
    return 0 if all_heads % batch else int(all_heads // batch)


def _unflattened(editing: Editing, beside: Node, x: Node, heads: int) -> Node:
    shape = [-1, heads, *x.meta["val"].shape[1:]]
    return editing.call(beside, _aten.reshape.default, x, shape)


def _same(node: Any) -> Any:
    """A value before what leaves it as it is."""
    while isinstance(node, Node) and node.target in (
        *(_aten.dropout.default, _aten.clone.default, _aten.contiguous.default),
        *(_aten.to.dtype, _aten._to_copy.default, _aten.type_as.default),
    ):
        source = args_of(node)[0]
        value = value_of(source)
        if value is None or value.dtype != node.meta["val"].dtype:
            return node
        node = source
    return node


def _only_user(node: Node) -> Node | None:
    while len(node.users) == 1:
        (user,) = node.users
        if _same(user) is user:
            return user
        node = user
    return None


def _leads_to_product(node: Any) -> bool:
    """Whether a value is scores, perhaps scaled, or with a mask."""
    node = _same(node)
    if not isinstance(node, Node):
        return False
    if node.target in _PRODUCTS:
        return True
    if node.target in _VIEWS:
        return _leads_to_product(node.args[0])
    scaled = node.target in (_aten.mul.Tensor, _aten.div.Tensor, _aten.add.Tensor)
    return scaled and len(node.args) > 1 and any(map(_leads_to_product, node.args[:2]))


def _swaps_last(node: Node) -> bool:
    dims = node.meta["val"].dim()
    return sorted(dim % dims for dim in args_of(node)[1:]) == [dims - 2, dims - 1]


def _before_turn(node: Any) -> Node | None:
    """The keys that are transposed for a product."""
    node = _same(node)
    if not isinstance(node, Node):
        return None
    if node.target is _aten.transpose.int and _swaps_last(node):
        return args_of(node)[0]
    if node.target is _aten.permute.default:
        # A permute of its own: the keys are the same with their last two dimensions swapped.
        with node.graph.inserting_after(node):
            turned = node.graph.call_function(_aten.transpose.int, (node, -2, -1))
        turned.meta = {k: v for k, v in node.meta.items() if k != "val"}
        turned.meta["val"] = node.meta["val"].transpose(-2, -1)
        return turned
    return None
