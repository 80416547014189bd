"""What Core ML would compute wrongly in float16: refused."""

import torch
from torch.export import ExportedProgram

from delegates.errors import DelegateError

_LARGEST = torch.finfo(torch.float16).max


def check_float16(program: ExportedProgram) -> None:
    """Checks that float16 holds every float weight, scale and table of the captured program.

    Numbers below float16's normal range stay within 2^-25 of their value, which no product of
    this size of model notices; numbers beyond its largest would become infinite.

    Raises:
        DelegateError: a number beyond float16's largest, infinite or not a number.
    """
    for name, tensor in {**program.state_dict, **program.constants}.items():
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
            continue
        low, high = torch.aminmax(tensor.detach())
        if not (low >= -_LARGEST and high <= _LARGEST):
            worst = low if not low >= -_LARGEST else high
            raise DelegateError(
                f"{name} holds {worst.item():.6g}; Core ML computes in float16, which ends at "
                f"{_LARGEST:.0f}: export with --delegate cpu or xnnpack."
            )
