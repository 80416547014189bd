"""From the captured program to a `.pte` whose decoder is one Vulkan graph."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from torch import Tensor
from torch.export import ExportedProgram

from delegates.errors import DelegateError
from delegates.limits_of.vulkan import LIMITS
from delegates.passes.attention import refuse_caps_and_sinks, refuse_windows
from delegates.passes.graph import complete_values, drop_checks
from delegates.passes.in_place import passes_in_place
from delegates.passes.quantized import expand_linears
from delegates.passes.stock_operators import (
    rewrite_attention,
    rewrite_embeddings,
)
from delegates.passes.weights import weights_not_copied
from delegates.report import DelegationReport, delegation_report
from delegates.to_executorch import Lowered, finish


def lower(
    program: ExportedProgram,
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
) -> Lowered:
    """Lowers the captured program to one Vulkan graph, including its caches and 4-bit linears.

    Reading the position and gathering from a quantized embedding stay outside; stock kernels do
    them on the processor.

    Raises:
        DelegateError: it has no kernels for the weights, or does not take the program in one piece.
    """
    LIMITS.check_program(program)
    refuse_windows("Vulkan", program)
    refuse_caps_and_sinks("Vulkan", program)
    rewrite_attention(program)
    rewrite_embeddings(program)
    expand_linears(program)
    drop_checks(program)
    if with_etrecord:
        complete_values(program)

    from executorch.exir import EdgeCompileConfig, to_edge

    with root_logger_quiet():  # which importing the partitioner sets to INFO
        from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
        from executorch.backends.vulkan.vulkan_preprocess import VulkanBackend

        with passes_in_place():
            edge = to_edge(
                program,
                constant_methods=dict(constant_methods),
                compile_config=EdgeCompileConfig(
                    _check_ir_validity=False,  # the verifier knows neither llama:: nor torchao's
                    _skip_dim_order=True,
                ),
                generate_etrecord=with_etrecord,
            )
        with weights_not_copied(VulkanBackend):
            try:
                edge = edge.to_backend(VulkanPartitioner({"require_dynamic_shapes": True}))
            except Exception as error:  # of its pass manager, whatever went wrong
                cause = str(error.__cause__ or error).partition("\n")[0]
                raise DelegateError(
                    f"Vulkan's lowering cannot take this model ({cause}): export with another "
                    "--delegate."
                ) from error
    report = _with_linears(delegation_report("vulkan", edge.exported_program().graph_module))
    if report.calls != 1 or report.linears_delegated < report.linears:
        raise DelegateError(
            f"Vulkan takes the program in {report.calls} pieces with {report.linears_delegated} of "
            f"{report.linears} linear layers; it must take all in one: export with another "
            "--delegate."
        )
    return finish(edge, report, named_data, with_etrecord)


def _with_linears(report: DelegationReport) -> DelegationReport:
    """Counts products of matrices as the linears they were, the only ones in a captured program.

    They are lowered as such because ExecuTorch's pattern of a quantized linear takes the next
    reshaping for the one that belongs to a product, and drops it.
    """

    def counted(operators: dict[str, int]) -> dict[str, int]:
        products = sum(operators.get(name, 0) for name in ("mm", "addmm"))
        others = {name: count for name, count in operators.items() if name not in ("mm", "addmm")}
        return {**others, "linear": products} if products else others

    return replace(report, delegated=counted(report.delegated), left=counted(report.left))


@contextmanager
def root_logger_quiet() -> Iterator[None]:
    """Keeps ExecuTorch's backend from logging every layout it chooses."""
    root = logging.getLogger()
    level = root.level

    def is_warning(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING

    root.addFilter(is_warning)
    try:
        yield
    finally:
        root.removeFilter(is_warning)
        root.setLevel(level)


def load(path: Path) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Returns None: ExecuTorch's Python runtime has no Vulkan."""
    return None
