"""Our operators of a quantized model, expanded into the forms that other delegates know.

A captured program holds one `thimble::linear` for each quantized linear and one
`thimble::embedding` for a quantized table (quant/operators.py says what they compute). A delegate
that does not support them expands them in its first pass. Every new node takes the
metadata (source lines, module path) of the node that it replaces.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node

from delegates.errors import DelegateError
from delegates.passes.graph import call_like

LINEAR = "thimble.linear.default"
EMBEDDING = "thimble.embedding.default"
# The endings of the names of buffers that a pass adds.
ZERO_POINTS, PACKED, OWN = "_zero_points", "_packed", "_own"
# Of an integer, by its bits.
LIMITS = {bits: (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (4, 5, 6, 8)}
_INT8 = (torch.int8, -128, 127)

_aten = torch.ops.aten


class LinearArguments(NamedTuple):
    """The arguments of a `thimble::linear`."""

    input: Node
    values: Node
    scales: Node
    bias: Node | None
    bits: int
    group_size: int
    levels: int
    rotated: int = 0


class EmbeddingArguments(NamedTuple):
    """The arguments of a `thimble::embedding`."""

    tokens: Node
    values: Node
    scales: Node
    embedding_dim: int
    bits: int
    group_size: int
    levels: int
    rotated: int = 0


def linears_of(graph: Graph) -> list[Node]:
    """The quantized linears of a captured program."""
    return [node for node in graph.nodes if str(node.target) == LINEAR]


def embeddings_of(graph: Graph) -> list[Node]:
    """The quantized embeddings of a captured program."""
    return [node for node in graph.nodes if str(node.target) == EMBEDDING]


def linear_arguments(node: Node) -> LinearArguments:
    return LinearArguments(*cast(tuple[Any, ...], node.args))


def embedding_arguments(node: Node) -> EmbeddingArguments:
    return EmbeddingArguments(*cast(tuple[Any, ...], node.args))


def expand_linears(program: ExportedProgram, round_activations: bool = True) -> int:
    """Replaces every quantized linear by torchao's composite, in place; returns how many there
    were.

    Linears that read the same input share its rounding.

    Args:
        round_activations: to int8 for each token; otherwise only the weights are quantized.

    Raises:
        DelegateError: one rotates its input, which those forms do not.
    """
    graph = program.graph
    prepared: dict[tuple[Node, int], Node] = {}
    nodes = linears_of(graph)
    for node in nodes:
        given = linear_arguments(node)
        _require_unrotated(node, given)
        columns = given.values.meta["val"].shape[1]
        with graph.inserting_before(node):
            key = (given.input, columns)
            if key not in prepared:
                padded = _padded(node, given.input, columns)
                prepared[key] = _rounded(node, padded, columns) if round_activations else padded
            weight = dequantize(program, node, given.values, given.scales, given.bits)
            bias = () if given.bias is None else (given.bias,)
            new = call_like(node, _aten.linear.default, prepared[key], weight, *bias)
        new.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    program.graph_module.recompile()
    return len(nodes)


def expand_embeddings(
    program: ExportedProgram, expand: Callable[[ExportedProgram, Node, EmbeddingArguments], Node]
) -> int:
    """Replaces every quantized embedding, in place; returns how many there were.

    Args:
        expand: adds the nodes that compute one, before it, and returns the last of them.

    Raises:
        DelegateError: one rotates its rows, which those forms do not.
    """
    graph = program.graph
    nodes = embeddings_of(graph)
    for node in nodes:
        given = embedding_arguments(node)
        _require_unrotated(node, given)
        with graph.inserting_before(node):
            new = expand(program, node, given)
        new.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    drop_unread_buffers(program)
    return len(nodes)


def _require_unrotated(node: Node, given: LinearArguments | EmbeddingArguments) -> None:
    if given.rotated:
        raise DelegateError(
            f"{node.name} is rotated at run time, which this delegate does not support: export "
            "with --method rotation=none, or with --delegate cpu."
        )


def drop_unread_buffers(program: ExportedProgram) -> None:
    """Drops what no node reads, such as the second name of a table that two modules share: it would
    be stored in the file."""
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    specs = program.graph_signature.input_specs
    for spec in list(specs):
        if spec.kind is InputKind.BUFFER and not nodes[spec.arg.name].users:
            specs.remove(spec)
            program.graph.erase_node(nodes[spec.arg.name])
            program.state_dict.pop(str(spec.target), None)
            program.constants.pop(str(spec.target), None)
    program.graph_module.recompile()


def gathered(program: ExportedProgram, node: Node, given: EmbeddingArguments) -> Node:
    """Gathered integers times gathered scales: for `expand_embeddings`."""
    groups = given.scales.meta["val"].shape[1]
    values = call_like(node, _aten.embedding.default, given.values, given.tokens)
    scales = call_like(node, _aten.embedding.default, given.scales, given.tokens)
    by_group = call_like(node, _aten.unflatten.int, values, -1, [groups, -1])
    numbers = call_like(node, _aten.to.dtype, by_group, torch.float32)
    factors = call_like(node, _aten.unsqueeze.default, scales, -1)
    product = call_like(node, _aten.mul.Tensor, numbers, factors)
    return narrowed(node, call_like(node, _aten.flatten.using_ints, product, -2), given)


def from_table(program: ExportedProgram, node: Node, given: EmbeddingArguments) -> Node:
    """Gathered from a dequantized table: for `expand_embeddings`.

    A delegate recognises such a table as a quantized linear's weight, and stores it once if the
    head is tied to it.
    """
    table = dequantize(program, node, given.values, given.scales, given.bits)
    return narrowed(node, call_like(node, _aten.embedding.default, table, given.tokens), given)


def dequantize(program: ExportedProgram, node: Node, values: Node, scales: Node, bits: int) -> Node:
    """torchao's dequantization of a whole weight, with zero points of zero."""
    group = values.meta["val"].shape[1] // scales.meta["val"].shape[1]
    zero_points = _zero_points(program, scales)
    return call_like(
        node,
        _torchao().dequantize_affine.default,
        *(values, [1, group], scales, zero_points, torch.int8, *LIMITS[bits]),
    )


