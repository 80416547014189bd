"""Half of the text to calibrate on, where none was named: what the model itself writes.

It starts from the model's first token and, for a model that chats, from its template's first turn.
Shipped text of two kinds is the other half (`exporter/text.py`).
"""

import hashlib
from dataclasses import replace

import torch

from exporter.checkpoint import Checkpoint
from exporter.listener import Listener
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.self_written import write_texts, writing_bytes
from exporter.text import Text
from quant.cache.store import Cache
from quant.machine.memory import resident
from quant.machine.memory_size import show_size
from quant.machine.ranks import Ranks

ALONE = Ranks()


def with_own_text(
    options: ExportOptions,
    checkpoint: Checkpoint,
    text: Text,
    cache: Cache | None,
    listener: Listener,
    ranks: Ranks = ALONE,
) -> Text:
    """The same text with half of its calibration written by the model; as it is where the user
    named one, nothing is calibrated, or the memory is too little, which is said."""
    if text.calibration is None or not text.prompts:
        return text
    windows, length = text.calibration.shape
    rows = windows // (2 * len(text.prompts))
    if rows == 0:
        return text
    with torch.device("meta"):
        needed = resident() + writing_bytes(CausalLM(checkpoint.config), rows, length)
    if options.max_memory is not None and needed > options.max_memory:
        listener.note(
            f"Calibrating on shipped text alone: for the model to write its own takes about "
            f"{show_size(needed)} of memory, more than --max-memory."
        )
        return text
    shape = len(text.prompts) * rows, length
    own = torch.empty(shape, dtype=torch.int64, device=options.device)
    if ranks.first:
        own.copy_(write_texts(checkpoint, text.prompts, rows, length, cache, listener))
    ranks.share(own, 0)
    own = own.cpu()
    kept = torch.linspace(0, windows - 1, windows - len(own)).round().long()
    return replace(
        text,
        calibration=torch.cat([text.calibration[kept], own]),
        source=f"{text.source}; half of the calibration by the model itself",
        sha256=hashlib.sha256(text.sha256.encode() + own.numpy().tobytes()).hexdigest(),
    )
