"""What XNNPACK takes of any module."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from torch.export import ExportedProgram
from torch.fx import Node

from delegates.contract import ModulePart
from delegates.executorch_runtime import register_kernels
from delegates.passes.nan import odd_constants
from delegates.passes.quantized import expand_embeddings, expand_linears, gathered
from delegates.passes.weights import own_memory, weights_not_copied
from delegates.xnnpack.faults import fault, is_empty
from delegates.xnnpack.gelu import rewrite_gelu
from delegates.xnnpack.reasons import noted_reasons


@contextmanager
def module_part(program: ExportedProgram) -> Iterator[ModulePart]:
    """Provides how XNNPACK takes what it supports, without what it computes wrongly."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend

    partitioner, odd = XnnpackPartitioner(), odd_constants(program)
    with weights_not_copied(XnnpackBackend), noted_reasons() as reasons:
        for config in partitioner.target_partitioner_configs.values():
            config.check_constraints = _without_faults(config.check_constraints, odd, reasons)
        yield ModulePart(XnnpackBackend.__name__, partitioner, reasons, _rewrite)


def _rewrite(program: ExportedProgram) -> None:
    own_memory(program)  # XNNPACK's writer reads a weight from the beginning of its memory, and all
    rewrite_gelu(program)
    expand_linears(program)
    expand_embeddings(program, gathered)


def _without_faults(
    check: Callable[[Node, ExportedProgram], bool], odd: Collection[str], reasons: dict[str, str]
) -> Callable[[Node, ExportedProgram], bool]:
    def checked(node: Node, program: ExportedProgram) -> bool:
        reason = fault(node, program, odd)
        if reason is not None:
            reasons[node.name] = reason
            return False
        taken = check(node, program)
        if not taken and is_empty(node):
            reasons[node.name] = "it takes no tensors of size 0"
        return taken

    return checked


def runs_modules() -> bool:
    """Registers the kernels of what is left, in ExecuTorch's Python runtime."""
    register_kernels()
    return True
