"""One delegate call: from its part of the edge graph to the op list and the packed weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from executorch.exir._serialize._cord import FileBackedData
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.utils import DelegateMappingBuilder
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from delegates.cpu.fuse import fuse
from delegates.cpu.graph import Constants, operator_name
from delegates.cpu.layout import PAGE_BYTES, Format
from delegates.cpu.match import find_units
from delegates.cpu.operators import (
    Add,
    Attention,
    Embedding,
    Fused,
    Linear,
    Matrix,
    Norm,
    Operator,
    Swiglu,
)
from delegates.cpu.program import (
    Cache,
    CacheType,
    Kind,
    Operation,
    Program,
    Role,
    Value,
    Weight,
    write_program,
)
from delegates.cpu.slots import assign_slots
from delegates.cpu.weights import FloatBlob, Floats, pack
from delegates.spill import spilled

FLOATS_ALIGNMENT = 64

_RELEASING = ContextVar("releasing", default=False)


@contextmanager
def releasing_weights() -> Iterator[None]:
    """Weights are given back one by one as they are packed."""
    token = _RELEASING.set(True)
    try:
        yield
    finally:
        _RELEASING.reset(token)


class ThimbleCpuBackend(BackendDetails):
    """Its name is the id under which the runtime registers itself."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """The op list, its named data, and which nodes each of its debug ids stands for.

        Raises:
            DelegateError: a weight whose numbers no format holds.
        """
        (index,) = (int(spec.value) for spec in compile_specs)
        return _Call(edge_program, index).result()


class _Call:
    def __init__(self, program: ExportedProgram, index: int) -> None:
        self._program = program
        self._constants = Constants(program)
        self._inputs, self._outputs = _values(program)
        units = find_units(program.graph, self._constants)
        rows = [node for node in self._inputs if _role(node) is Role.ROWS]
        self._fused: Fused = fuse(units, rows, self._outputs)
        self._floats_key = f"cpu/floats {index}"
        self._floats = FloatBlob(self._constants)
        self._store = NamedDataStore()
        self._debug_ids = DelegateMappingBuilder(generated_identifiers=True)
        views = self._fused.views
        self._slots, self._widths = assign_slots(
            self._fused.operators,
            [views[node].buffer for node in rows],
            [views[node].buffer for node in self._outputs],
        )
        self._caches: list[Cache] = []
        self._weights: list[Weight] = []
        self._weight_of: dict[Matrix, int] = {}

    def result(self) -> PreprocessResult:
        self._pack_weights()
        self._attribute_the_rest()
        operations = [self._operation(operator) for operator in self._fused.operators]
        data = self._floats.data()
        if data:
            self._store.add_named_data(self._floats_key, data, FLOATS_ALIGNMENT)
        linears = [op for op in self._fused.operators if isinstance(op, Linear)]
        is_float = all(op.matrix.is_float for op in linears)
        views = self._fused.views
        program = Program(
            self._widths,
            self._weights,
            self._floats_key if data else "",
            self._caches,
            CacheType.FLOAT32 if is_float else CacheType.FLOAT16,
            operations,
            [
                Value(_role(node), self._slots[views[node].buffer] if node in views else 0)
                for node in self._inputs
            ],
            [Value(Role.ROWS, self._slots[views[node].buffer]) for node in self._outputs],
        )
        return PreprocessResult(
            write_program(program),
            self._debug_ids.get_delegate_mapping(),
            self._store.get_named_data_store_output(),
        )

    def _pack_weights(self) -> None:
        """Packs each matrix once, small ones first, so that the more is free when the largest
        come; they lie in the file in the order in which they are read."""
        packed_of: dict[Matrix, tuple[Format, bytes | FileBackedData]] = {}
        owners: dict[Matrix, str] = {}
        same: dict[tuple[object, ...], Matrix] = {}
        for operator in self._fused.operators:
            if isinstance(operator, Embedding | Linear):
                matrix = same.setdefault(self._identity(operator.matrix), operator.matrix)
                owners.setdefault(matrix, operator.name)
                operator.matrix = matrix
        needed = [node for matrix in owners for node in _tensors(matrix)]
        for matrix in sorted(owners, key=lambda item: item.rows * item.columns):
            packed = pack(matrix, self._constants)
            for node in _tensors(matrix):
                needed.remove(node)
                if _RELEASING.get() and node not in needed:
                    self._constants.release(node)
            packed_of[matrix] = packed.format, spilled(packed.data)
            del packed
        for matrix, owner in owners.items():
            key, (format, data) = f"cpu/{owner}", packed_of[matrix]
            self._store.add_named_data(key, data, PAGE_BYTES)
            self._weight_of[matrix] = len(self._weights)
            self._weights.append(
                Weight(key, matrix.rows, matrix.columns, matrix.group_size, format)
            )

    def _identity(self, matrix: Matrix) -> tuple[object, ...]:
        """Equal for matrices of the same memory, such as a tied embedding and output matrix."""
        parts: list[object] = [matrix.interleaved, matrix.columns, matrix.format]
        for node in _tensors(matrix):
            tensor = self._constants.tensor(node)
            parts += [tensor.data_ptr(), tuple(tensor.shape), tensor.dtype]
        return tuple(parts)

    def _attribute_the_rest(self) -> None:
        """Gives the reading of the position, which the call itself does, to its first reader."""
        covered = {node for op in self._fused.operators for node in (*op.nodes, *op.prepare_nodes)}
        rest = [
            node
            for node in self._program.graph.nodes
            if node.op == "call_function" and node not in covered
        ]
        assert all(operator_name(node) == "aten::_local_scalar_dense" for node in rest), rest
        first = next((op for op in self._fused.operators if isinstance(op, Attention)), None)
        if first is not None:
            first.prepare_nodes = [*rest, *first.prepare_nodes]

    def _operation(self, operator: Operator) -> Operation:
        kind, fields = self._fields(operator)
        prepare_id = None
        if operator.prepare_nodes:
            prepare_id = self._debug_id(operator.prepare_nodes)
        debug_id = self._debug_id(operator.nodes)
        return Operation(
            operator.name, kind, fields, debug_id, debug_id if prepare_id is None else prepare_id
        )

    def _debug_id(self, nodes: list[Node]) -> int:
        handles = sorted({node.meta["debug_handle"] for node in nodes})
        return self._debug_ids.insert_delegate_mapping_entry(handles=handles)

    def _fields(self, operator: Operator) -> tuple[Kind, list[int | bool | float | Floats | None]]:
        slots, floats = self._slots, self._floats
        if isinstance(operator, Embedding):
            return Kind.EMBEDDING, [self._weight_of[operator.matrix], slots[operator.output]]
        if isinstance(operator, Norm):
            weight = floats.vector(operator.weight)
            source = slots[operator.input.buffer]
            return Kind.NORM, [source, slots[operator.output], weight, operator.eps]
        if isinstance(operator, Add):
            return Kind.ADD, [slots[operator.input.buffer], slots[operator.output]]
        if isinstance(operator, Swiglu):
            gate, up = slots[operator.gate.buffer], slots[operator.up.buffer]
            return Kind.SWIGLU, [gate, up, slots[operator.output]]
        if isinstance(operator, Linear):
            norm = operator.norm
            return Kind.LINEAR, [
                slots[operator.input.buffer],
                slots[operator.output],
                self._weight_of[operator.matrix],
                floats.biases(operator.matrix, operator.biases),
                floats.vector(norm.weight) if norm else None,
                norm.eps if norm else 0.0,
                operator.swiglu,
                operator.accumulate,
                operator.last_row,
                operator.prepared,
            ]
        assert isinstance(operator, Attention), operator
        return Kind.ATTENTION, self._attention_fields(operator)

    def _attention_fields(self, operator: Attention) -> list[int | bool | float | Floats | None]:
        slots, floats = self._slots, self._floats
        self._caches.append(
            Cache(operator.num_key_value_heads, operator.head_dim, operator.max_context_len)
        )
        norms = operator.query_norm, operator.key_norm
        rotation = operator.rotation
        return [
            slots[operator.query.buffer],
            operator.query.offset,
            slots[operator.key.buffer],
            operator.key.offset,
            slots[operator.value.buffer],
            operator.value.offset,
            slots[operator.output],
            operator.num_attention_heads,
            len(self._caches) - 1,
            operator.scale,
            *(floats.vector(norm.weight) if norm else None for norm in norms),
            next((norm.eps for norm in norms if norm), 0.0),
            floats.half_table(rotation.cosines) if rotation else None,
            floats.half_table(rotation.sines) if rotation else None,
        ]


def _values(program: ExportedProgram) -> tuple[list[Node], list[Node]]:
    """What the caller hands over and what it gets, in order."""
    signature = program.graph_signature
    given = {spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT}
    wanted = [
        spec.arg.name for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT
    ]
    nodes = {node.name: node for node in program.graph.nodes}
    inputs = [node for node in nodes.values() if node.op == "placeholder" and node.name in given]
    return inputs, [nodes[name] for name in wanted]


def _role(node: Node) -> Role:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or value.numel() == 1 and value.dim() == 1:
        return Role.START_POS
    return Role.TOKENS if value.dtype is torch.int64 else Role.ROWS


def _tensors(matrix: Matrix) -> list[Node]:
    nodes = []
    for source in matrix.sources:
        nodes += [node for node in (source.values, source.scales) if node is not None]
    return nodes
