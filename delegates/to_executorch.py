"""The last step of every delegate's lowering: from the edge program to the one to write."""

import ast
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from delegates.errors import DelegateError
from delegates.executorch_runtime import register_kernels
from delegates.methods import FORWARD
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
        reports: where the nodes of each method went.
        etrecord: ExecuTorch's record for its Inspector, if requested.
    """

    program: "ExecutorchProgramManager"
    reports: Mapping[str, DelegationReport]
    etrecord: Any | None

    @property
    def report(self) -> DelegationReport:
        """Where the nodes of the only method went."""
        (report,) = self.reports.values()
        return report


def finish(
    edge: "EdgeProgramManager",
    report: DelegationReport | Mapping[str, DelegationReport],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
    config: "ExecutorchBackendConfig | None" = None,
) -> Lowered:
    """Converts a partitioned edge program to the program to write.

    Args:
        edge: the program; its contents are taken over.
        report: where the nodes of `forward` went; of other methods, by name.
        named_data: additional blobs for the file.
        with_etrecord: keep the record that ExecuTorch's Inspector needs.
        config: ExecuTorch's file layout; None: its default.

    Raises:
        DelegateError: an operator is left that no kernel computes.
    """
    for key, data in named_data.items():
        edge._named_data_store.add_named_data(key, data, alignment=NAMED_DATA_ALIGNMENT)
    reports = {FORWARD: report} if isinstance(report, DelegationReport) else report
    with ExitStack() as stack:
        for method in reports:
            graph_module = edge.exported_program(method).graph_module
            stack.enter_context(calls_not_traced(graph_module))
        try:
            finished = edge.to_executorch(config)
        except RuntimeError as error:
            # Operators without a form for memory that is given, which kernels need.
            missing = str(error).partition("Missing out variants: ")[2]
            if not missing:
                raise
            raise _not_computed(min(ast.literal_eval(missing)), reports.values()) from error
    if with_etrecord:
        keep_view_handles(finished)
        keep_write_handles(finished)
    _check_kernels(finished, reports.values())
    return Lowered(finished, reports, finished.get_etrecord() if with_etrecord else None)


def _check_kernels(
    program: "ExecutorchProgramManager", reports: Iterable[DelegationReport]
) -> None:
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
    register_kernels()
    from executorch.extension.pybindings.portable_lib import _get_operator_names

    for operator in sorted(operators - set(_get_operator_names())):
        raise _not_computed(operator, reports)


def _not_computed(operator: str, reports: Iterable[DelegationReport]) -> DelegateError:
    name = operator.partition(".")[0].removeprefix("aten::")
    left = [one for report in reports for one in report.lines]
    line = next((one.line for one in left if one.operator == name), UNKNOWN)
    return DelegateError(
        f"No delegate takes {name} ({line}), and ExecuTorch has no kernel for it; "
        "leave it out of the model, or export with another --delegate."
    )
