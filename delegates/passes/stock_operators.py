"""The first pass: the captured program's attention and embedding become stock operators.

`thimble::cached_attention` becomes `llama::update_cache` twice and `llama::custom_sdpa`,
`thimble::shared_attention` the last of these;
`thimble::embedding` becomes `quantized_decomposed::embedding_byte` or `embedding_4bit`. Every new
node takes the metadata (source lines, module path) of the node that it replaces.
"""

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.passes.attention import (
    CACHED_ATTENTION,
    SHARED_ATTENTION,
    attention_arguments,
    mask_by_number,
    positions_of,
    shared_arguments,
)
from delegates.passes.graph import call_like
from delegates.passes.quantized import (
    LIMITS,
    OWN,
    PACKED,
    EmbeddingArguments,
    buffer_of,
    expand_embeddings,
    narrowed,
    new_buffer,
)

_ATTENTIONS = {CACHED_ATTENTION: attention_arguments, SHARED_ATTENTION: shared_arguments}


def rewrite_attention(program: ExportedProgram) -> int:
    """Replaces every cached attention in place, a window by a mask; returns how many there were."""
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (defines llama::)

    graph = program.graph
    nodes = [node for node in graph.nodes if str(node.target) in _ATTENTIONS]
    windows = {_ATTENTIONS[str(node.target)](node).window for node in nodes}
    positions = positions_of(program) if windows - {None} else None
    masks: dict[int | None, Node | None] = {None: None}
    for node in nodes:
        given, writes = _ATTENTIONS[str(node.target)](node), str(node.target) == CACHED_ATTENTION
        with graph.inserting_before(node):
            if positions is not None and given.window not in masks:
                context = given.key_cache.meta["val"].shape[1]
                masks[given.window] = mask_by_number(node, positions, context, given.window)
            mask = masks[given.window]
            new_rows = ((given.key, given.key_cache), (given.value, given.value_cache))
            for new, cache in new_rows if writes else ():
                call_like(node, torch.ops.llama.update_cache.default, new, cache, given.start_pos)
            out = call_like(
                node,
                torch.ops.llama.custom_sdpa.default,
                given.query,
                given.key_cache,
                given.value_cache,
                given.start_pos,
                mask,
                0.0,  # dropout
                mask is None,  # is_causal: a mask already contains it
                given.scale,
            )
        node.replace_all_uses_with(out)
        graph.erase_node(node)
    program.graph_module.recompile()
    return len(nodes)


def rewrite_embeddings(program: ExportedProgram) -> int:
    """Replaces every quantized embedding in place; returns how many there were.

    Int8 tables keep their bytes. Tables of 4 bits are packed two to a byte, the even column in the
    high half, as the operator expects.
    """
    import executorch.kernels.quantized  # noqa: F401  (defines the operators)

    return expand_embeddings(program, _stock_embedding)


def _stock_embedding(program: ExportedProgram, node: Node, given: EmbeddingArguments) -> Node:
    operators = torch.ops.quantized_decomposed
    if given.bits == 4:
        target = operators.embedding_4bit.default
        packed = pack_int4(buffer_of(program, given.values))
        table = new_buffer(program, given.values, PACKED, packed)
    else:
        target, table = operators.embedding_byte.default, _own(program, given.values)
    scales = _own(program, given.scales)
    rows = call_like(node, target, table, scales, None, *LIMITS[given.bits], given.tokens)
    return narrowed(node, rows, given)


def _own(program: ExportedProgram, shared: Node) -> Node:
    """Returns a placeholder that only the embedding reads, with the same tensor. If the head read
    it as well, the partitioner would separate the head from the norm before it, because one of its
    constants is read outside."""
    if len(shared.users) == 1:
        return shared
    return new_buffer(program, shared, OWN, buffer_of(program, shared))


def pack_int4(values: Tensor) -> Tensor:
    """Packs two 4-bit values a byte: int8 (rows, columns) in -8..7 to uint8 (rows, columns / 2)."""
    unsigned = (values + 8).to(torch.uint8)
    return unsigned[:, 0::2] << 4 | unsigned[:, 1::2]


def restore_mutations(program: ExportedProgram) -> int:
    """Restores the plain form of the operators that write a cache, in place; returns how many.

    Their debug handles are kept, which ExecuTorch would drop when it does the same.

    Works on the lowered edge program.
    """
    from torch.export._remove_auto_functionalized_pass import unsafe_remove_auto_functionalized_pass

    graph = program.graph
    functional = [node for node in graph.nodes if "auto_functionalized" in str(node.target)]
    mutations = [(node.args[0], node.meta["debug_handle"]) for node in functional]
    unsafe_remove_auto_functionalized_pass(program)
    targets = {target for target, _ in mutations}
    matches = [node for node in program.graph.nodes if node.target in targets]
    for node, (_, debug_handle) in zip(matches, mutations, strict=True):
        node.meta["debug_handle"] = debug_handle
    return len(matches)
