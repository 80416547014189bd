"""Refuses what Core ML would compute wrongly in float16."""

import torch
from torch.export import ExportedProgram

from delegates.errors import DelegateError

_LARGEST = torch.finfo(torch.float16).max


def check_float16(program: ExportedProgram) -> None:
    """Checks that float16 holds every float weight, scale and table of the captured program.

    Numbers below float16's normal range stay within 2^-25 of their value, which does not affect
    products in models of this size. Numbers beyond its largest would become infinite.

    Raises:
        DelegateError: a number is beyond float16's largest, infinite or not a number.
    """
    for name, tensor in {**program.state_dict, **program.constants}.items():
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
            continue
        low, high = torch.aminmax(tensor.detach())
        if not (low >= -_LARGEST and high <= _LARGEST):
            worst = low if not low >= -_LARGEST else high
            raise DelegateError(
                f"{name} contains {worst.item():.6g}; Core ML computes in float16, whose largest "
                f"number is {_LARGEST:.0f}: export with --delegate cpu or xnnpack."
            )
