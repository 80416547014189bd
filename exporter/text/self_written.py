"""Text that a model writes itself: a calibration text that looks like what the model says.

It is sampled from the model's own distribution as in LLM-QAT (Liu et al., 2023, section 3.1),
always at temperature 1. The float model writes it; for a large model, an 8-bit form does, which
takes a quarter of the memory.
"""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.listener import Listener
from exporter.models.decoder import CausalLM
from exporter.plan.plan import empty_model
from quant.budget.allocate_bits import numbers_of
from quant.cache.key import weights_key
from quant.cache.store import Cache
from quant.progress import ProgressMeter
from quant.quantize import quantize
from quant.scheme import Scheme

ROWS = 32  # texts that are written at once
SEED = 20240
_FLOAT_WEIGHTS = 2_000_000_000  # most weights of a model that writes in float32
_TOKENS = "tokens"


def write_texts(
    checkpoint: Checkpoint,
    prompts: Sequence[Sequence[int]],
    length: int,
    form: Scheme,
    cache: Cache | None,
    listener: Listener,
) -> Tensor:
    """Writes texts with a checkpoint's model, or returns them from the cache.

    Args:
        prompts: the token ids that each text begins with, fewer than `length`.
        length: tokens of a text, with its prompt.
        form: how the weights of the model that writes are stored.

    Returns:
        int64 (len(prompts), length).

    Raises:
        ExportError: the model gives values that are not finite.
    """
    model = empty_model(checkpoint.config.for_context(length))
    key = None
    if cache is not None:
        asked = repr((list(map(list, prompts)), length, form.name, ROWS, SEED))
        key = weights_key(model, checkpoint, hashlib.sha256(asked.encode()).hexdigest())
        kept = cache.load(key)
        if kept is not None:
            return kept[_TOKENS]
    listener.stage("write text")
    quantize(model, form, checkpoint)
    meter = ProgressMeter(len(prompts) * length, listener.progress)
    generator = torch.Generator().manual_seed(SEED)
    tokens = torch.cat(
        [
            _sample(model, prompts[first : first + ROWS], length, generator, meter)
            for first in range(0, len(prompts), ROWS)
        ]
    )
    if cache is not None and key is not None:
        cache.store(key, {_TOKENS: tokens}, f"text that {checkpoint.name} wrote")
    return tokens


def writing_form(model: CausalLM, texts: int, length: int, memory: int | None) -> Scheme | None:
    """Returns the form of the model that can write in so many bytes of memory; None if none can.

    Args:
        model: on the meta device.
    """
    numbers = numbers_of(model)
    integers = Scheme("rtn8", whole_rows=True)  # rounds inputs in fewer steps
    forms = [integers] if numbers > _FLOAT_WEIGHTS else [Scheme("none"), integers]
    for form in forms:
        if memory is None or writing_bytes(model, form, texts, length) <= memory:
            return form
    return None


def writing_bytes(model: CausalLM, form: Scheme, texts: int, length: int) -> int:
    """Estimates the memory for writing: the weights, the largest of them twice in float32, and the
    caches."""
    numbers = numbers_of(model)
    largest = max(parameter.numel() for parameter in model.parameters())
    mixers = model.config.attentions
    row = sum(2 * mixer.num_key_value_heads * mixer.head_dim for mixer in mixers)
    stored = numbers * (4 if form.name == "none" else 1)
    return stored + 2 * 4 * largest + 2 * 4 * min(texts, ROWS) * length * row


@torch.no_grad()
def _sample(
    model: CausalLM,
    prompts: Sequence[Sequence[int]],
    length: int,
    generator: torch.Generator,
    meter: ProgressMeter,
) -> Tensor:
    """Continues all prompts together, one token at a time: int64 (len(prompts), length)."""
    model.setup_cache(length, len(prompts))
    tokens = torch.empty(len(prompts), length, dtype=torch.int64)
    tokens[:, 0] = torch.tensor([prompt[0] for prompt in prompts])
    for end in range(1, length):
        logits = model(tokens[:, end - 1 : end], torch.tensor([end - 1]))
        if not logits.isfinite().all():
            raise ExportError(
                "The model gives values that are not finite as it writes text for its calibration: "
                "check the checkpoint."
            )
        tokens[:, end] = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        for row, prompt in enumerate(prompts):
            if end < len(prompt):
                tokens[row, end] = prompt[end]
        meter.advance("text", len(prompts))
    return tokens
