"""PyTorch's decomposition of a captured decoder without its two traces of the program, which are a
quarter of an export.

Most operators stay as they are, and are copied. The few others that captured decoders have are
replaced one by one. A program with anything else is PyTorch's to decompose.
"""

import operator
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import SymInt, Tensor
from torch._export.utils import _is_cia_op
from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2
from torch._prims_common import is_contiguous_or_false
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.fx.traceback import NodeSource, NodeSourceAction

_aten = torch.ops.aten
_PASS = "decomposed"
# Views that stay: PyTorch decomposes others, or leaves them out.
_VIEWS = {
    _aten.expand.default,
    _aten.permute.default,
    _aten.select.int,
    _aten.slice.Tensor,
    _aten.split_with_sizes.default,
    _aten.squeeze.dim,
    _aten.transpose.int,
    _aten.unsqueeze.default,
    _aten.view.default,
}
_CHECKS = {_aten._assert_scalar.default, _aten._assert_tensor_metadata.default}
_OURS = "thimble"
_LAYER_NORM = (None, None, None, None, 1e-5)  # its arguments, where they are left out


class _NotHere(Exception):
    """PyTorch must decompose the program."""


class Decomposed(ExportedProgram):
    """A program whose operators to_edge() need not decompose."""

    def run_decompositions(self, *_: object, **__: object) -> ExportedProgram:
        return self


def decomposed(program: ExportedProgram, kept: Collection[Any]) -> ExportedProgram:
    """Returns the program in operators that ExecuTorch's to_edge() leaves as they are, without
    writes in place; or the program itself, for to_edge() to decompose.

    Args:
        program: as torch.export returns it; it stays as it is, and shares its weights.
        kept: operators not to decompose.
    """
    try:
        return _Rewriting(program, kept).result()
    except _NotHere:
        return program


class _Rewriting:
    """Copies the nodes of a program, in order, and replaces some."""

    def __init__(self, program: ExportedProgram, kept: Collection[Any]) -> None:
        self._program = program
        self._table = _replaced_operators() - set(kept)
        self._kept = set(kept)
        self._graph = Graph()
        self._new: dict[Node, Any] = {}  # what now stands for a node; of a buffer, its last state
        self._sizes: dict[Any, Node] = {}  # the nodes of symbolic numbers, by their expression
        self._buffers = _buffers(program)
        self._states: dict[Node, Node] = {}  # of buffers that are written

    def result(self) -> ExportedProgram:
        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                self._copy(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                signature = self._finish(node)
            else:
                raise _NotHere
        self._graph.eliminate_dead_code()
        old = self._program
        module = GraphModule({}, self._graph)
        module.meta.update(old.graph_module.meta)
        return Decomposed(
            root=module,
            graph=self._graph,
            graph_signature=signature,
            state_dict=dict(old.state_dict),
            range_constraints=dict(old.range_constraints),
            module_call_graph=old.module_call_graph,
            example_inputs=old.example_inputs,
            constants=old.constants,
        )

    def _finish(self, output: Node) -> ExportGraphSignature:
        """Adds the output, in which what buffers become is before the rest."""
        old = self._program.graph_signature
        if any(spec.kind is not OutputKind.USER_OUTPUT for spec in old.output_specs):
            raise _NotHere
        states = {
            name: self._states[buffer]
            for buffer, name in self._buffers.items()
            if buffer in self._states
        }
        mutations = [
            OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(name=state.name), name)
            for name, state in states.items()
        ]
        returned: Any = output.args[0]
        if not isinstance(returned, tuple) or not all(
            isinstance(one, Node) and isinstance(self._new[one], Node) for one in returned
        ):
            raise _NotHere
        results = [self._new[one] for one in returned]
        if any(result.op == "placeholder" for result in results):
            raise _NotHere
        self._graph.output((*states.values(), *results))
        users = [
            OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=result.name), None)
            for result in results
        ]
        return ExportGraphSignature(list(old.input_specs), [*mutations, *users])

    def _call(self, node: Node) -> None:
        target, value = node.target, node.meta.get("val")
        if not isinstance(target, torch._ops.OpOverload):
            if isinstance(target, torch._ops.HigherOrderOperator):
                raise _NotHere
            self._copy(node)  # of Python: an item, or a symbolic number
        elif target in _CHECKS or target is _aten.sym_size.int:
            self._copy(node)
        elif target in _RULES:
            _RULES[target](self, node)
        elif target._schema.is_mutable:
            self._write(node, target)
        elif self._stays(target) and isinstance(value, Tensor | tuple | list):
            self._copy(node)
        else:
            raise _NotHere

    def _stays(self, target: Any) -> bool:
        if target in self._kept or target in _VIEWS:
            return True
        if target in self._table or _is_cia_op(target) or target.is_view:
            return False
        return torch.Tag.nondeterministic_seeded not in target.tags

    def _copy(self, node: Node) -> None:
        copied = self._graph.node_copy(node, self._now)
        if node.op == "placeholder":
            copied.name = node.name  # such as `input`, for which a new graph would take another
        self._keep(node, copied)

    def _keep(self, node: Node, new: Node) -> None:
        self._new[node] = new
        if node.op != "placeholder":
            source = NodeSource(node, _PASS, NodeSourceAction.CREATE)
            new.meta["from_node"] = [source]
        value = new.meta.get("val")
        if isinstance(value, SymInt):
            self._sizes.setdefault(value.node.expr, new)

    def _now(self, argument: Any) -> Any:
        return self._new[argument]

    def replace(self, node: Node, target: Any, *args: Any) -> None:
        """Calls another operator for a node, with arguments of the new graph."""
        new = self._graph.create_node("call_function", target, args, {}, node.name)
        new.meta = dict(node.meta)
        self._keep(node, new)

    def arguments(self, node: Node) -> tuple[Any, ...]:
        """The arguments, in the new graph."""
        if node.kwargs:
            raise _NotHere
        arguments: tuple[Any, ...] = map_arg(node.args, self._now)
        return arguments

    def number(self, value: int | SymInt) -> int | Node:
        """What stands for a number in the new graph."""
        if isinstance(value, int):
            return value
        if value.node.expr not in self._sizes:
            raise _NotHere
        return self._sizes[value.node.expr]

    def sum(self, node: Node, first: int | Node, second: int | Node) -> int | Node:
        """The sum of two numbers of the new graph, as `node` needs it."""
        total = _value(first) + _value(second)
        if isinstance(total, int):
            return total
        if total.node.expr not in self._sizes:
            new = self._graph.call_function(operator.add, (first, second))
            new.meta = {**node.meta, "val": total}
            new.meta["from_node"] = [NodeSource(node, _PASS, NodeSourceAction.CREATE)]
            self._sizes[total.node.expr] = new
        return self._sizes[total.node.expr]

    def first_of(self, node: Node, target: Any, *args: Any) -> None:
        """Calls another operator for a node, which is the first of its results."""
        call = self._graph.call_function(target, args)
        value = node.meta["val"]
        with value.fake_mode:
            values = target(*map_arg(args, _value))
        call.meta = {**node.meta, "val": (value, *values[1:])}
        self._keep(node, call)
        self._new[node] = self._result(call, 0)

    def _result(self, call: Node, index: int) -> Node:
        """One of a call's several results."""
        result = self._graph.call_function(operator.getitem, (call, index))
        result.meta = {**call.meta, "val": call.meta["val"][index]}
        return result

    def _write(self, node: Node, target: Any) -> None:
        """Returns what the operator writes, beside its result, as new states of its buffers."""
        schema = target._schema
        if target.namespace != _OURS or node.kwargs or len(schema.returns) != 1:
            raise _NotHere
        given: dict[str, Any] = {}
        places: dict[str, Any] = {}
        written: list[Node] = []
        for index, argument in enumerate(schema.arguments):
            given_here = index < len(node.args)
            value: Any = node.args[index] if given_here else argument.default_value
            if argument.alias_info is None or not argument.alias_info.is_write:
                given[argument.name] = map_arg(value, self._now)
            elif value in self._buffers and value not in written:
                self._check_readers(value)
                places[f"_{argument.name}_base_index"] = len(written)
                written.append(value)
            else:
                raise _NotHere
        given = {**given, **places, "_all_bases": [self._new[buffer] for buffer in written]}
        call = self._graph.call_function(auto_functionalized_v2, (target,), given)
        call.meta = dict(node.meta)
        values = [node.meta["val"], *(buffer.meta["val"] for buffer in written)]
        call.meta["val"] = tuple(values)
        self._keep(node, call)
        results = [self._result(call, index) for index in range(len(values))]
        for stands_for, result in zip((node, *written), results, strict=True):
            self._new[stands_for] = result
        self._states.update(zip(written, results[1:], strict=True))

    def _check_readers(self, buffer: Node) -> None:
        """Only operators of ours may read what is written: none returns a view of it."""
        for reader in buffer.users:
            if getattr(reader.target, "namespace", "") != _OURS:
                raise _NotHere


