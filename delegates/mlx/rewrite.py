"""The first pass: the captured program's attention in ExecuTorch's own operators for MLX."""

import operator

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.passes.attention import (
    CACHED_ATTENTION,
    attention_arguments,
    mask_by_number,
    positions_of,
    refuse_caps_and_sinks,
    swap_cache_layout,
)
from delegates.passes.graph import call_like

_aten = torch.ops.aten


def rewrite_attention(program: ExportedProgram) -> int:
    """Replaces every cached attention in place; returns how many there were.

    It becomes `mlx::kv_cache_update` twice and `mlx::custom_sdpa`, both of which want heads before
    positions: the caches change their layout to (1, heads, context, head_dim). A window becomes a
    mask, of the positions up to the call's last. Importing MLX's package, which defines the
    operators, is the caller's.
    """
    refuse_caps_and_sinks("MLX", program)
    graph = program.graph
    nodes = [node for node in graph.nodes if str(node.target) == CACHED_ATTENTION]
    windows = {attention_arguments(node).window for node in nodes}
    positions = positions_of(program) if windows - {None} else None
    masks: dict[int | None, Node | None] = {None: None}
    for node in nodes:
        given = attention_arguments(node)
        query, key, value, key_cache, value_cache, start_pos, scale, window, *_ = given
        with graph.inserting_before(node):
            for cache, new in ((key_cache, key), (value_cache, value)):
                swap_cache_layout(program, cache)
                rows = call_like(node, _aten.transpose.int, new, 1, 2)
                call_like(node, torch.ops.mlx.kv_cache_update.default, cache, rows, start_pos)
            if positions is not None and window not in masks:
                end = call_like(node, operator.add, positions.start, positions.seq_len)
                masks[window] = mask_by_number(node, positions, end, window)
            mask = masks[window]
            turned = call_like(node, _aten.transpose.int, query, 1, 2)
            out = call_like(
                node,
                torch.ops.mlx.custom_sdpa.default,
                *(turned, key_cache, value_cache, start_pos),
                mask,
                0.0,  # dropout_p
                mask is None,  # is_causal: a mask already contains it
                scale,
            )
            by_token = call_like(node, _aten.transpose.int, out, 1, 2)
        node.replace_all_uses_with(by_token)
        graph.erase_node(node)
    program.graph_module.recompile()
    return len(nodes)
