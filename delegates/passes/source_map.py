"""Completes the map from a finished program's instructions to the debug handles of its nodes."""

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

if TYPE_CHECKING:
    from executorch.exir import ExecutorchProgramManager

_VIEW = "executorch_prim::et_view"


def keep_view_handles(program: "ExecutorchProgramManager") -> int:
    """Gives the instructions of all methods that reshape without copying their nodes' handles,
    which ExecuTorch 1.5 leaves out of its map; returns how many.

    Such instructions come in the order of the graph's views. A view of constant shape has none: it
    is resolved ahead of time. If the two numbers differ, no instruction gets a handle, and a
    profile counts them as unattributed.
    """
    return sum(_keep_view_handles(program, method) for method in program.methods)


def _keep_view_handles(program: "ExecutorchProgramManager", method: str) -> int:
    from executorch.exir import memory

    handles = [
        node.meta.get("debug_handle")
        for node in program.exported_program(method).graph.nodes
        if node.target is memory.view and not _is_resolved(node.meta["spec"])
    ]
    plan = next(p for p in program.executorch_program.execution_plan if p.name == method)
    instructions = [
        number
        for number, instruction in enumerate(plan.chains[0].instructions)
        if _kernel_name(plan, instruction) == _VIEW
    ]
    if len(instructions) != len(handles):
        return 0
    known: Any = program.debug_handle_map
    pairs = zip(instructions, handles, strict=True)
    added = {number: handle for number, handle in pairs if handle is not None}
    known[method].update(added)
    return len(added)


def keep_write_handles(program: "ExecutorchProgramManager") -> int:
    """Gives the instructions of all methods that write a buffer's new value into it, which
    ExecuTorch adds last, the handles of what computed the value; returns how many.

    One that writes an input gets none, and a profile counts it as unattributed.
    """
    return sum(_keep_write_handles(program, method) for method in program.methods)


def _keep_write_handles(program: "ExecutorchProgramManager", method: str) -> int:
    copy = torch.ops.aten.copy_.default
    graph = program.exported_program(method).graph
    writes = [node for node in graph.nodes if node.target is copy]
    plan = next(p for p in program.executorch_program.execution_plan if p.name == method)
    instructions = [
        number
        for number, instruction in enumerate(plan.chains[0].instructions)
        if _kernel_name(plan, instruction) == "aten::copy_"
    ]
    known: Any = program.debug_handle_map
    if len(instructions) != len(writes):
        return 0
    for number, node in zip(instructions, writes, strict=True):
        value = node.args[1]
        handle = value.meta.get("debug_handle") if isinstance(value, Node) else None
        # Emitting has replaced the handles of nodes that are instructions by these's numbers.
        is_item = isinstance(value, Node) and value.target is operator.getitem
        written = handle if is_item or handle is None else known[method].get(handle)
        known[method].setdefault(number, [] if written is None else written)
    return len(writes)


def _is_resolved(spec: Any) -> bool:
    planned = spec.mem_id is not None and spec.mem_offset is not None
    constant = spec.const and spec.storage is not None
    return bool(spec.is_static_shape_tensor and (planned or constant))


def _kernel_name(plan: Any, instruction: Any) -> str:
    index = getattr(instruction.instr_args, "op_index", None)
    return "" if index is None else plan.operators[index].name
