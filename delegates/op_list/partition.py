"""Which nodes the delegate takes, in as few calls as the rest of the graph allows.

A node that the delegate does not know starts a new level for all that depends on it. The ops of a
level are one call, so no call can depend on itself. All rows of a sequence and single last rows are
in different calls, because a call runs on one number of rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data, tag_mutated_buffer
from torch import Tensor
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from delegates.op_list.graph import Constants, operator_name, shape_of
from delegates.op_list.match import Found, find_ops
from delegates.op_list.ops import (
    Columns,
    Elementwise,
    Embedding,
    Narrow,
    Op,
    SelectLast,
    Values,
    View,
)
from delegates.op_list.payload import BY_SAMPLE, INDEX, SHORTER
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows

_KNOWN = (
    "it computes embeddings, RMSNorm, LayerNorm, linears, attention, pooling, convolutions, "
    "the gated delta rule, recurrent layers, rotations, sums, products, GLUs and activations"
)

_IDLE = View, SelectLast  # a call of nothing else computes nothing


class OpListPartitioner(Partitioner):
    """Tags the nodes of an edge graph that tidy() has prepared.

    Args:
        tensors: the program's weights and constants by name; the programs that partitioners get
            have none.
        backend: the id of the backend that gets the calls.
        by_sample: whether the graph's values are samples of fixed shapes.
        shorter: inputs whose only sample may have fewer rows.

    Attributes:
        reasons: why nodes are left outside, by their names; filled by partition().
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        backend: str,
        by_sample: bool = False,
        shorter: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._shorter = shorter
        self._by_sample = by_sample
        self._is_done = False
        self._tensors = tensors
        self._backend = backend
        self.reasons: dict[str, str] = {}

    def ops_to_not_decompose(self, program: ExportedProgram) -> tuple[list[OpOverload], None]:
        """Of a module's program, until it is partitioned: a linear that is left has a kernel."""
        return [] if self._is_done else [torch.ops.aten.linear.default], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tensors = {**exported_program.state_dict, **self._tensors}
        values = Values(Constants(exported_program, tensors), self._by_sample)
        calls = find_calls(exported_program.graph, values)
        tags = {}
        for index, ops in enumerate(calls.ops):
            tag = f"cpu_{index}"
            specs = [CompileSpec(INDEX, str(index).encode())]
            specs += [CompileSpec(BY_SAMPLE, b"")] if self._by_sample else []
            if self._shorter:
                specs.append(CompileSpec(SHORTER, " ".join(self._shorter).encode()))
            tags[tag] = DelegationSpec(self._backend, specs)
            for op in ops:
                for node in op.nodes:
                    node.meta["delegation_tag"] = tag
        self.reasons.update(calls.reasons)
        self._is_done = True
        _tag_positions(exported_program.graph)
        tag_constant_data(exported_program)
        tag_mutated_buffer(exported_program)
        _leave_rows(calls.ops, values.constants)
        return PartitionResult(exported_program, tags)


@dataclass
class Calls:
    """
    Attributes:
        ops: of each delegate call, calls and ops in the order of the graph.
        reasons: why nodes are in none, by their names; sizes and positions are not among them.
    """

    ops: list[list[Op]] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)


def find_calls(graph: Graph, values: Values) -> Calls:
    result = find_ops(graph, values)
    if values.by_sample:
        _keep_one_input_of_tokens(result)
    grouping = _Grouping(graph, result.ops, values.by_sample)
    grouped = [_without_idle_views(ops) for ops in grouping.calls()]
    calls = Calls([ops for ops in grouped if not all(isinstance(op, _IDLE) for op in ops)])
    if values.by_sample and any(map(_multiplies, calls.ops)):
        calls.ops = [ops for ops in calls.ops if _multiplies(ops)]
    taken = {node for ops in calls.ops for op in ops for node in op.nodes}
    for node in graph.nodes:
        if node.op == "call_function" and node not in taken and shape_of(node):
            calls.reasons[node.name] = _why_left(node, result.refused.get(node))
    return calls


def _multiplies(ops: list[Op]) -> bool:
    """Whether a call does more than what it costs to make one, such as scaling a mask, or what
    nothing else computes."""
    idle = (*_IDLE, Elementwise, Columns, Narrow)
    return any(
        not isinstance(op, idle) or operator_name(op.node).startswith("thimble::") for op in ops
    )


def _keep_one_input_of_tokens(result: Found) -> None:
    """Leaves embeddings of other tokens than the first outside."""
    embeddings = [op for op in result.ops if isinstance(op, Embedding)]
    for op in embeddings:
        if op.tokens is not embeddings[0].tokens:
            result.ops.remove(op)
            result.refused[op.node] = Refused("a call takes the tokens of one input")


def _why_left(node: Node, refused: Refused | None) -> str:
    if refused is not None:
        return refused.reason
    if operator_name(node) in ("aten::view", "aten::select"):
        return "it only passes on a value between operators outside the delegate"
    return f"the delegate has no {operator_name(node).removeprefix('aten::')}; {_KNOWN}"


def call_outputs(ops: list[Op]) -> list[Rows]:
    """Returns the values of a call's ops that are read outside it."""
    inside = {node for op in ops for node in op.nodes}
    return [op.output for op in ops if any(user not in inside for user in op.node.users)]


