"""From the captured program to a `.pte` for Metal: one call runs the whole decoder."""

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor
from torch.export import ExportedProgram

from delegates.finish import Lowered, finish
from delegates.limits import Limits, never, nothing_missing
from delegates.op_list.layout import SIZES, WEIGHT_BITS
from delegates.op_list.lower import file_layout, partition, to_edge_program
from delegates.report import check_whole, delegation_report

LIMITS = Limits(
    name="mps",
    runs_on="Macs with Apple silicon, and iPhones and iPads, on their GPU",
    weight_bits=WEIGHT_BITS,
    dynamic=True,
    missing=nothing_missing,
    checks=never,
    sizes=SIZES,
)


def lower(
    program: ExportedProgram,
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
) -> Lowered:
    """Lowers the captured program to the CPU delegate's op list, for the Metal delegate to run.

    The file is the CPU delegate's but for the name of the backend: weights lie at pages, where
    Metal reads them in place, and activations are quantized as the op list says.

    Args:
        program: the captured program, whose weights are given back.
        constant_methods: values a runtime reads by method name.
        named_data: blobs that ride along in the file.
        with_etrecord: keep the graphs that ExecuTorch's Inspector needs.

    Raises:
        DelegateError: a weight that cannot be packed, or a program that is not taken whole.
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
    """None: Metal runs on Apple's systems."""
    return None