def narrowed(node: Node, rows: Node, given: EmbeddingArguments) -> Node:
    """Rows without the padding of their columns."""
    if given.values.meta["val"].shape[1] == given.embedding_dim:
        return rows
    return call_like(node, _aten.narrow.default, rows, -1, 0, given.embedding_dim)


def _padded(node: Node, x: Node, columns: int) -> Node:
    known = x.meta["val"]
    padding = columns - known.shape[-1]
    if not padding:
        return x
    padded = call_like(node, _aten.pad.default, x, [0, padding])
    # Set here: inferring it from the shapes would fix the length to the example's.
    padded.meta["val"] = known.new_empty((*known.shape[:-1], columns))
    return padded


def _rounded(node: Node, x: Node, columns: int) -> Node:
    """Rounds each token to int8 and back, as torchao does."""
    torchao = _torchao()
    block = [1] * (x.meta["val"].dim() - 1) + [columns]
    choice = call_like(
        node,
        torchao.choose_qparams_affine.default,
        *(x, "ASYMMETRIC", block, *_INT8, None, None, torch.int8),
    )
    scale = call_like(node, operator.getitem, choice, 0)
    zero_point = call_like(node, operator.getitem, choice, 1)
    quantized = call_like(
        node, torchao.quantize_affine.default, x, block, scale, zero_point, *_INT8
    )
    return call_like(
        node, torchao.dequantize_affine.default, quantized, block, scale, zero_point, *_INT8
    )


def _torchao() -> Any:
    """torchao's operators. They are defined on import, which takes a second and more."""
    from torchao.quantization import quant_primitives  # noqa: F401

    return torch.ops.torchao


def _zero_points(program: ExportedProgram, scales: Node) -> Node:
    """The buffer of int8 zeros of the shape of the scales."""
    zeros = torch.zeros(scales.meta["val"].shape, dtype=torch.int8)
    return new_buffer(program, scales, ZERO_POINTS, zeros)


def buffer_of(program: ExportedProgram, placeholder: Node) -> Tensor:
    """The tensor of a buffer's placeholder."""
    return program.state_dict[program.graph_signature.inputs_to_buffers[placeholder.name]]


def new_buffer(program: ExportedProgram, beside: Node, ending: str, tensor: Tensor) -> Node:
    """Returns the placeholder of a new buffer, named after the one next to it; each name is used
    only once."""
    from executorch.backends.transforms.utils import create_constant_placeholder

    with program.graph.inserting_before(beside):
        return create_constant_placeholder(
            program,
            program.graph,
            f"{beside.name}{ending}",
            InputKind.BUFFER,
            tensor,
            persistent_buffer=True,
        )
