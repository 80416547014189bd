"""Reads the outputs that a program logged while it ran: an ETDump and its debug buffer."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from devtools.errors import DevtoolsError

_NO_ID = -1
_FLOAT = "FLOAT"


@dataclass(frozen=True)
class Output:
    """A float32 tensor that an instruction logged.

    Attributes:
        call: which execution of the program, from 0.
        instruction_id: of the program.
        delegate_debug_id: of the operator inside the delegate; None where the runtime logged it.
    """

    call: int
    instruction_id: int
    delegate_debug_id: str | None
    value: Tensor


def read_outputs(etdump: Path, buffer: Path) -> list[Output]:
    """Every float32 tensor that was logged, in order.

    Args:
        etdump: as ExecuTorch's Python runtime writes it after a run with a debug buffer.
        buffer: the debug buffer, written with it.

    Raises:
        DevtoolsError: nothing was logged.
    """
    from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

    data = bytearray(buffer.read_bytes())
    outputs = []
    calls = -1
    for run in deserialize_from_etdump_flatcc(etdump.read_bytes()).run_data:
        events = [event.debug_event for event in run.events or () if event.debug_event]
        calls += bool(events)
        for event in events:
            tensor = event.debug_entry.tensor
            if tensor is None or event.debug_entry.output:
                continue
            if tensor.scalar_type.name != _FLOAT or tensor.offset is None:
                continue
            count = math.prod(tensor.sizes)
            if count == 0:
                continue
            value = torch.frombuffer(data, dtype=torch.float32, count=count, offset=tensor.offset)
            debug_id = event.delegate_debug_id_int
            outputs.append(
                Output(
                    calls,
                    event.instruction_id,
                    None if debug_id in (_NO_ID, None) else str(debug_id),
                    value.reshape(tensor.sizes),
                )
            )
    if not outputs:
        raise DevtoolsError(
            "the program logged no output; run it in an ExecuTorch that records events, as its "
            "Python package does."
        )
    return outputs


def joined(values: Iterable[Tensor], width: int) -> Tensor | None:
    """Tensors one below the other as rows (rows, width); None where one has no such rows."""
    parts = []
    for value in values:
        if width == 0 or value.numel() == 0 or value.numel() % width:
            return None
        parts.append(value.reshape(-1, width))
    return torch.cat(parts) if parts else None
