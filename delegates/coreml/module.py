"""What Core ML takes of any module."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.export import ExportedProgram

from delegates.contract import ModulePart
from delegates.coreml.guards import check_float16
from delegates.coreml.lower import compile_specs, progress_bars_off, temporary_files_deleted
from delegates.coreml.rewrite import bound_clamps
from delegates.errors import DelegateError
from delegates.passes.weights import weights_not_copied


@contextmanager
def module_part(program: ExportedProgram) -> Iterator[ModulePart]:
    """Provides how Core ML takes what it supports, in float16.

    Raises:
        DelegateError: a weight is beyond float16, or calls change buffers: as Core ML's state they
            would begin with zeros.
    """
    changed = list(program.graph_signature.buffers_to_mutate.values())
    if changed:
        raise DelegateError(
            f"Core ML would begin with zeros in {changed[0]}, which calls change: use --delegate "
            "xnnpack."
        )
    check_float16(program)
    from executorch.backends.apple.coreml.compiler import CoreMLBackend
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner

    with (
        temporary_files_deleted(),
        progress_bars_off(),
        weights_not_copied(CoreMLBackend, program.range_constraints),
    ):
        partitioner = CoreMLPartitioner(compile_specs=compile_specs())
        yield ModulePart(CoreMLBackend.__name__, partitioner, rewrite=_write_defaults)


def _write_defaults(program: ExportedProgram) -> None:
    """Writes out the stride of a pool that is its kernel's size, which the converter has no default
    for, and the bounds of clamps."""
    bound_clamps(program)
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.max_pool2d.default and len(node.args) == 2:
            node.args = (*node.args, node.args[1])
