"""The captured program in plain operators, for delegates that know none of ours.

Attention becomes products, a finite mask and a softmax, in an order in which float16 holds every
value. Every new node takes the source lines and the module path of the node that it replaces.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.errors import DelegateError
from delegates.features import Feature
from delegates.limits import export_with
from delegates.passes.graph import call_like
from delegates.source_lines import source_line

CACHED_ATTENTION = "thimble.cached_attention.default"
SHARED_ATTENTION = "thimble.shared_attention.default"

_OF_SHARED = 6  # arguments after the queries, up to the soft cap

# Added to the score of a position that must not be seen. Float16 ends at 65504: a score may be
# down to -35504 before the sum overflows, and exp(-30000 - largest score) is 0.
MASKED = -30000.0

_aten = torch.ops.aten


class Positions(NamedTuple):
    """The positions of this call's tokens.

    Attributes:
        start: the graph's first position, a number.
        seq_len: how many tokens: a node or, where it is fixed, a number.
        each: the positions, integers (seq_len,).
    """

    start: Node
    seq_len: Node | int
    each: Node


class AttentionArguments(NamedTuple):
    """The arguments of a `thimble::cached_attention`."""

    query: Node
    key: Node
    value: Node
    key_cache: Node
    value_cache: Node
    start_pos: Node
    scale: float
    window: int | None = None
    soft_cap: float | None = None
    sinks: Node | None = None
    int8: bool = False


def attention_arguments(node: Node) -> AttentionArguments:
    return AttentionArguments(*cast(tuple[Any, ...], node.args))


def shared_arguments(node: Node) -> AttentionArguments:
    """Those of a `thimble::shared_attention`, which has no keys and values of its own: the queries
    are in their places."""
    query, *others = cast(tuple[Any, ...], node.args)
    return AttentionArguments(query, query, query, *others[:_OF_SHARED])


def _takers(feature: Feature) -> str:
    return export_with(lambda limits: feature in limits.supports)


def refuse_windows(delegate: str, program: ExportedProgram) -> None:
    """Raises DelegateError if an attention has a sliding window."""
    for node in program.graph.nodes:
        if str(node.target) == CACHED_ATTENTION and attention_arguments(node).window is not None:
            raise DelegateError(
                f"{delegate} has no attention over a sliding window ({source_line(node)}, window "
                f"{attention_arguments(node).window}): {_takers(Feature.WINDOWS)}, or "
                f"{Feature.WINDOWS.advice}."
            )


def refuse_caps_and_sinks(delegate: str, program: ExportedProgram) -> None:
    """Raises DelegateError if an attention has a soft cap or sinks."""
    for node in program.graph.nodes:
        if str(node.target) != CACHED_ATTENTION:
            continue
        given = attention_arguments(node)
        for what, has, feature in (
            (f"the soft cap {given.soft_cap}", given.soft_cap is not None, Feature.SOFT_CAPS),
            ("sinks", given.sinks is not None, Feature.SINKS),
        ):
            if has:
                raise DelegateError(
                    f"{delegate}'s operator has no attention with {what} ({source_line(node)}): "
                    f"{_takers(feature)}."
                )


# Given a node to stand in for, the positions, the cache's length and a window or None: float
# (seq_len, context), 0 where a query may look, MASKED after its own position and before its window.
Mask = Callable[[Node, Positions, int, int | None], Node]
# Given a node to stand in for, the positions, a cache (1, heads, context, head_dim) and this call's
# rows (1, heads, seq_len, head_dim): the cache with the rows in their places.
Write = Callable[[Node, Positions, Node, Node], Node]


def positions_of(program: ExportedProgram) -> Positions:
    """Adds the positions of this call's tokens right after the first position is known."""
    graph = program.graph
    (start,) = graph.find_nodes(op="call_function", target=_aten.item.default)
    tokens = next(node for node in graph.find_nodes(op="placeholder") if node.name == "tokens")
    with graph.inserting_before(start.next):
        seq_len = call_like(start, _aten.sym_size.int, tokens, 1)
        steps = call_like(start, _aten.arange.default, seq_len)
        expected = call_like(start, _aten.add.Tensor, steps, start)
    return Positions(start, seq_len, expected)


def gather_rope(program: ExportedProgram, positions: Positions) -> int:
    """Reads the rotary tables by position, in place; returns how many reads there were.

    Core ML cannot infer the size of a slice from an unknown start before it runs.
    """
    graph = program.graph
    slices = [
        node
        for node in graph.find_nodes(op="call_function", target=_aten.narrow.default)
        if node.args[1] == 0 and node.args[2] is positions.start
    ]
    for node in slices:
        with graph.inserting_before(node):
            rows = call_like(node, _aten.index_select.default, node.args[0], 0, positions.each)
        node.replace_all_uses_with(rows)
        graph.erase_node(node)
    program.graph_module.recompile()
    return len(slices)


def mask_by_number(
    node: Node, positions: Positions, context: int | Node, window: int | None
) -> Node:
    """The causal mask, with positions compared as integers: float16 is exact only up to 2048."""
    rows = call_like(node, _aten.unsqueeze.default, positions.each, 1)
    columns = call_like(node, _aten.arange.default, context)
    hidden = call_like(node, _aten.gt.Tensor, columns, rows)
    if window is not None:
        first = call_like(node, _aten.sub.Tensor, rows, window)
        before = call_like(node, _aten.le.Tensor, columns, first)
        hidden = call_like(node, _aten.logical_or.default, hidden, before)
    number = call_like(node, _aten.to.dtype, hidden, torch.float32)
    return call_like(node, _aten.mul.Tensor, number, MASKED)


