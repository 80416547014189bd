"""What the CPU delegate takes of any module."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult

from delegates.contract import ModulePart
from delegates.cpu.lower import register
from delegates.executorch_runtime import register_kernels
from delegates.op_list.lower import file_layout
from delegates.op_list.partition import OpListPartitioner
from delegates.op_list.rewrite import free_views, rewrite, sample_of
from delegates.op_list.rewrite.one_sample import as_one_sample, has_one_sample
from delegates.passes.shorter import shorter_inputs
from delegates.passes.weights import weights_not_copied


@contextmanager
def module_part(program: ExportedProgram) -> Iterator[ModulePart]:
    """Provides how the delegate takes what op lists express."""
    from delegates.cpu.backend import ThimbleCpuBackend

    by_sample = sample_of(program) is not None
    partitioner = OpListPartitioner(
        program.state_dict, ThimbleCpuBackend.__name__, by_sample, shorter_inputs(program)
    )
    with weights_not_copied(ThimbleCpuBackend):
        yield ModulePart(
            ThimbleCpuBackend.__name__,
            partitioner,
            partitioner.reasons,
            claim=_claim,
            transforms=(_free_views,),
            layout=file_layout(),
        )


def _claim(program: ExportedProgram) -> None:
    sample = sample_of(program)
    if sample is not None:
        if has_one_sample(program, sample, rewrite):
            sample = as_one_sample(program, sample.name)
        rewrite(program, sample)


def _free_views(graph_module: GraphModule) -> PassResult:
    free_views(graph_module)
    return PassResult(graph_module, True)


def runs_modules() -> bool:
    """Registers our delegate, if it is built, and the kernels of what is left, in ExecuTorch's
    Python runtime."""
    register_kernels()
    return register()
