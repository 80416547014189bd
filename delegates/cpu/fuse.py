"""Fuses units into operators: q, k and v into one matrix, gate and up, norms into the linears that
read them, additions to the residual stream into the linears before them.

An operator stays where the last of its units was, in the order of the graph; an addition moves up
to the linear that it goes into.
"""

from collections.abc import Iterable, Sequence

from torch.fx import Node

from delegates.cpu.graph import shape_of
from delegates.cpu.operators import (
    Add,
    Attention,
    Buffer,
    Embedding,
    Fused,
    Linear,
    Matrix,
    Norm,
    Operator,
    Swiglu,
    View,
)
from delegates.cpu.units import (
    AddUnit,
    AttentionUnit,
    EmbeddingUnit,
    HeadNorm,
    LinearUnit,
    NormUnit,
    SelectUnit,
    SwigluUnit,
    Unit,
)


def fuse(units: Sequence[Unit], inputs: Iterable[Node], outputs: Iterable[Node]) -> Fused:
    """The operators of one delegate call.

    Args:
        units: in the order of the graph.
        inputs: rows that the caller hands over.
        outputs: values that are read outside.
    """
    return _Fusion(units, inputs, outputs).run()


class _Fusion:
    def __init__(
        self, units: Sequence[Unit], inputs: Iterable[Node], outputs: Iterable[Node]
    ) -> None:
        self._units = units
        self._makers = {unit.output: unit for unit in units}
        self._outputs = set(outputs)
        self._readers: dict[Node, list[Unit]] = {}
        for unit in units:
            for node in unit.inputs():
                self._readers.setdefault(node, []).append(unit)
        self._fused = Fused()
        self._views = self._fused.views
        self._gone: set[Unit] = set()  # fused into others
        self._claimed: set[Unit] = set()  # those among them whose nodes an operator has
        self._merged: dict[Unit, list[LinearUnit]] = {}  # by the last of them
        self._swiglus: dict[LinearUnit, SwigluUnit] = {}
        self._positions: dict[Unit, int] = {}  # where what a unit became is emitted
        for node in inputs:
            self._place(node)

    def run(self) -> Fused:
        for unit in self._units:
            if isinstance(unit, NormUnit | SelectUnit) and self._goes_into_linears(unit):
                self._gone.add(unit)
        for unit in self._units:
            if isinstance(unit, AttentionUnit):
                self._merge([unit.query, unit.key, unit.value], unit)
            elif isinstance(unit, SwigluUnit):
                last = self._merge([unit.gate, unit.up], unit)
                if last is not None:
                    self._swiglus[last] = unit
                    self._gone.add(unit)
        self._positions = {unit: index for index, unit in enumerate(self._units)}
        for merged_last, parts in self._merged.items():
            self._positions.update(dict.fromkeys(parts, self._positions[merged_last]))
        for unit in self._units:
            if unit not in self._gone:
                self._emit(unit)
        self._mark_prepared()
        return self._fused

    def _goes_into_linears(self, unit: Unit) -> bool:
        readers = self._readers.get(unit.output, [])
        if unit.output in self._outputs or not readers:
            return False
        if isinstance(unit, SelectUnit) and [type(item) for item in readers] == [NormUnit]:
            return self._goes_into_linears(readers[0])
        return all(isinstance(reader, LinearUnit) for reader in readers)

    def _merge(self, nodes: list[Node], reader: Unit) -> LinearUnit | None:
        """Joins the linears that compute these values for one reader alone; the last of them."""
        linears = [self._makers.get(node) for node in nodes]
        first = linears[0]
        if len(set(linears)) < len(linears) or not isinstance(first, LinearUnit):
            return None
        alike: list[LinearUnit] = []
        for unit in linears:
            if not isinstance(unit, LinearUnit) or self._readers[unit.output] != [reader]:
                return None
            weights = (unit.weight, first.weight)
            if unit.output in self._outputs or unit.input is not first.input:
                return None
            if len({(w.format, w.columns, w.group_size) for w in weights}) > 1:
                return None
            if isinstance(reader, SwigluUnit) and unit.weight.rows != first.weight.rows:
                return None
            alike.append(unit)
        last = max(alike, key=self._units.index)  # in the graph's order
        self._merged[last] = alike
        self._gone.update(unit for unit in alike if unit is not last)
        return last

    def _emit(self, unit: Unit) -> None:
        operators = self._fused.operators
        if isinstance(unit, EmbeddingUnit):
            output = self._place(unit.output).buffer
            matrix = Matrix((unit.weight,))
            operators.append(
                Embedding(module_path(unit), unit.nodes, [], output, unit.tokens, matrix)
            )
        elif isinstance(unit, NormUnit):
            view, output = self._views[unit.input], self._place(unit.output).buffer
            operators.append(
                Norm(module_path(unit), unit.nodes, [], output, view, unit.weight, unit.eps)
            )
        elif isinstance(unit, LinearUnit):
            operators.append(self._linear(unit))
        elif isinstance(unit, AttentionUnit):
            operators.append(self._attention(unit))
        elif isinstance(unit, SwigluUnit):
            gate, up = self._views[unit.gate], self._views[unit.up]
            output = self._place(unit.output).buffer
            operators.append(Swiglu(module_path(unit), unit.nodes, [], output, gate, up))
        elif isinstance(unit, AddUnit):
            self._add(unit)

    def _linear(self, unit: LinearUnit) -> Linear:
        parts = self._merged.get(unit, [unit])
        swiglu = self._swiglus.get(unit)
        prepare = [node for part in parts for node in part.prepare]
        nodes = [node for part in parts for node in part.nodes if node not in set(part.prepare)]
        source, norm, last_row = unit.input, None, False
        maker = self._makers.get(source)
        if isinstance(maker, NormUnit) and maker in self._gone:
            norm, source = HeadNorm(maker.weight, maker.eps), maker.input
            prepare += self._once(maker)
            maker = self._makers.get(source)
        if isinstance(maker, SelectUnit) and maker in self._gone:
            last_row, source = True, maker.input
            prepare += self._once(maker)
        matrix = Matrix(tuple(part.weight for part in parts), swiglu is not None)
        if swiglu is not None:
            nodes += swiglu.nodes
            buffer = self._place(swiglu.output).buffer
        elif len(parts) == 1:
            buffer = self._place(unit.output, last_row).buffer
        else:
            buffer = Buffer(matrix.rows)
            offset = 0
            for part in parts:
                self._views[part.output] = View(buffer, offset, part.weight.rows)
                offset += part.weight.rows
        name = module_path(unit)
        if len(parts) > 1:
            joined = "gate_up_proj" if swiglu is not None else "qkv_proj"
            name = f"{name.rpartition('.')[0]}.{joined}"
        biases = tuple(part.bias for part in parts)
        return Linear(
            name,
            nodes,
            prepare,
            buffer,
            self._views[source],
            matrix,
            biases,
            norm,
            swiglu is not None,
            last_row=last_row,
        )

    def _once(self, unit: Unit) -> list[Node]:
        """The nodes of a unit that several linears compute, for the first that asks."""
        nodes = [] if unit in self._claimed else unit.nodes
        self._claimed.add(unit)
        return nodes

    def _attention(self, unit: AttentionUnit) -> Attention:
        _, context, key_heads, head_dim = shape_of(unit.key_cache)
        query, key, value = (self._views[node] for node in unit.inputs())
        prepare = set(unit.prepare)
        return Attention(
            module_path(unit),
            [node for node in unit.nodes if node not in prepare],
            unit.prepare,
            self._place(unit.output).buffer,
            query,
            key,
            value,
            unit.start_pos,
            query.width // head_dim,
            key_heads,
            head_dim,
            context,
            unit.scale,
            unit.query_norm,
            unit.key_norm,
            unit.rotation,
        )

    def _add(self, unit: AddUnit) -> None:
        """Into the linear that computes one operand, else into either operand's buffer."""
        operands = ((unit.left, unit.right), (unit.right, unit.left))
        operators = self._fused.operators
        for kept, added in operands:
            linear = next(
                (op for op in operators if isinstance(op, Linear) and self._is_value(added, op)),
                None,
            )
            if linear is None or self._readers[added] != [unit] or added in self._outputs:
                continue
            position = operators.index(linear)
            if linear.accumulate or linear.swiglu or linear.last_row:
                continue
            target = self._views[kept].buffer
            if linear.input.buffer is target or not self._is_free(kept, unit, position):
                continue
            linear.accumulate, linear.output = True, target
            linear.nodes = [*linear.nodes, *unit.nodes]
            self._views[added] = self._views[unit.output] = self._views[kept]
            return
        for kept, added in operands:
            if self._is_free(kept, unit, len(operators)):
                view, target = self._views[added], self._views[kept].buffer
                operators.append(Add(module_path(unit), unit.nodes, [], target, view))
                self._views[unit.output] = self._views[kept]
                return
        self._fused.impossible.append(unit.output)
        self._place(unit.output)

    def _is_value(self, node: Node, operator: Linear) -> bool:
        view = self._views[node]
        return view.buffer is operator.output and view.is_whole and not operator.accumulate

    def _is_free(self, kept: Node, unit: Unit, position: int) -> bool:
        """Whether, from a position on, this unit alone reads a value: it may be added to.

        The value must exist by then: the operator that leaves it in its buffer lies before.
        """
        view = self._views[kept]
        if not view.is_whole or kept in self._outputs:
            return False
        operators = self._fused.operators
        later = operators[position + 1 :]
        if any(view.buffer in (*op.reads(), op.output) for op in later):
            return False
        return not any(
            self._positions[reader] > self._positions[unit]
            for node, other in self._views.items()
            if other.buffer is view.buffer
            for reader in self._final_readers(node)
        )

    def _final_readers(self, node: Node) -> list[Unit]:
        """Units that read a value, through fused norms as well."""
        readers: list[Unit] = []
        for reader in self._readers.get(node, []):
            if reader in self._gone and isinstance(reader, NormUnit | SelectUnit):
                readers += self._final_readers(reader.output)
            else:
                readers.append(reader)
        return readers

    def _place(self, node: Node, one_row: bool = False) -> View:
        """A buffer of its own for a value."""
        shape = shape_of(node)
        width = shape[-1] if len(shape) < 4 else shape[-1] * shape[-2]
        self._views[node] = View(Buffer(width, one_row), 0, width)
        return self._views[node]

    def _mark_prepared(self) -> None:
        """Marks linears that read what the one before them quantized; that first one answers for
        the quantization of all."""
        operators: list[Operator] = self._fused.operators
        first: Linear | None = None
        for before, operator in zip(operators, operators[1:], strict=False):
            if isinstance(before, Linear) and isinstance(operator, Linear):
                if operator.is_prepared_by(before):
                    operator.prepared = True
                    first = first if first is not None and before.prepared else before
                    first.prepare_nodes += operator.prepare_nodes
                    operator.prepare_nodes = []


def module_path(unit: Unit) -> str:
    """The path of the module that computed a unit's output, as model.layers.0.mlp.down_proj."""
    stack = unit.output.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    return paths[-1] if paths and paths[-1] else unit.output.name
