"""Buffers that several methods of one program read and change, each stored once.

ExecuTorch plans a buffer once for all methods that have one of its name. Here a name is that of the
memory: a buffer that two methods share has one, and buffers that only look alike have two.
"""

from collections.abc import Mapping

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument

from delegates.passes.weights import copy_graph


def share_buffers(programs: Mapping[str, ExportedProgram]) -> Mapping[str, ExportedProgram]:
    """Returns captured programs with such names, of several methods of which one changes a buffer;
    others as they are.

    A method that only reads what another changes writes the buffer too, with what is in it: it is
    no constant then.
    """
    changed = {
        _address(program, name)
        for program in programs.values()
        for name in program.graph_signature.buffers_to_mutate.values()
    }
    if len(programs) == 1 or not changed:
        return programs
    names: dict[int, str] = {}
    return {
        method: _renamed(method, copy_graph(program), changed, names)
        for method, program in programs.items()
    }


def _renamed(
    method: str, program: ExportedProgram, changed: set[int], names: dict[int, str]
) -> ExportedProgram:
    """
    Args:
        names: of the memory of other methods' buffers; this one's are added.
    """
    signature = program.graph_signature
    written = set(signature.buffers_to_mutate.values())
    for spec in signature.input_specs:
        if spec.kind is not InputKind.BUFFER or spec.target is None:
            continue
        name, address = spec.target, _address(program, spec.target)
        if address not in changed:
            continue
        if name not in written:
            _write_back(program, spec.arg.name, name)
        shared = names.setdefault(address, f"{method}:{name}".replace(".", ":"))
        spec.target = shared
        for output in signature.output_specs:
            if output.kind is OutputKind.BUFFER_MUTATION and output.target == name:
                output.target = shared
        stored = program.state_dict if name in program.state_dict else program.constants
        program.state_dict[shared] = stored.pop(name)
        spec.persistent = True
    return program


def _write_back(program: ExportedProgram, placeholder: str, name: str) -> None:
    """Makes a program write the value of a buffer into it again."""
    graph = program.graph
    buffer = next(node for node in graph.nodes if node.name == placeholder)
    output = graph.output_node()
    with graph.inserting_before(output):
        copy = graph.call_function(torch.ops.aten.clone.default, (buffer,))
    copy.meta = {**buffer.meta, "val": buffer.meta["val"]}
    output.args = ((copy, *output.args[0]),)  # type: ignore[misc]
    program.graph_module.recompile()
    spec = OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(copy.name), name)
    program.graph_signature.output_specs.insert(0, spec)


def _address(program: ExportedProgram, name: str) -> int:
    tensor = program.state_dict.get(name)
    return (program.constants[name] if tensor is None else tensor).data_ptr()