def write_slice(node: Node, positions: Positions, cache: Node, rows: Node) -> Node:
    """Writes rows to the cache as one slice, which Core ML does in place in its state."""
    end = call_like(node, operator.add, positions.start, positions.seq_len)
    return call_like(node, _aten.slice_scatter.default, cache, rows, 2, positions.start, end)


def rewrite_attention(
    program: ExportedProgram,
    positions: Positions,
    mask: Mask = mask_by_number,
    write: Write = write_slice,
) -> int:
    """Replaces every cached attention in place; returns how many there were.

    The caches change their layout from (1, context, heads, head_dim) to (1, heads, context,
    head_dim), in which both products read them without a transposition. Queries are scaled before
    their product with the keys, and the mask is a finite number added to the scores.
    """
    graph = program.graph
    nodes = [node for node in graph.nodes if str(node.target) == CACHED_ATTENTION]
    masks: dict[int | None, Node] = {}
    for node in nodes:
        given = attention_arguments(node)
        with graph.inserting_before(node):
            if given.window not in masks:
                context = given.key_cache.meta["val"].shape[1]
                masks[given.window] = mask(node, positions, context, given.window)
            for cache in (given.key_cache, given.value_cache):
                swap_cache_layout(program, cache)
            out = _attention(node, positions, masks[given.window], write)
        node.replace_all_uses_with(out)
        graph.erase_node(node)
    program.graph_module.recompile()
    return len(nodes)


def _attention(node: Node, positions: Positions, masks: Node, write: Write) -> Node:
    given = attention_arguments(node)
    query, key, value, key_cache, value_cache, _, scale, _, cap, sinks, _ = given
    seq_len = positions.seq_len
    heads, head_dim = query.meta["val"].shape[2:]
    kv_heads = key.meta["val"].shape[2]
    group = heads // kv_heads
    keys = _updated(node, positions, key_cache, key, write)
    values = _updated(node, positions, value_cache, value, write)

    # The queries that share a key head are stacked: one product for all of them.
    scaled = call_like(node, _aten.mul.Tensor, query, scale if cap is None else scale / cap)
    split = call_like(node, _aten.view.default, scaled, [seq_len, kv_heads, group, head_dim])
    by_head = call_like(node, _aten.permute.default, split, [1, 2, 0, 3])
    stacked = call_like(node, _aten.reshape.default, by_head, [kv_heads, -1, head_dim])
    turned = call_like(node, _aten.transpose.int, keys, 1, 2)
    products = call_like(node, _aten.matmul.default, stacked, turned)
    context = key_cache.meta["val"].shape[2]
    scores = call_like(node, _aten.view.default, products, [kv_heads, group, seq_len, context])
    if cap is not None:
        bounded = call_like(node, _aten.tanh.default, scores)
        scores = call_like(node, _aten.mul.Tensor, bounded, cap)
    masked = call_like(node, _aten.add.Tensor, scores, masks)
    weights = _softmax(node, masked, sinks, kv_heads)
    flat = call_like(node, _aten.view.default, weights, [kv_heads, -1, context])
    mixed = call_like(node, _aten.matmul.default, flat, values)
    unstacked = call_like(node, _aten.view.default, mixed, [kv_heads, group, seq_len, head_dim])
    by_token = call_like(node, _aten.permute.default, unstacked, [2, 0, 1, 3])
    return call_like(node, _aten.reshape.default, by_token, [1, seq_len, heads, head_dim])


def _softmax(node: Node, scores: Node, sinks: Node | None, kv_heads: int) -> Node:
    """Of scores (kv_heads, group, seq_len, context), each head's sink among them."""
    if sinks is None:
        return call_like(node, _aten.softmax.int, scores, -1)
    sink = call_like(node, _aten.view.default, sinks, [kv_heads, -1, 1, 1])
    largest = call_like(node, _aten.amax.default, scores, [-1], True)
    largest = call_like(node, _aten.maximum.default, largest, sink)
    weights = call_like(node, _aten.exp.default, call_like(node, _aten.sub.Tensor, scores, largest))
    of_sink = call_like(node, _aten.exp.default, call_like(node, _aten.sub.Tensor, sink, largest))
    total = call_like(node, _aten.sum.dim_IntList, weights, [-1], True)
    total = call_like(node, _aten.add.Tensor, total, of_sink)
    return call_like(node, _aten.div.Tensor, weights, total)


def _updated(node: Node, positions: Positions, cache: Node, new: Node, write: Write) -> Node:
    """The cache (kv_heads, context, head_dim) after this call's rows are written to it."""
    rows = call_like(node, _aten.transpose.int, new, 1, 2)
    whole = write(node, positions, cache, rows)
    call_like(node, _aten.copy_.default, cache, whole)
    return call_like(node, _aten.select.int, whole, 0, 0)


def swap_cache_layout(program: ExportedProgram, cache: Node) -> None:
    """From (1, context, heads, head_dim) to (1, heads, context, head_dim), in place."""
    name = program.graph_signature.inputs_to_buffers[cache.name]
    store = program.state_dict if name in program.state_dict else program.constants
    store[name] = store[name].transpose(1, 2).contiguous()
    fake_mode = cache.meta["val"].fake_mode
    cache.meta["val"] = fake_mode.from_tensor(store[name], static_shapes=True)
