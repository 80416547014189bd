"""Text that a model writes itself: a calibration text that looks like what the model says.

Sampled from the model's own distribution as in LLM-QAT (Liu et al., 2023, section 3.1), at
temperature 1 throughout. An 8-bit form of the model writes: it takes a quarter of the memory.
"""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from exporter.checkpoint import Checkpoint
from exporter.listener import Listener
from exporter.models.decoder import CausalLM
from quant.cache.key import weights_key
from quant.cache.store import Cache
from quant.progress import ProgressMeter
from quant.quantize import quantize
from quant.scheme import Scheme

ROWS = 16  # texts that are written at once
SEED = 20240
_TOKENS = "tokens"


def write_texts(
    checkpoint: Checkpoint,
    prompts: Sequence[Sequence[int]],
    rows: int,
    length: int,
    cache: Cache | None,
    listener: Listener,
) -> Tensor:
    """Texts of a checkpoint's model, the same whenever they are asked for from one cache.

    Args:
        prompts: token ids that texts begin with, shorter than `length`.
        rows: how many texts begin with each prompt.
        length: tokens of a text, with its prompt.

    Returns:
        int64 (len(prompts) * rows, length).
    """
    with torch.device("meta"):
        model = CausalLM(checkpoint.config)
    key = None
    if cache is not None:
        asked = repr((list(map(list, prompts)), rows, length, ROWS, SEED))
        key = weights_key(model, checkpoint, hashlib.sha256(asked.encode()).hexdigest())
        kept = cache.load(key)
        if kept is not None:
            return kept[_TOKENS]
    listener.stage("write text")
    quantize(model, Scheme("rtn8"), checkpoint)
    meter = ProgressMeter(len(prompts) * rows * length, listener.progress)
    generator = torch.Generator().manual_seed(SEED)
    texts = [
        _sample(model, prompt, min(ROWS, rows - first), length, generator, meter)
        for prompt in prompts
        for first in range(0, rows, ROWS)
    ]
    tokens = torch.cat(texts)
    if cache is not None and key is not None:
        cache.store(key, {_TOKENS: tokens}, f"text that {checkpoint.name} wrote")
    return tokens


def writing_bytes(model: CausalLM, rows: int, length: int) -> int:
    """The memory that writing takes, about: integers, the largest matrix in float, and caches."""
    numbers = sum(parameter.numel() for parameter in model.parameters())
    largest = max(parameter.numel() for parameter in model.parameters())
    mixers = [layer.mixer for layer in model.config.layers]
    row = sum(2 * mixer.num_key_value_heads * mixer.head_dim for mixer in mixers)
    return numbers + 2 * 4 * largest + 2 * 4 * min(rows, ROWS) * length * row


@torch.no_grad()
def _sample(
    model: CausalLM,
    prompt: Sequence[int],
    rows: int,
    length: int,
    generator: torch.Generator,
    meter: ProgressMeter,
) -> Tensor:
    """Several texts that begin with one prompt: int64 (rows, length)."""
    model.setup_cache(length, rows)
    tokens = torch.empty(rows, length, dtype=torch.int64)
    tokens[:, : len(prompt)] = torch.tensor(prompt)
    done = 0
    for end in range(len(prompt), length):
        logits = model(tokens[:, done:end], torch.tensor([done]))
        chosen = torch.multinomial(logits.softmax(-1), 1, generator=generator)
        tokens[:, end] = chosen[:, 0]
        meter.advance("text", rows * (end - done))
        done = end
    return tokens
