"""Where the arithmetic is done: on the CPU, or on one GPU per process.

The model, the cache, hidden states and files are in the CPU's memory or on its disk. Operands are
moved to the device piece by piece: a decoder layer, a batch of hidden states (quant.machine.spill
returns each to the device where it was made). Results stay there until the layer is finished.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from quant.errors import QuantError
from quant.machine.device_name import check_device_name
from quant.protocols import CausalLM

HOST = torch.device("cpu")
_ROWS, _GPU_ROWS = 320, 8192


def find_device(name: str, rank: int = 0, count: int = 1) -> torch.device:
    """Finds a device by name, and checks that it computes.

    Args:
        name: "auto" (a GPU where there is one), "cpu", "cuda" (this process's own) or "cuda:N".
        rank: of this process among the `count` on this machine that share the work.

    Raises:
        QuantError: there is no such device, or it does not work.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = torch.device(choose_device(name, gpus, rank, count))
    if device != HOST:
        try:
            torch.zeros(1, device=device).add_(1).item()
        except RuntimeError as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise QuantError(
                f"{device} cannot be used ({reason}); free or repair it, or take --device cpu."
            ) from None
    return device


def choose_device(name: str, gpus: int, rank: int = 0, count: int = 1) -> str:
    """Returns the name with its number, if there is such a GPU; raises as `find_device` does."""
    check_device_name(name)
    if name == "cpu" or (name == "auto" and gpus == 0):
        return "cpu"
    if gpus == 0:
        raise QuantError(
            f"--device {name} needs a GPU, but PyTorch {torch.__version__} finds none here; "
            "take --device cpu, or install a PyTorch that supports this machine's GPU."
        )
    if ":" not in name:
        if count > gpus:
            raise QuantError(
                f"{count} processes cannot have a GPU each where there are {gpus}; start as many "
                "as there are GPUs, or take --device cpu."
            )
        return f"cuda:{rank}"
    if count > 1:
        raise QuantError(
            f"--device {name} is one GPU, and there are {count} processes; write cuda, and each "
            "takes its own."
        )
    if int(name.partition(":")[2]) >= gpus:
        raise QuantError(
            f"--device {name} is not there; the GPUs here are cuda:0 to cuda:{gpus - 1}."
        )
    return name


def move(module: nn.Module, device: torch.device) -> None:
    """Moves a module's parameters, and the integers and scales of quantized ones, to a device; no
    copy is made if they are already there."""
    for owner in module.modules():
        for name, buffer in list(owner.named_buffers(recurse=False)):
            if buffer.device != device:
                owner.register_buffer(name, buffer.to(device))
        for name, parameter in list(owner.named_parameters(recurse=False)):
            if parameter.device != device:
                moved = nn.Parameter(parameter.to(device), requires_grad=False)
                owner.register_parameter(name, moved)


@contextmanager
def lent(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Within the block, a module's parameters are on a device; afterwards, on the CPU again."""
    move(module, device)
    yield
    move(module, HOST)


def context_on(device: torch.device, model: CausalLM, seq_len: int) -> Any:
    """What a model's layers take besides hidden states, always computed on the CPU."""

    def bring(leaf: object) -> object:
        return leaf.to(device) if isinstance(leaf, Tensor) else leaf

    return pytree.tree_map(bring, model.context(seq_len))


def rows_together(device: torch.device) -> int:
    """How many rows of a weight are solved together; they do not depend on each other.

    On a CPU, few enough that each thread has some, and that a block of their columns stays in its
    cache. A GPU needs no longer for a column of thousands than for the launch.
    """
    return _ROWS if device == HOST else _GPU_ROWS


@contextmanager
def full_memory_reported() -> Iterator[None]:
    """Within the block, a lack of GPU memory raises QuantError."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = str(error).partition(" GPU ")[0].rstrip(".")
        raise QuantError(
            f"the GPU has too little memory free ({reason}); free some, or take --device cpu."
        ) from None
