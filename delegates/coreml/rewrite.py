"""The first pass: the captured program becomes one that Core ML takes whole and float16 survives.

Core ML computes in float16 and with weights alone quantized, so the pass strips the rounding of
activations, writes attention and normalization in operators whose every value fits float16, and
drops the checks of positions, which Core ML cannot express. Every new node takes the metadata
(source lines, module path) of the node that it replaces.
"""

import operator
from typing import Any, NamedTuple, cast

import torch
from torch.export import ExportedProgram
from torch.fx import Node

CACHED_ATTENTION = "thimble.cached_attention.default"

# Added to the score of a position that must not be seen. Float16 ends at 65504: a score may be
# down to -35504 before the sum overflows, and exp(-30000 - largest score) is 0.
MASKED = -30000.0

# Normalization divides by the largest magnitude of a token first: of a token of zeros by the first
# of these, and never by infinity.
_MAGNITUDES = (2.0**-12, 65504.0)

_aten = torch.ops.aten


class Positions(NamedTuple):
    """Where this call's tokens stand: the first position, how many they are, int64 (seq_len,)."""

    start: Node
    seq_len: Node
    each: Node


def drop_checks(program: ExportedProgram) -> None:
    """Removes the assertions on sizes, positions and types, in place."""
    graph = program.graph
    for target in (_aten._assert_scalar.default, _aten._assert_tensor_metadata.default):
        for node in graph.find_nodes(op="call_function", target=target):
            graph.erase_node(node)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def strip_activation_quantization(program: ExportedProgram) -> int:
    """Removes the rounding of activations to int8, in place; returns how many there were."""
    graph, count = program.graph, 0
    for node in list(graph.nodes):
        if str(node.target) != "torchao.dequantize_affine.default":
            continue
        quantized = node.args[0]
        if str(quantized.target) == "torchao.quantize_affine.default":
            node.replace_all_uses_with(quantized.args[0])
            count += 1
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return count


def positions_of(program: ExportedProgram) -> Positions:
    """Adds the positions of this call's tokens right after the start of them is known."""
    graph = program.graph
    (start,) = graph.find_nodes(op="call_function", target=_aten.item.default)
    tokens = next(node for node in graph.find_nodes(op="placeholder") if node.name == "tokens")
    with graph.inserting_before(start.next):
        seq_len = _call(start, _aten.sym_size.int, tokens, 1)
        steps = _call(start, _aten.arange.default, seq_len)
        each = _call(start, _aten.add.Tensor, steps, start)
    return Positions(start, seq_len, each)


def gather_rope(program: ExportedProgram, positions: Positions) -> int:
    """Reads the rotary tables by position, in place; returns how many reads there were.

    A slice from an unknown start has a size that Core ML cannot tell before it runs.
    """
    graph = program.graph
    slices = [
        node
        for node in graph.find_nodes(op="call_function", target=_aten.narrow.default)
        if node.args[1] == 0 and node.args[2] is positions.start
    ]
    for node in slices:
        with graph.inserting_before(node):
            rows = _call(node, _aten.index_select.default, node.args[0], 0, positions.each)
        node.replace_all_uses_with(rows)
        graph.erase_node(node)
    program.graph_module.recompile()
    return len(slices)


def rewrite_attention(program: ExportedProgram, positions: Positions) -> int:
    """Replaces every cached attention in place; returns how many there were.

    The caches change their layout from (1, context, heads, head_dim) to (1, heads, context,
    head_dim), in which both products read them without a transposition. Queries are scaled before
    their product with the keys, and the mask is a finite number added to the scores.
    """
    graph = program.graph
    nodes = [node for node in graph.nodes if str(node.target) == CACHED_ATTENTION]
    for node in nodes:
        caches = cast(tuple[Node, Node], node.args[3:5])
        with graph.inserting_before(node):
            if node is nodes[0]:
                mask = _causal_mask(node, positions, caches[0].meta["val"].shape[1])
            for cache in caches:
                _swap_cache_layout(program, cache)
            out = _attention(node, positions, mask)
        node.replace_all_uses_with(out)
        graph.erase_node(node)
    program.graph_module.recompile()
    return len(nodes)


