"""Half of the calibration text, if the user named none: text that the model itself writes.

It starts from the model's first token and, for a model that chats, from its template's first turn.
Shipped text of two kinds is the other half (`exporter/text/prepare.py`).
"""

import hashlib
from dataclasses import replace

import torch

from exporter.listener import Listener
from exporter.plan.plan import Plan
from exporter.text.prepare import Text
from exporter.text.self_written import write_texts, writing_bytes, writing_form
from quant.machine.memory import resident
from quant.machine.memory_size import show_size
from quant.scheme import Scheme


def with_own_text(plan: Plan, listener: Listener) -> Text:
    """Replaces half of the shipped calibration text by text that the model writes.

    The text stays as it is if the user named one, if nothing is calibrated, or if there is too
    little memory, which is reported.
    """
    options, text, resources = plan.options, plan.text, plan.resources
    if text.calibration is None or not text.prompts:
        return text
    windows, length = text.calibration.shape
    rows = windows // (2 * len(text.prompts))
    if rows == 0:
        return text
    prompts = [prompt for prompt in text.prompts for _ in range(rows)]
    left = None if options.max_memory is None else options.max_memory - resident()
    form = writing_form(plan.empty, len(prompts), length, left)
    if form is None:
        least = resident() + writing_bytes(plan.empty, Scheme("rtn8"), len(prompts), length)
        listener.note(
            f"Calibrating on the shipped text only: to write its own, the model needs about "
            f"{show_size(least)} of memory, more than --max-memory."
        )
        return text
    own = torch.empty((len(prompts), length), dtype=torch.int64, device=resources.device)
    if resources.ranks.first:
        cache = resources.cache
        own.copy_(write_texts(plan.checkpoint, prompts, length, form, cache, listener))
    resources.ranks.share(own, 0)
    own = own.cpu()
    kept = torch.linspace(0, windows - 1, windows - len(own)).round().long()
    return replace(
        text,
        calibration=torch.cat([text.calibration[kept], own]),
        source=f"{text.source}; half of the calibration by the model itself",
        sha256=hashlib.sha256(text.sha256.encode() + own.numpy().tobytes()).hexdigest(),
    )
