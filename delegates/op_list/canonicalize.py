"""Readies an edge graph for partitioning, in place: nothing in it computes anything else after.

Assertions on positions and lengths are removed: the delegate checks these itself. Views have -1 as
their length, and every product with rows of a rotary table has its own slice, so that the position
is the only number that one part of the graph passes to another.
"""

from typing import Any

from torch.export import ExportedProgram
from torch.fx import Graph, Node

from delegates.op_list.graph import ROTARY_ROWS, args_of, operator_name, shape_of


def tidy(program: ExportedProgram) -> None:
    graph = program.graph
    for node in list(graph.nodes):
        if operator_name(node) == "aten::_assert_scalar":
            graph.erase_node(node)
        elif operator_name(node) == "aten::view":
            _free_view(node)
    for node in list(graph.nodes):
        if operator_name(node) == "aten::mul":
            _own_table(graph, node)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _free_view(node: Node) -> None:
    """Replaces the sizes of a view by numbers, and its one unknown size by -1."""
    sizes = [size if isinstance(size, int) else -1 for size in shape_of(node)]
    if sizes.count(-1) <= 1 and any(isinstance(size, Node) for size in args_of(node)[1]):
        node.args = (args_of(node)[0], sizes)


def _own_table(graph: Graph, product: Node) -> None:
    """Gives a product of heads its own copy of the slice of a table, which starts at a position."""
    for index, table in enumerate(args_of(product)):
        if not isinstance(table, Node) or not _is_slice(table):
            continue
        with graph.inserting_before(product):
            copy = _copied_slice(graph, table, args_of(product)[1 - index])
        product.update_arg(index, copy)


def _is_slice(node: Node) -> bool:
    """Whether a node is rows of a table, from a position on."""
    if operator_name(node) == ROTARY_ROWS:
        return True
    if operator_name(node) != "aten::slice":
        return False
    return args_of(node)[1] == 0 and isinstance(args_of(node)[2], Node)


def _copied_slice(graph: Graph, table: Node, heads: Node) -> Node:
    """Copies the slice of a table, with the length of the heads (1, seq_len, ...)."""
    if operator_name(table) == ROTARY_ROWS:
        rows, start, length, original = args_of(table)
        if isinstance(length, Node):
            length = _copied(graph, length, (heads, 1))
        return _copied(graph, table, (rows, start, length, original))
    end = args_of(table)[3]
    if isinstance(end, Node) and operator_name(end) == "add":
        start, length = args_of(end)
        if isinstance(length, Node):
            length = _copied(graph, length, (heads, 1))
        end = _copied(graph, end, (start, length))
    before, after = args_of(table)[:3], args_of(table)[4:]
    return _copied(graph, table, (*before, end, *after))


def _copied(graph: Graph, node: Node, args: tuple[Any, ...]) -> Node:
    """Copies a call with other arguments; the copy keeps the line of the model."""
    target: Any = node.target
    copy = graph.call_function(target, args)
    copy.meta = dict(node.meta)
    return copy