def _causal_mask(node: Node, positions: Positions, context: int) -> Node:
    """float (seq_len, context): 0 where a query may look, MASKED after its own position."""
    rows = _call(node, _aten.unsqueeze.default, positions.each, 1)
    columns = _call(node, _aten.arange.default, context)
    hidden = _call(node, _aten.gt.Tensor, columns, rows)
    number = _call(node, _aten.to.dtype, hidden, torch.float32)
    return _call(node, _aten.mul.Tensor, number, MASKED)


def _attention(node: Node, positions: Positions, mask: Node) -> Node:
    query, key, value, key_cache, value_cache, _, scale = cast(tuple[Any, ...], node.args)
    seq_len = positions.seq_len
    heads, head_dim = query.meta["val"].shape[2:]
    kv_heads = key.meta["val"].shape[2]
    group = heads // kv_heads
    keys = _written(node, positions, key_cache, key)
    values = _written(node, positions, value_cache, value)

    # The queries that share a key head stand below each other: one product for all of them.
    scaled = _call(node, _aten.mul.Tensor, query, scale)
    split = _call(node, _aten.view.default, scaled, [seq_len, kv_heads, group, head_dim])
    by_head = _call(node, _aten.permute.default, split, [1, 2, 0, 3])
    stacked = _call(node, _aten.reshape.default, by_head, [kv_heads, -1, head_dim])
    turned = _call(node, _aten.transpose.int, keys, 1, 2)
    products = _call(node, _aten.matmul.default, stacked, turned)
    context = key_cache.meta["val"].shape[2]
    scores = _call(node, _aten.view.default, products, [kv_heads, group, seq_len, context])
    masked = _call(node, _aten.add.Tensor, scores, mask)
    weights = _call(node, _aten.softmax.int, masked, -1)
    flat = _call(node, _aten.view.default, weights, [kv_heads, -1, context])
    mixed = _call(node, _aten.matmul.default, flat, values)
    unstacked = _call(node, _aten.view.default, mixed, [kv_heads, group, seq_len, head_dim])
    by_token = _call(node, _aten.permute.default, unstacked, [2, 0, 1, 3])
    return _call(node, _aten.reshape.default, by_token, [1, seq_len, heads, head_dim])


def _written(node: Node, positions: Positions, cache: Node, new: Node) -> Node:
    """The cache (kv_heads, context, head_dim) after this call's rows are written to it."""
    rows = _call(node, _aten.transpose.int, new, 1, 2)
    end = _call(node, operator.add, positions.start, positions.seq_len)
    whole = _call(node, _aten.slice_scatter.default, cache, rows, 2, positions.start, end)
    _call(node, _aten.copy_.default, cache, whole)
    return _call(node, _aten.select.int, whole, 0, 0)


def _swap_cache_layout(program: ExportedProgram, cache: Node) -> None:
    name = program.graph_signature.inputs_to_buffers[cache.name]
    store = program.state_dict if name in program.state_dict else program.constants
    store[name] = store[name].transpose(1, 2).contiguous()
    fake_mode = cache.meta["val"].fake_mode
    cache.meta["val"] = fake_mode.from_tensor(store[name], static_shapes=True)