@dataclass(eq=False)
class _Call:
    """
    Attributes:
        level: of its ops.
        length: how many rows it runs on, as in the graph; _ONE_ROW: a last row that was selected
            outside this call.
    """

    level: int
    length: str
    ops: list[Op] = field(default_factory=list)


_ONE_ROW = "one row"


class _Grouping:
    """Ops of one level and one number of rows are one call."""

    def __init__(self, graph: Graph, ops: list[Op], by_sample: bool) -> None:
        self._graph = graph
        self._by_sample = by_sample
        self._of_node = {node: op for op in ops for node in op.nodes}
        self._calls: dict[tuple[int, str], _Call] = {}
        self._call_of: dict[Rows, _Call] = {}  # which computes a value

    def calls(self) -> list[list[Op]]:
        levels: dict[Node, int] = {}
        later = self._later() if self._by_sample else {}
        for node in self._graph.nodes:
            level = max((levels[source] for source in node.all_input_nodes), default=0)
            op = self._of_node.get(node)
            if op is None and node.op == "call_function" and _computes(node):
                level += 1
            if op is not None and node is op.node:
                level = self._enter(op, max(level, later.get(op, 0)))
            levels[node] = level
        return [call.ops for call in sorted(self._calls.values(), key=lambda call: call.level)]

    def _later(self) -> dict[Op, int]:
        """The levels of ops that may wait for their readers: one call then does the work of two."""
        levels: dict[Node, int] = {}
        for node in self._graph.nodes:
            level = max((levels[source] for source in node.all_input_nodes), default=0)
            computes = node.op == "call_function" and _computes(node)
            levels[node] = level + 1 if node not in self._of_node and computes else level
        waiting: dict[Op, int] = {}
        for node in reversed(self._graph.nodes):
            op = self._of_node.get(node)
            if op is None or node is not op.node:
                continue
            inside = {other for user in node.users if (other := self._of_node.get(user))}
            outside = [user for user in node.users if user not in self._of_node]
            wanted = min((waiting[other] for other in inside), default=levels[node])
            # What is left outside and the outputs of the program wait for no later level.
            last = min(
                (levels[user] - 1 for user in outside if user.op != "output"), default=wanted
            )
            waiting[op] = wanted if wanted <= last else levels[node]
        return waiting

    def _enter(self, op: Op, level: int) -> int:
        """Adds an op to a call; returns the call's level."""
        level, length = self._place(op, level)
        call = self._calls.setdefault((level, length), _Call(level, length))
        call.ops.append(op)
        self._call_of[op.output] = call
        return level

    def _place(self, op: Op, level: int) -> tuple[int, str]:
        if self._by_sample:
            return level, f"{shape_of(op.node)[0]} samples"
        if isinstance(op, Embedding):
            return level, str(shape_of(op.tokens)[1])
        rows = op.reads()[0]
        assert rows.node is not None
        if len(shape_of(rows.node)) > 2:
            return level, str(shape_of(rows.node)[1])
        # Single rows: either all from this level's last rows, or all from outside.
        makers = {call for item in op.reads() if (call := self._here(item, level)) is not None}
        outside = any(self._here(item, level) is None for item in op.reads())
        if not makers:
            return level, _ONE_ROW
        (length, *others) = {call.length for call in makers}
        if others or outside and length != _ONE_ROW:
            return level + 1, _ONE_ROW
        return level, length

    def _here(self, rows: Rows, level: int) -> _Call | None:
        """Returns the call that computes a value, if it is of this level."""
        call = self._call_of.get(rows)
        return call if call is not None and call.level == level else None


def _without_idle_views(ops: list[Op]) -> list[Op]:
    """Drops the views of the call's inputs that are also read outside: they belong outside."""
    kept = list(ops)
    made = {op.output for op in ops}
    for op in ops:  # views of views of inputs are such, too
        if isinstance(op, View) and op.input not in made:
            made.remove(op.output)
    for view in reversed(ops):
        if not isinstance(view, View) or view.output in made:
            continue
        inside = {node for op in kept for node in op.nodes}
        if not view.node.users or any(user not in inside for user in view.node.users):
            kept.remove(view)
    return kept


def _computes(node: Node) -> bool:
    """Whether a node that is left outside needs its inputs to be finished: all but positions."""
    return bool(shape_of(node)) or operator_name(node) not in (
        "aten::_local_scalar_dense",
        "aten::sym_size",
        "add",
    )


def _leave_rows(calls: list[list[Op]], constants: Constants) -> None:
    """Leaves the buffers outside that ops read as rows, and do not keep as a cache or a state."""
    for rows in (rows for ops in calls for op in ops for rows in op.reads()):
        if rows.node is not None and constants.buffer_name(rows.node) is not None:
            rows.node.meta.pop("delegation_tag", None)


def _tag_positions(graph: Graph) -> None:
    """Adds the nodes that read the position to a call, if only that call needs them."""
    for node in graph.nodes:
        if operator_name(node) == "aten::_local_scalar_dense":
            tags = {user.meta.get("delegation_tag") for user in node.users}
            if len(tags) == 1 and None not in tags:
                node.meta["delegation_tag"] = tags.pop()
