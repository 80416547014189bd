"""Why the CPU delegate left an operator outside, and why it keeps one by itself that it could fuse.

Says in words what match.py, partition.py and fuse.py decide; nothing is decided here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch.export import ExportedProgram
from torch.fx import Node

from delegates.cpu.fuse import fuse, module_path
from delegates.cpu.graph import ATTENTION, Constants, args_of, operator_name, shape_of
from delegates.cpu.layout import GROUP_SIZES, MOST_COLUMNS
from delegates.cpu.match import find_units, is_rows
from delegates.cpu.operators import Add, Attention, Norm, Operator, Swiglu
from delegates.cpu.partition import call_inputs, call_outputs, find_calls
from delegates.cpu.tidy import tidy
from delegates.cpu.units import (
    AddUnit,
    AttentionUnit,
    LinearUnit,
    NormUnit,
    SelectUnit,
    SwigluUnit,
    Unit,
)
from delegates.lines import source_line

_KNOWN = "it computes embeddings, RMSNorm, linears, attention, SwiGLU and additions"


@dataclass(frozen=True)
class Unfused:
    """An operator of the list that others like it are part of.

    Attributes:
        module_path: such as model.layers.0.mlp.
        operator: what it is called there.
        line: of the model, as in exporter/model.py:46.
        reason: why it stands alone.
    """

    module_path: str
    operator: str
    line: str
    reason: str


def why_left(program: ExportedProgram, constants: Constants) -> dict[str, str]:
    """Why nodes are left outside, by their names; sizes and positions are not among them.

    Args:
        program: in the edge dialect, readied by tidy().
    """
    matched = find_units(program.graph, constants)
    taken = {
        node for call in find_calls(program, constants) for unit in call for node in unit.nodes
    }
    of_unit = {node: unit for unit in matched for node in unit.nodes}
    reasons = {}
    for node in program.graph.nodes:
        if node.op != "call_function" or node in taken or not shape_of(node):
            continue
        unit = of_unit.get(node)
        reasons[node.name] = _why_not(node, constants) if unit is None else _why_dropped(unit)
    return reasons


def _why_not(node: Node, constants: Constants) -> str:
    name = operator_name(node)
    if name == "aten::linear":
        return _why_no_linear(node, constants)
    if name == ATTENTION or name == "getitem" and _is_attention(node):
        return "the heads or caches of this attention are not laid out as the delegate has them"
    if name in ("aten::mul", "aten::add") and not _all_rows(node):
        shapes = " and ".join(_shape(item) for item in node.all_input_nodes)
        return f"of {shapes}; it takes rows of float32, (1, seq_len, width), of one shape"
    if name == "aten::mul":
        return f"this product is part of no RMSNorm and no SwiGLU; {_KNOWN}"
    if name == "aten::silu":
        return "its output is not multiplied by rows of the same shape, as SwiGLU's is"
    return f"the delegate has no {name.removeprefix('aten::')}; {_KNOWN}"


def _why_no_linear(node: Node, constants: Constants) -> str:
    activation, weight = args_of(node)[:2]
    bias = args_of(node)[2] if len(args_of(node)) > 2 else None
    if bias is not None and constants.name(bias) is None:
        return "its bias is computed, not a constant"
    if not is_rows(node):
        return f"it makes {_shape(node)}; it takes rows of float32, (1, seq_len, width)"
    if constants.name(weight) is not None:
        return f"its input is {_shape(activation)}, not rows of float32"
    if operator_name(weight) != "torchao::dequantize_affine":
        return "its weight is computed, not a constant"
    values, block, _, _, _, *limits = args_of(weight)
    if shape_of(values)[-1] > MOST_COLUMNS:
        return f"its {shape_of(values)[-1]} inputs are more than the {MOST_COLUMNS} of its sums"
    if limits == [-8, 7] and block[1] not in GROUP_SIZES:
        sizes = ", ".join(map(str, GROUP_SIZES))
        return f"its groups of {block[1]} are none of {sizes}"
    if limits not in ([-8, 7], [-128, 127]) or limits == [-128, 127] != list(block[1:]):
        return f"its weight is neither int4 in groups nor int8 by row (limits {limits})"
    return "its input is not quantized to int8 for each token, or something else reads it so"


def _why_dropped(unit: Unit) -> str:
    if isinstance(unit, AddUnit):
        return "both its operands are read again later, and additions are done in place of one"
    if isinstance(unit, SelectUnit):
        return "the last row alone goes on to something other than one linear"
    return "what it computes on its way is read elsewhere too"


def why_unfused(program: ExportedProgram) -> list[Unfused]:
    """Operators of the lists that stand alone though their like are part of others.

    Args:
        program: in the edge dialect as to_edge() made it; it is readied in place.
    """
    tidy(program)
    constants = Constants(program)
    found = []
    for units in find_calls(program, constants):
        outputs = call_outputs(units)
        fused = fuse(units, call_inputs(units), outputs)
        makers = {unit.output: unit for unit in units}
        readers: dict[Node, list[Unit]] = {}
        for unit in units:
            for node in unit.inputs():
                readers.setdefault(node, []).append(unit)
        for operator in fused.operators:
            made = next(makers[node] for node in reversed(operator.nodes) if node in makers)
            reason = _why_alone(operator, made, makers, readers, outputs)
            if reason is not None:
                kind = type(operator).__name__.lower()
                found.append(Unfused(module_path(made), kind, source_line(made.output), reason))
    return found


def _why_alone(
    operator: Operator,
    unit: Unit,
    makers: dict[Node, Unit],
    readers: dict[Node, list[Unit]],
    outputs: list[Node],
) -> str | None:
    if isinstance(operator, Norm) and isinstance(unit, NormUnit):
        others = [item for item in readers.get(unit.output, []) if not isinstance(item, LinearUnit)]
        if unit.output in outputs:
            return "its output is read outside the delegate, not by linears alone"
        return f"its output is read by {_names(others)}, not by linears alone"
    if isinstance(operator, Add) and isinstance(unit, AddUnit):
        linears = [makers.get(node) for node in (unit.left, unit.right)]
        if not any(isinstance(item, LinearUnit) for item in linears):
            return "neither operand comes from a linear, which could add its output to the other"
        return "the linear's output is read by others too, or the other operand is read again later"
    if isinstance(operator, Swiglu) and isinstance(unit, SwigluUnit):
        return _why_unmerged([unit.gate, unit.up], makers, readers, outputs, "gate and up")
    if isinstance(operator, Attention) and isinstance(unit, AttentionUnit):
        parts = [unit.query, unit.key, unit.value]
        if len({operator.query.buffer, operator.key.buffer, operator.value.buffer}) > 1:
            return _why_unmerged(parts, makers, readers, outputs, "query, key and value")
    return None


def _why_unmerged(
    nodes: list[Node],
    makers: dict[Node, Unit],
    readers: dict[Node, list[Unit]],
    outputs: list[Node],
    names: str,
) -> str:
    found = [makers.get(node) for node in nodes]
    linears = [unit for unit in found if isinstance(unit, LinearUnit)]
    if len(linears) < len(nodes) or len(set(linears)) < len(nodes):
        return f"{names} do not each come from a linear of their own"
    if any(unit.output in outputs or len(readers[unit.output]) > 1 for unit in linears):
        return f"one of {names} is read by others too, so their linears are not one matrix"
    if len({unit.input for unit in linears}) > 1:
        return f"the linears of {names} read different inputs"
    if len({(w.weight.format, w.weight.columns, w.weight.group_size) for w in linears}) > 1:
        return f"the weights of {names} are of different formats"
    return f"the linears of {names} have different numbers of outputs"


def _names(units: Iterable[Unit]) -> str:
    return ", ".join(sorted({source_line(unit.output) for unit in units})) or "nothing"


def _all_rows(node: Node) -> bool:
    return all(is_rows(item) for item in node.all_input_nodes)


def _is_attention(node: Node) -> bool:
    return operator_name(node.all_input_nodes[0]) == ATTENTION


def _shape(node: Any) -> str:
    sizes = ", ".join(str(size) for size in shape_of(node)) if isinstance(node, Node) else "?"
    return f"({sizes})"
