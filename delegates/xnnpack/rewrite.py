"""The first pass: the captured program's attention and embedding become stock operators.

`thimble::cached_attention` becomes `llama::update_cache` twice and `llama::custom_sdpa`; the
gather-and-scale of a quantized embedding becomes `quantized_decomposed::embedding_byte` or
`embedding_4bit`. Every new node takes the metadata (source lines, module path) of the node that
it replaces.
"""

import operator
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

CACHED_ATTENTION = "thimble.cached_attention.default"


def rewrite_attention(program: ExportedProgram) -> int:
    """Replaces every cached attention in place; returns how many there were."""
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (defines llama::)

    graph, count = program.graph, 0
    for node in list(graph.nodes):
        if str(node.target) != CACHED_ATTENTION:
            continue
        query, key, value, key_cache, value_cache, start_pos, scale = node.args
        with graph.inserting_before(node):
            _call(node, torch.ops.llama.update_cache.default, key, key_cache, start_pos)
            _call(node, torch.ops.llama.update_cache.default, value, value_cache, start_pos)
            out = _call(
                node,
                torch.ops.llama.custom_sdpa.default,
                query,
                key_cache,
                value_cache,
                start_pos,
                None,  # attn_mask
                0.0,  # dropout
                True,  # is_causal
                scale,
            )
        node.replace_all_uses_with(out)
        graph.erase_node(node)
        count += 1
    program.graph_module.recompile()
    return count


def rewrite_embeddings(program: ExportedProgram) -> int:
    """Replaces every quantized embedding in place; returns how many there were.

    Int8 tables keep their bytes. Tables whose values all fit 4 bits and that have more than one
    scale a row are packed two to a byte, the even column in the high half, as the operator wants.
    """
    import executorch.kernels.quantized  # noqa: F401  (defines the operators)

    graph = program.graph
    for check in graph.find_nodes(
        op="call_function", target=torch.ops.aten._assert_tensor_metadata.default
    ):
        graph.erase_node(check)  # would keep the replaced nodes alive
    gathers = [node for node in graph.nodes if _gathers_int8(node)]
    for gather in gathers:
        scaled = next(_downstream(gather, torch.ops.aten.mul.Tensor))
        scales: Any = next(_upstream(scaled, torch.ops.aten.embedding.default, gather)).args[0]
        rows = next(iter(scaled.users))  # groups flattened back to rows
        table, tokens = cast(tuple[Node, Node], gather.args)
        values = program.state_dict[_buffer_name(program, table)]
        if scales.meta["val"].shape[1] > 1:
            _set_buffer(program, table, pack_int4(values))
            target, limits = torch.ops.quantized_decomposed.embedding_4bit.default, (-8, 7)
        else:
            target, limits = torch.ops.quantized_decomposed.embedding_byte.default, (-128, 127)
        with graph.inserting_before(rows):
            new = _call(rows, target, table, scales, None, *limits, tokens)
        rows.replace_all_uses_with(new)
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return len(gathers)


def pack_int4(values: Tensor) -> Tensor:
    """Two 4-bit values a byte: int8 (rows, columns) in -8..7 to uint8 (rows, columns / 2)."""
    unsigned = (values + 8).to(torch.uint8)
    return unsigned[:, 0::2] << 4 | unsigned[:, 1::2]


def share_activation_quantization(program: ExportedProgram) -> int:
    """Merges equal quantizations of one activation, such as that of q, k and v, in place.

    Works on the edge program; returns how many nodes it removed.
    """
    seen: dict[tuple[Any, ...], Node] = {}
    removed = 0
    for node in list(program.graph.nodes):
        name = getattr(node.target, "__name__", "")
        if node.op != "call_function" or not (node.target is operator.getitem or "affine" in name):
            continue
        key = (node.target, str(node.args), str(node.kwargs))
        if key not in seen:
            seen[key] = node
            continue
        node.replace_all_uses_with(seen[key])
        program.graph.erase_node(node)
        removed += 1
    program.graph_module.recompile()
    return removed


def restore_mutations(program: ExportedProgram) -> int:
    """Gives the operators that write a cache their plain form back, in place, and their debug
    handles with it, which ExecuTorch would drop when it does the same; returns how many.

    Works on the lowered edge program.
    """
    from torch.export._remove_auto_functionalized_pass import unsafe_remove_auto_functionalized_pass

    graph = program.graph
    functional = [node for node in graph.nodes if "auto_functionalized" in str(node.target)]
    mutations = [(node.args[0], node.meta["debug_handle"]) for node in functional]
    unsafe_remove_auto_functionalized_pass(program)
    targets = {target for target, _ in mutations}
    plain = [node for node in program.graph.nodes if node.target in targets]
    for node, (_, debug_handle) in zip(plain, mutations, strict=True):
        node.meta["debug_handle"] = debug_handle
    return len(plain)


def _call(replaced: Node, target: Any, *args: Any) -> Node:
    node = replaced.graph.call_function(target, args)
    node.meta = dict(replaced.meta)
    return node


def _gathers_int8(node: Node) -> bool:
    if node.target is not torch.ops.aten.embedding.default:
        return False
    table = cast(Node, node.args[0])
    return table.op == "placeholder" and table.meta["val"].dtype is torch.int8


def _downstream(node: Node, target: Any) -> Iterator[Node]:
    for user in node.users:
        if user.target is target:
            yield user
        else:
            yield from _downstream(user, target)


def _upstream(node: Node, target: Any, other_than: Node) -> Iterator[Node]:
    for source in node.all_input_nodes:
        if source.target is target and source is not other_than:
            yield source
        elif source is not other_than:
            yield from _upstream(source, target, other_than)


def _buffer_name(program: ExportedProgram, placeholder: Node) -> str:
    return program.graph_signature.inputs_to_buffers[placeholder.name]


def _set_buffer(program: ExportedProgram, placeholder: Node, value: Tensor) -> None:
    program.state_dict[_buffer_name(program, placeholder)] = value
    fake_mode = placeholder.meta["val"].fake_mode
    placeholder.meta["val"] = fake_mode.from_tensor(value, static_shapes=True)
