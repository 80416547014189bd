"""The types of tensors that programs take and return."""

import torch

from exporter.errors import ExportError

TYPES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}


def check_type(name: str, type: torch.dtype | type) -> str:
    """Returns numpy's name of a tensor's type, or "bfloat16".

    Args:
        name: of the input or the output.
        type: of what is no tensor, its class.

    Raises:
        ExportError: programs do not have it.
    """
    if type in TYPES:
        return TYPES[type]
    kind = type if isinstance(type, torch.dtype) else type.__name__
    raise ExportError(
        f"{name} is {kind}, which a program cannot take or return; use one of "
        f"{', '.join(TYPES.values())}."
    )
