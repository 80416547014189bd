"""From the captured program to a `.pte` for Metal: one call runs the complete decoder."""

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor
from torch.export import ExportedProgram

from delegates.limits_of.mps import LIMITS
from delegates.op_list.lower import file_layout, partition, to_edge_program
from delegates.report import check_whole, delegation_report
from delegates.to_executorch import Lowered, finish


def lower(
    program: ExportedProgram,
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
) -> Lowered:
    """Lowers the captured program to the CPU delegate's op list, for the Metal delegate to run.

    The file is the CPU delegate's except for the name of the backend: weights are aligned to pages,
    so that Metal reads them in place, and activations are quantized as in the op list.

    Raises:
        DelegateError: a weight cannot be packed, or the program is not taken completely.
    """
    LIMITS.check_program(program)
    edge = to_edge_program(program, constant_methods, with_etrecord)
    if not with_etrecord:
        program.state_dict.clear()

    from delegates.mps.backend import ThimbleMetalBackend

    edge = partition(edge, ThimbleMetalBackend, releasing=not with_etrecord).edge
    check_whole("Metal", edge.exported_program())
    report = delegation_report("mps", edge.exported_program().graph_module)
    return finish(edge, report, named_data, with_etrecord, file_layout())


def load(path: Path) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Returns None: Metal runs only on Apple's systems."""
    return None
