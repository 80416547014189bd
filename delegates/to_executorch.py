"""The last step of every delegate's lowering: from the edge program to the one to write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from delegates.errors import DelegateError
from delegates.passes.source_map import keep_view_handles, keep_write_handles
from delegates.passes.traced_calls import calls_not_traced
from delegates.report import DelegationReport
from delegates.source_lines import UNKNOWN

if TYPE_CHECKING:
    from executorch.exir import (
        EdgeProgramManager,
        ExecutorchBackendConfig,
        ExecutorchProgramManager,
    )

NAMED_DATA_ALIGNMENT = 16


@dataclass(frozen=True)
class Lowered:
    """A finished program and its reports.

    Attributes:
        program: writes the `.pte`.
        report: where the nodes went.
        etrecord: ExecuTorch's record for its Inspector, if requested.
    """

    program: "ExecutorchProgramManager"
    report: DelegationReport
    etrecord: Any | None


def finish(
    edge: "EdgeProgramManager",
    report: DelegationReport,
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
    config: "ExecutorchBackendConfig | None" = None,
) -> Lowered:
    """Converts a partitioned edge program to the program to write.

    Args:
        edge: the program; its contents are taken over.
        report: where its nodes went.
        named_data: additional blobs for the file.
        with_etrecord: keep the record that ExecuTorch's Inspector needs.
        config: ExecuTorch's file layout; None: its default.

    Raises:
        DelegateError: an operator is left that no kernel computes.
    """
    for key, data in named_data.items():
        edge._named_data_store.add_named_data(key, data, alignment=NAMED_DATA_ALIGNMENT)
    with calls_not_traced(edge.exported_program().graph_module):
        finished = edge.to_executorch(config)
    if with_etrecord:
        keep_view_handles(finished)
        keep_write_handles(finished)
    _check_kernels(finished, report)
    return Lowered(finished, report, finished.get_etrecord() if with_etrecord else None)


def _check_kernels(program: "ExecutorchProgramManager", report: DelegationReport) -> None:
    """Checks a finished program against the kernels of a stock ExecuTorch LLM runtime.

    Raises:
        DelegateError: neither a delegate nor a kernel computes an operator.
    """
    operators = {
        f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        for plan in program.executorch_program.execution_plan
        for operator in plan.operators
    }
    if not operators:
        return
    import executorch.kernels.quantized  # noqa: F401  (registers its kernels)
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from executorch.extension.pybindings.portable_lib import _get_operator_names

    for operator in sorted(operators - set(_get_operator_names())):
        name = operator.partition(".")[0].removeprefix("aten::")
        line = next((left.line for left in report.lines if left.operator == name), UNKNOWN)
        raise DelegateError(
            f"No delegate takes {name} ({line}), and ExecuTorch has no kernel for it; "
            "leave it out of the model, or export with another --delegate."
        )