def rewrite_norms(program: ExportedProgram) -> int:
    """Makes every root-mean-square norm safe in float16, in place; returns how many there were.

    The squares of a hidden state above 255 overflow float16, and real models have such states.
    With m the largest magnitude of a token and y = x / m, which lies in -1 .. 1,

        x / sqrt(mean(x^2) + eps) = y / sqrt(mean(y^2) + (sqrt(eps) / m)^2).
    """
    graph, count = program.graph, 0
    for rsqrt in list(graph.find_nodes(op="call_function", target=_aten.rsqrt.default)):
        matched = _match_norm(rsqrt)
        if matched is None:
            continue
        normed, x, eps = matched
        with graph.inserting_before(normed):
            magnitude = _call(normed, _aten.abs.default, x)
            largest = _call(normed, _aten.amax.default, magnitude, [-1], True)
            largest = _call(normed, _aten.clamp.default, largest, *_MAGNITUDES)
            unit = _call(normed, _aten.div.Tensor, x, largest)
            square = _call(normed, _aten.mul.Tensor, unit, unit)
            mean = _call(normed, _aten.mean.dim, square, [-1], True)
            root = _call(normed, _aten.full.default, [1], eps**0.5)
            ratio = _call(normed, _aten.div.Tensor, root, largest)
            floor = _call(normed, _aten.mul.Tensor, ratio, ratio)
            total = _call(normed, _aten.add.Tensor, mean, floor)
            inverse = _call(normed, _aten.rsqrt.default, total)
            out = _call(normed, _aten.mul.Tensor, unit, inverse)
        normed.replace_all_uses_with(out)
        count += 1
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return count


def share_embedding(program: ExportedProgram) -> int:
    """Reads a 4-bit embedding from Core ML's own 4-bit table, in place; returns how many.

    As captured it gathers bytes, which Core ML would store as such beside a tied head's nibbles.
    An 8-bit table needs no rewriting: Core ML gathers its bytes, and a tied head shares them.
    """
    graph, count = program.graph, 0
    for gather in list(graph.find_nodes(op="call_function", target=_aten.embedding.default)):
        table, tokens = cast(tuple[Node, Node], gather.args)
        scaled = next(iter(gather.users))
        while scaled.target is not _aten.mul.Tensor and len(scaled.users) == 1:
            scaled = next(iter(scaled.users))
        if table.meta["val"].dtype is not torch.int8 or scaled.target is not _aten.mul.Tensor:
            continue
        scales = _gathered_scales(scaled, gather)
        values = program.state_dict[program.graph_signature.inputs_to_buffers[table.name]]
        if values.min() < -8 or values.max() > 7:
            continue
        rows = next(iter(scaled.users))  # groups flattened back to rows
        block = [1, values.shape[1] // scales.meta["val"].shape[1]]
        with graph.inserting_before(rows):
            weight = _call(
                rows,
                torch.ops.torchao.dequantize_affine.default,
                *(table, block, scales, None, torch.int8, -8, 7),
            )
            new = _call(rows, _aten.embedding.default, weight, tokens)
        rows.replace_all_uses_with(new)
        count += 1
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return count


def _gathered_scales(scaled: Node, values: Node) -> Node:
    """The table that the other factor of `scaled` was gathered from."""
    node = cast(Node, scaled.args[1])
    while node.target is not _aten.embedding.default:
        node = cast(Node, node.args[0])
    return cast(Node, node.args[0])


def _match_norm(rsqrt: Node) -> tuple[Node, Node, float] | None:
    """(the product x * rsqrt(mean(x^2) + eps), x, eps) where `rsqrt` is part of such a product."""
    add = cast(Node, rsqrt.args[0])
    if add.target is not _aten.add.Tensor or not isinstance(add.args[1], float):
        return None
    mean = cast(Node, add.args[0])
    if mean.target is not _aten.mean.dim or tuple(mean.args[1:]) != ([-1], True):
        return None
    square = cast(Node, mean.args[0])
    if square.target is not _aten.pow.Tensor_Scalar or square.args[1] != 2:
        return None
    x = cast(Node, square.args[0])
    for user in rsqrt.users:
        if user.target is _aten.mul.Tensor and user.args == (x, rsqrt):
            return user, x, add.args[1]
    return None


def _call(replaced: Node, target: Any, *args: Any) -> Node:
    node = replaced.graph.call_function(target, args)
    source = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node")
    node.meta = {key: replaced.meta[key] for key in source if key in replaced.meta}
    return node