def _buffers(program: ExportedProgram) -> dict[Node, str]:
    """The nodes of buffers, in order, and their names."""
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    return {
        nodes[spec.arg.name]: spec.target
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.BUFFER and spec.target is not None
    }


def _replaced_operators() -> set[Any]:
    """Those that to_edge() replaces, but for what PyTorch composes in C++."""
    from torch._decomp import _core_aten_decompositions_post_autograd

    return {*_core_aten_decompositions_post_autograd(), _aten.linalg_vector_norm.default}


def _value(number: int | Node) -> Any:
    return number.meta["val"] if isinstance(number, Node) else number


def _item(graph: _Rewriting, node: Node) -> None:
    graph.replace(node, _aten._local_scalar_dense.default, *graph.arguments(node))


def _narrow(graph: _Rewriting, node: Node) -> None:
    tensor, dim, start, length = graph.arguments(node)
    if isinstance(start, int) and start < 0:
        raise _NotHere
    end = graph.sum(node, start, length)
    graph.replace(node, _aten.slice.Tensor, tensor, dim, start, end)


def _chunk(graph: _Rewriting, node: Node) -> None:
    tensor, chunks, *rest = graph.arguments(node)
    dim = rest[0] if rest else 0
    sizes = [value.shape[dim] for value in node.meta["val"]]
    if not all(isinstance(size, int) for size in sizes):
        raise _NotHere
    graph.replace(node, _aten.split_with_sizes.default, tensor, sizes, *rest)


def _flatten(graph: _Rewriting, node: Node) -> None:
    tensor, *_ = graph.arguments(node)
    value = tensor.meta["val"]
    if value.dim() == node.meta["val"].dim() or not is_contiguous_or_false(value):
        raise _NotHere  # nothing to do, or a copy
    shape = [graph.number(size) for size in node.meta["val"].shape]
    graph.replace(node, _aten.view.default, tensor, shape)


def _layer_norm(graph: _Rewriting, node: Node) -> None:
    given = graph.arguments(node)
    args = (*given, *_LAYER_NORM[len(given) :])[: len(_LAYER_NORM)]
    graph.first_of(node, _aten.native_layer_norm.default, *args)


_RULES: dict[Any, Callable[[_Rewriting, Node], None]] = {
    _aten.item.default: _item,
    _aten.narrow.default: _narrow,
    _aten.chunk.default: _chunk,
    _aten.flatten.using_ints: _flatten,
    _aten.layer_norm.default: _layer_norm,
}
