"""Captures the one program that every delegate starts from."""

import torch
from torch.export import Dim, ExportedProgram, export

from exporter.errors import ExportError
from exporter.model import CausalLM

EXAMPLE_SEQ_LEN = 3  # any length above 1: torch.export specializes a Dim whose example is 0 or 1


def capture(model: CausalLM, max_context_len: int, max_seq_len: int) -> ExportedProgram:
    """Captures `forward(tokens (1, seq_len), input_pos (1,))` with seq_len in 1 .. max_seq_len.

    Args:
        model: quantized or not; it is given a KV cache of max_context_len positions.
        max_context_len: positions the cache holds.
        max_seq_len: most tokens in one call.

    Raises:
        ExportError: lengths that do not fit each other or the model.
    """
    limit = model.config.context_limit
    if not 1 <= max_context_len <= limit:
        raise ExportError(
            f"--max-context-len {max_context_len} is not possible; "
            f"this model computes contexts of 1 to {limit} tokens."
        )
    if not 1 <= max_seq_len <= max_context_len:
        raise ExportError(
            f"--max-seq-len {max_seq_len} is not possible; it must be from 1 to the context length "
            f"of {max_context_len}."
        )
    model.setup_cache(max_context_len)
    model.eval().requires_grad_(False)
    seq_len = min(EXAMPLE_SEQ_LEN, max_seq_len)
    inputs = (torch.zeros(1, seq_len, dtype=torch.long), torch.zeros(1, dtype=torch.long))
    if max_seq_len == 1:
        return export(model, inputs)
    dims = ({1: Dim("seq_len", min=1, max=max_seq_len)}, None)
    return export(model, inputs, dynamic_shapes=dims)
