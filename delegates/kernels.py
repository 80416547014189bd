"""Whether ExecuTorch has a kernel for every operator that no delegate took."""

from typing import TYPE_CHECKING

from delegates.errors import DelegateError
from delegates.lines import UNKNOWN

if TYPE_CHECKING:
    from executorch.exir import ExecutorchProgramManager

    from delegates.finish import DelegationReport


def check_kernels(program: "ExecutorchProgramManager", report: "DelegationReport") -> None:
    """Checks a finished program against the kernels of a stock ExecuTorch LLM runtime.

    Raises:
        DelegateError: an operator that neither a delegate nor a kernel computes.
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
