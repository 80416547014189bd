"""Which nodes the delegate takes, in as few calls as the rest of the graph allows.

A node that the delegate does not know starts a new level for all that depends on it; units of one
level are one call, so no call can depend on itself. Rows of whole sequences and single last rows
are kept in different calls, which run one length each.
"""

from collections.abc import Mapping

from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data, tag_mutated_buffer
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.cpu.fuse import fuse
from delegates.cpu.graph import Constants, operator_name, shape_of
from delegates.cpu.match import find_units
from delegates.cpu.units import LinearUnit, NormUnit, SelectUnit, Unit

INDEX = "index"  # the compile spec that numbers the calls

_Call = tuple[int, bool]  # level, whether of single rows


class CpuPartitioner(Partitioner):
    """Tags the nodes of an edge graph that was readied by tidy().

    Args:
        tensors: the program's weights and constants by name; what partitioners are given has none.
        backend: the id of the backend that gets the calls.
    """

    def __init__(self, tensors: Mapping[str, Tensor], backend: str) -> None:
        super().__init__()
        self._tensors = tensors
        self._backend = backend

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        calls = find_calls(exported_program, Constants(exported_program, self._tensors))
        tags = {}
        for index, units in enumerate(calls):
            tag = f"cpu_{index}"
            tags[tag] = DelegationSpec(self._backend, [CompileSpec(INDEX, str(index).encode())])
            for unit in units:
                for node in unit.nodes:
                    node.meta["delegation_tag"] = tag
        _tag_positions(exported_program)
        tag_constant_data(exported_program)
        tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, tags)


def find_calls(program: ExportedProgram, constants: Constants) -> list[list[Unit]]:
    """The units of each delegate call, calls and units in the order of the graph."""
    units = find_units(program.graph, constants)
    while True:
        units = [
            unit for unit in units if not isinstance(unit, SelectUnit) or _feeds_linear(unit, units)
        ]
        calls = _group(program, units)
        impossible = {
            node
            for call in calls
            for node in fuse(call, call_inputs(call), call_outputs(call)).impossible
        }
        if not impossible:
            return calls
        units = [unit for unit in units if unit.output not in impossible]


def call_inputs(units: list[Unit]) -> list[Node]:
    """Rows that the units read and do not compute."""
    made = {unit.output for unit in units}
    needed = dict.fromkeys(node for unit in units for node in unit.inputs())
    return [node for node in needed if node not in made]


def call_outputs(units: list[Unit]) -> list[Node]:
    """What the units compute for others."""
    inside = {node for unit in units for node in unit.nodes}
    return [unit.output for unit in units if any(user not in inside for user in unit.output.users)]


def _group(program: ExportedProgram, units: list[Unit]) -> list[list[Unit]]:
    """Units of one level and one kind of rows."""
    by_node = {node: unit for unit in units for node in unit.nodes}
    levels: dict[Node, int] = {}
    calls: dict[_Call, list[Unit]] = {}
    for node in program.graph.nodes:
        sources = node.all_input_nodes
        level = max((levels[source] for source in sources), default=0)
        unit = by_node.get(node)
        if unit is None and node.op == "call_function" and _computes(node):
            level += 1
        levels[node] = level
        if unit is not None and node is unit.output:
            calls.setdefault((level, _is_one_row(unit, by_node)), []).append(unit)
    return [calls[call] for call in sorted(calls)]


def _computes(node: Node) -> bool:
    """Whether a node that is left outside needs its inputs to be finished: all but positions."""
    return bool(shape_of(node)) or operator_name(node) not in (
        "aten::_local_scalar_dense",
        "aten::sym_size",
        "add",
    )


def _is_one_row(unit: Unit, by_node: Mapping[Node, Unit]) -> bool:
    """Whether a unit runs on single rows; what follows a select that it takes in does not."""
    inputs = unit.inputs()
    if not inputs:
        return False
    source = by_node.get(inputs[0])
    if isinstance(source, NormUnit) and isinstance(unit, LinearUnit):
        source = by_node.get(source.input)
        return len(shape_of(inputs[0])) == 2 and not isinstance(source, SelectUnit)
    if isinstance(source, SelectUnit):
        return False
    return len(shape_of(inputs[0])) == 2


def _feeds_linear(select: SelectUnit, units: list[Unit]) -> bool:
    """Whether a linear, with or without a norm before it, is all that reads the last row."""
    readers = {node: unit for unit in units for node in unit.inputs()}
    at: Unit = select
    for _ in range(2):
        if len(at.output.users) == 0 or at.output not in readers:
            return False
        reader = readers[at.output]
        if any(user not in reader.nodes for user in at.output.users):
            return False
        if isinstance(reader, LinearUnit):
            return True
        if not isinstance(reader, NormUnit):
            return False
        at = reader
    return False


def _tag_positions(program: ExportedProgram) -> None:
    """Takes the reading of the position in where one call alone needs it."""
    for node in program.graph.nodes:
        if operator_name(node) == "aten::_local_scalar_dense":
            tags = {user.meta.get("delegation_tag") for user in node.users}
            if len(tags) == 1 and None not in tags:
                node.meta["delegation_tag"] = tags.pop()
