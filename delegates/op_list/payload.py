"""One delegate call: from its part of the edge graph to the op list and the packed weights."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import torch
from executorch.exir._serialize._cord import FileBackedData
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.utils import DelegateMappingBuilder
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from delegates.errors import DelegateError
from delegates.methods import own_key
from delegates.op_list.graph import Constants, operator_name
from delegates.op_list.layout import PAGE_BYTES, Format
from delegates.op_list.low_rank import AdapterBlobs, LowRank, Pair
from delegates.op_list.match import find_ops
from delegates.op_list.matrix import Matrix
from delegates.op_list.op_list import OpList
from delegates.op_list.ops import (
    Attention,
    Cache,
    Convolution,
    Delta,
    Embedding,
    Floats,
    Linear,
    Op,
    Rotate,
    SharedAttention,
    State,
    Values,
)
from delegates.op_list.ops.op import ReadsCache
from delegates.op_list.peepholes import merge
from delegates.op_list.program import (
    CacheType,
    Operation,
    Program,
    Role,
    Value,
    Weight,
    write_program,
)
from delegates.op_list.rows import Rows
from delegates.op_list.slots import assign_slots
from delegates.op_list.spilled import spilled
from delegates.op_list.weights import FloatBlob, pack
from delegates.source_lines import source_line

FLOATS_ALIGNMENT = 64
# The compile specs of a call: its number; whether its values are samples; which inputs may have
# fewer rows.
INDEX, BY_SAMPLE, SHORTER = "index", "by_sample", "shorter"

# The ops that read the position of the call.
_POSITIONED = Attention | SharedAttention | Convolution | Delta | Rotate

_RELEASING = ContextVar("releasing", default=False)


@contextmanager
def releasing_weights() -> Iterator[None]:
    """Within the block, each weight is released as soon as it is packed."""
    token = _RELEASING.set(True)
    try:
        yield
    finally:
        _RELEASING.reset(token)


def delegate_call(program: ExportedProgram, compile_specs: list[CompileSpec]) -> "DelegateCall":
    """Returns the delegate call for a part of an edge graph."""
    given = {spec.key: spec.value for spec in compile_specs}
    shorter = given.get(SHORTER, b"").decode().split()
    return DelegateCall(program, int(given[INDEX]), BY_SAMPLE in given, shorter)


class DelegateCall:
    """One call: its ops, and where their operands are in the program.

    Args:
        program: the call's part of the edge graph.
        index: its number among the calls of the complete graph.
        by_sample: whether its values are samples of fixed shapes.
        shorter: the names of inputs whose only sample may have fewer rows.
    """

    def __init__(
        self,
        program: ExportedProgram,
        index: int,
        by_sample: bool = False,
        shorter: Sequence[str] = (),
    ) -> None:
        self._program = program
        self._shorter = shorter
        self._constants = Constants(program)
        values = Values(self._constants, by_sample)
        self._inputs, outputs = _arguments(program)
        self._rows = {node: values.rows(node) for node in self._inputs if _role(node) is Role.ROWS}
        ops = find_ops(program.graph, values).ops
        self.ops = OpList(ops, [values.rows(node) for node in outputs])
        merge(self.ops)
        self._slots = assign_slots(self.ops, self._rows.values())
        self._index, self._by_sample = index, by_sample
        self._floats_key = own_key("cpu", f"floats {index}")
        self._floats = FloatBlob(self._constants)
        self._adapters = AdapterBlobs(self._constants, _adapters_of(self.ops))
        self._adapter_keys = [
            own_key("cpu", f"adapter {index} {name}") for name in self._adapters.names
        ]
        self._store = NamedDataStore()
        self._debug_ids = DelegateMappingBuilder(generated_identifiers=True)
        self._caches: list[Cache] = []
        self._states: list[State] = []
        self._weights: list[Weight] = []
        self._weight_of: dict[Matrix, int] = {}

    def result(self) -> PreprocessResult:
        self._pack_weights()
        self._attribute_the_rest()
        operations = [self._operation(op) for op in self.ops]
        data = self._floats.data()
        if data:
            self._store.add_named_data(self._floats_key, data, FLOATS_ALIGNMENT)
        for number, key in enumerate(self._adapter_keys):
            self._store.add_named_data(key, self._adapters.data(number), PAGE_BYTES)
        program = Program(
            self._slots.widths,
            self._weights,
            self._floats_key if data else "",
            self._caches,
            self._cache_type(),
            operations,
            [
                Value(_role(node), self.slot(self._rows[node]) if node in self._rows else 0)
                for node in self._inputs
            ],
            [Value(Role.ROWS, self.slot(rows)) for rows in self.ops.outputs],
            list(zip(self._adapters.names, self._adapter_keys, strict=True)),
            self._states,
            self._original(),
            self._slots.heights if self._by_sample else (),
            [i for i, node in enumerate(self._inputs) if node.name in self._shorter],
        )
        return PreprocessResult(
            write_program(program),
            self._debug_ids.get_delegate_mapping(),
            self._store.get_named_data_store_output(),
        )

    def _original(self) -> int:
        """The longest text that uses the first rows of its rotary tables; 0: they are for all."""
        rotating = (op for op in self.ops if isinstance(op, Attention | SharedAttention | Rotate))
        lengths = {op.rotation.original for op in rotating if op.rotation is not None}
        assert len(lengths) < 2, lengths
        return lengths.pop() if lengths else 0

    def slot(self, rows: Rows) -> int:
        return self._slots.of[rows]

    def weight(self, matrix: Matrix) -> int:
        return self._weight_of[matrix]

    def cache(self, cache: Cache) -> int:
        self._caches.append(replace(cache, name=_own_name(cache, self._caches)))
        return len(self._caches) - 1

    def cache_of(self, op: ReadsCache) -> int:
        for index, cache in enumerate(self._caches):
            if cache.keys == op.keys:
                return index
        raise DelegateError(
            f"The attention of {source_line(op.node)} uses the keys and values of another layer, "
            "which is in another call of the delegate: export with --delegate cpu alone."
        )

    def state(self, state: State) -> int:
        self._states.append(replace(state, name=_own_name(state, self._states)))
        return len(self._states) - 1

    def vector(self, node: Node) -> Floats:
        return self._floats.vector(node)

    def ones(self, length: int) -> Floats:
        return self._floats.ones(length)

    def taps(self, node: Node) -> Floats:
        return self._floats.taps(node)

    def half_table(self, node: Node) -> Floats:
        return self._floats.half_table(node)

    def biases(self, matrix: Matrix, biases: Sequence[Node | None]) -> Floats | None:
        return self._floats.biases(matrix, biases)

    def low_rank(self, matrix: Matrix, pairs: Sequence[Sequence[Pair]]) -> Sequence[LowRank]:
        return self._adapters.place(matrix, pairs)

    def _cache_type(self) -> CacheType:
        """Of keys and values, unless a session sets another."""
        attentions = [op for op in self.ops if isinstance(op, Attention)]
        if attentions and all(op.int8 for op in attentions):
            return CacheType.INT8
        linears = [op for op in self.ops if not isinstance(op, Embedding)]
        formats = {matrix.format for op in linears for matrix in op.matrices()}
        return CacheType.FLOAT16 if formats - {Format.FLOAT32} else CacheType.FLOAT32

    def _pack_weights(self) -> None:
        """Packs each matrix once, the smallest first: more memory is then free for the largest. In
        the file, they have the order in which they are read."""
        packed_of: dict[Matrix, bytes | FileBackedData] = {}
        owners: dict[Matrix, str] = {}
        same: dict[tuple[object, ...], Matrix] = {}
        for op in self.ops:
            for field, ending in op.MATRICES.items():
                matrix = getattr(op, field)
                matrix = same.setdefault(self._identity(matrix), matrix)
                setattr(op, field, matrix)
                owners.setdefault(matrix, f"{op.name}{ending}")
        needed = Counter(node for matrix in owners for node in matrix.tensors())
        for matrix in sorted(owners, key=lambda item: item.rows * item.columns):
            data = pack(matrix, self._constants)
            for node in matrix.tensors():
                needed[node] -= 1
                if _RELEASING.get() and not needed[node]:
                    self._constants.release(node)
            packed_of[matrix] = spilled(data)
            del data
        for matrix, owner in owners.items():
            key = own_key("cpu", owner)
            if self._by_sample:  # parts of a module share its name
                key += f" {self._index}.{len(self._weights)}"
            self._store.add_named_data(key, packed_of[matrix], PAGE_BYTES)
            self._weight_of[matrix] = len(self._weights)
            self._weights.append(
                Weight(key, matrix.rows, matrix.columns, matrix.group_size, matrix.format)
            )

    def _identity(self, matrix: Matrix) -> tuple[object, ...]:
        """Equal for matrices of the same memory, such as a tied embedding and output matrix."""
        parts: list[object] = [matrix.interleaved, matrix.experts, matrix.columns, matrix.format]
        for node in matrix.tensors():
            tensor = self._constants.tensor(node)
            parts += [tensor.data_ptr(), tuple(tensor.shape), tensor.dtype]
        return tuple(parts)

    def _attribute_the_rest(self) -> None:
        """Attributes the nodes that read the position, which the call itself does, to the first op
        that needs it."""
        covered = {node for op in self.ops for node in (*op.nodes, *op.prepare_nodes)}
        rest = [
            node
            for node in self._program.graph.nodes
            if node.op == "call_function" and node not in covered
        ]
        assert all(operator_name(node) == "aten::_local_scalar_dense" for node in rest), rest
        first = next(
            (op for op in self.ops if isinstance(op, _POSITIONED)),
            None,
        )
        if first is not None:
            first.adopt(rest)

    def _operation(self, op: Op) -> Operation:
        prepare_id = self._debug_id(op.prepare_nodes) if op.prepare_nodes else None
        debug_id = self._debug_id(op.nodes)
        return Operation(
            op.name,
            type(op),
            op.version,
            op.fields(self),
            debug_id,
            debug_id if prepare_id is None else prepare_id,
        )

    def _debug_id(self, nodes: list[Node]) -> int:
        handles = sorted({node.meta["debug_handle"] for node in nodes})
        return self._debug_ids.insert_delegate_mapping_entry(handles=handles)


def _own_name(kept: Cache | State, others: Sequence[Cache | State]) -> str:
    """The name of a cache or state, with a number if its module has others."""
    alike = sum(other.name.partition(" ")[0] == kept.name for other in others)
    return f"{kept.name} {alike + 1}" if alike else kept.name


def _adapters_of(ops: OpList) -> list[str]:
    """The names of all adapters, sorted."""
    linears = [op for op in ops if isinstance(op, Linear)]
    return sorted({pair.adapter for op in linears for some in op.pairs for pair in some})


def _arguments(program: ExportedProgram) -> tuple[list[Node], list[Node]]:
    """Returns the call's inputs and outputs, in order."""
    signature = program.graph_signature
    given = {spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT}
    arguments = [
        spec.arg.name for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT
    ]
    nodes = {node.name: node for node in program.graph.nodes}
    inputs = [node for node in nodes.values() if node.op == "placeholder" and node.name in given]
    return inputs, [nodes[name] for name in arguments]


def _role(node: Node) -> Role:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or value.numel() == 1 and value.dim() == 1:
        return Role.START_POS
    return Role.TOKENS if value.dtype is torch.int64 else Role.ROWS
