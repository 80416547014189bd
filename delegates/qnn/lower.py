"""From the captured program to a `.pte` for the NPU (HTP) of one Qualcomm chip.

Qualcomm's compiler is in its SDK, which may not be redistributed; without it, only the check of
`LIMITS` runs.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from delegates.errors import DelegateError
from delegates.limits_of.qnn import LIMITS
from delegates.passes.attention import gather_rope, rewrite_attention
from delegates.passes.graph import drop_checks
from delegates.passes.narrow_integers import mask_by_distance, narrow_integers, write_by_choice
from delegates.report import delegation_report
from delegates.to_executorch import Lowered, finish

SOC = "THIMBLE_QNN_SOC"
DEFAULT_SOC = "SM8750"  # Snapdragon 8 Elite


def lower(
    program: ExportedProgram,
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
) -> Lowered:
    """Lowers the captured program to one graph in float16, with one token per call.

    Raises:
        DelegateError: there is no SDK, the chip is unknown, or Qualcomm's compiler did not take a
            linear.
    """
    LIMITS.check_program(program)
    specs = compile_specs(os.environ.get(SOC, DEFAULT_SOC))
    drop_checks(program)
    positions = narrow_integers(program)
    gather_rope(program, positions)
    rewrite_attention(program, positions, mask_by_distance, write_by_choice)
    program.graph.eliminate_dead_code()

    from executorch.backends.qualcomm.utils.utils import to_edge_transform_and_lower_to_qnn

    example = (torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, dtype=torch.long))
    edge = to_edge_transform_and_lower_to_qnn(
        program.module(),
        example,
        specs,
        constant_methods=dict(constant_methods),
        generate_etrecord=with_etrecord,
    )
    report = delegation_report("qnn", edge.exported_program().graph_module)
    if report.linears_delegated < report.linears:
        raise DelegateError(
            f"Qualcomm's compiler took {report.linears_delegated} of {report.linears} linear "
            "layers; it must take all: export with another --delegate."
        )
    return finish(edge, report, named_data, with_etrecord)


def socs() -> list[str]:
    """Returns the chips that ExecuTorch knows."""
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset

    return [chip.name for chip in QcomChipset if chip.name != "UNKNOWN_SM"]


def compile_specs(soc: str) -> list[Any]:
    """Returns the options of ExecuTorch's backend: the chip, its NPU, float16.

    Raises:
        DelegateError: ExecuTorch does not know the chip.
    """
    if soc not in socs():
        raise DelegateError(
            f"{SOC} is {soc!r}, which ExecuTorch does not know; it must be one of "
            f"{', '.join(socs())}."
        )
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils.utils import (
        generate_htp_compiler_spec,
        generate_qnn_executorch_compiler_spec,
    )

    return generate_qnn_executorch_compiler_spec(
        soc_model=QcomChipset[soc], backend_options=generate_htp_compiler_spec(use_fp16=True)
    )


def load(path: Path) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Returns None: exporting machines have no Qualcomm NPU."""
    return None
