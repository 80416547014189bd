"""From the captured program to a `.pte` for our own CPU delegate, and back into a runtime."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from torch import Tensor
from torch.export import ExportedProgram

from delegates.contract import Taken
from delegates.errors import DelegateError
from delegates.executorch_runtime import open_program
from delegates.limits_of.cpu import LIBRARY
from delegates.methods import FORWARD, join, lowering
from delegates.module import LoweredMethod, with_shorter
from delegates.op_list.lower import file_layout, partition, to_edge_program
from delegates.report import DelegationReport, delegation_report
from delegates.to_executorch import Lowered, finish
from runtime.executorch_package import open_beside_executorch

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager


def lower(
    program: ExportedProgram,
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
) -> Lowered:
    """Lowers the captured program; a complete decoder becomes one delegate call.

    Raises:
        DelegateError: a weight cannot be packed, or a quantized operator is left over.
    """
    programs = {FORWARD: program}
    return lower_methods(programs, constant_methods, named_data, with_etrecord)


def lower_methods(
    programs: Mapping[str, ExportedProgram],
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
    modules: Mapping[str, LoweredMethod] = MappingProxyType({}),
) -> Lowered:
    """Lowers captured programs to the methods of one, as lower() does.

    Weights are stored once, and methods of one session share caches of the same name. Weights of
    several methods are not released, because each packs them.

    Args:
        modules: further methods, which are lowered already.
    """
    releasing = len(programs) == 1 and not with_etrecord
    edges: dict[str, EdgeProgramManager] = {}
    reports = {}
    for method, program in programs.items():
        with lowering(method):
            constants = {} if edges else constant_methods
            edge = to_edge_program(program, constants, with_etrecord)
            if releasing:
                program.state_dict.clear()
            taken = _partition(edge, releasing)
        graph_module = taken.edge.exported_program(method).graph_module
        edges[method] = taken.edge
        reports[method] = delegation_report("cpu", graph_module, taken.reasons)
        _check_left(reports[method])
    for method, module in modules.items():
        edges[method], reports[method] = module.edge, module.report
    layout = with_shorter(file_layout(), {name: one.shorter for name, one in modules.items()})
    return finish(join(edges), reports, named_data, with_etrecord, layout)


def take(
    program: ExportedProgram, constant_methods: Mapping[str, object], with_etrecord: bool
) -> Taken:
    """Takes what it supports of the captured program, whose weights stay.

    Raises:
        DelegateError: a weight cannot be packed, or an attention is not supported.
    """
    taken = _partition(to_edge_program(program, constant_methods, with_etrecord), releasing=False)
    left = delegation_report("cpu", taken.edge.exported_program().graph_module).lines
    for leftover in left:
        if leftover.operator.startswith("thimble::"):
            raise DelegateError(
                f"The CPU delegate does not support {leftover.operator} ({leftover.line}), and no "
                "other delegate supports it in this form."
            )
    return taken


def take_rest(edge: "EdgeProgramManager") -> Taken:
    """Takes what it supports of the rest of an edge program.

    Raises:
        DelegateError: a weight cannot be packed.
    """
    return _partition(edge, releasing=False)


def _partition(edge: "EdgeProgramManager", releasing: bool) -> Taken:
    from delegates.cpu.backend import ThimbleCpuBackend

    taken = partition(edge, ThimbleCpuBackend, releasing)
    return Taken(taken.edge, {name: f"cpu: {reason}" for name, reason in taken.reasons.items()})


def _check_left(report: DelegationReport) -> None:
    """Raises DelegateError if an operator is left that no kernel computes."""
    unknown = [name for name in report.left if name.startswith(("torchao::", "thimble::"))]
    if unknown:
        raise DelegateError(
            f"The graph has {', '.join(unknown)} in a form that no kernel supports: export with "
            "--quant none, rtn4, gptq4 or rtn8, or with another --delegate."
        )


def load(path: Path) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Opens a `.pte` in ExecuTorch's Python runtime with our delegate; None if that is not
    built."""
    if not register():
        return None
    return open_program(path)


@cache
def register() -> bool:
    """Loads the delegate's library into this process, where it registers itself."""
    if not LIBRARY.is_file():
        return False
    open_beside_executorch(LIBRARY)
    return True
