"""What one export is asked to do: the command line's flags as one value."""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from delegates import DEFAULT_DELEGATE
from exporter.models.family import Family
from quant.machine.device import HOST
from quant.scheme import Scheme

DEFAULT_CONTEXT = 2048


@dataclass(frozen=True)
class ExportOptions:
    """One export.

    Attributes:
        model: a preset such as "llama3", a checkpoint directory or a hub id; None where
            `checkpoint` says it all.
        out: the `.pte` to write.
        checkpoint: where the weights are, if not where `model` says.
        adapter: a directory or hub id of a LoRA adapter that is added to the weights.
        family: what the checkpoint's config means; None: the family of its model_type.
        tokenizer: a tokenizer file or directory, if not the checkpoint's own.
        scheme: how weights are stored.
        bits: most bits that a weight may take on average, all of them counted: 4 and 8 are spread.
        max_size: most bytes of the file; the same.
        calibration: text to calibrate and measure on; None takes the text shipped with the
            embedded model.
        calibration_tokens: for GPTQ; None takes a number that suits the model's size.
        max_context_len: positions of the KV cache; None takes 2048 or the model's limit.
        max_seq_len: most tokens in one call; None takes max_context_len.
        delegate: a name in delegates.DELEGATES, or several in order of preference, as in
            "coreml,cpu".
        etrecord: where to keep the graphs for the profiler.
        cache: the directory in which quantized layers are kept and found; None keeps nothing.
        max_memory: bytes that the export may take; None takes what it likes.
        device: what quantizes.
    """

    model: str | None
    out: Path
    checkpoint: str | None = None
    adapter: str | None = None
    family: Family | None = None
    tokenizer: Path | None = None
    scheme: Scheme = field(default_factory=Scheme)
    bits: float | None = None
    max_size: int | None = None
    calibration: Path | None = None
    calibration_tokens: int | None = None
    max_context_len: int | None = None
    max_seq_len: int | None = None
    delegate: str = DEFAULT_DELEGATE
    etrecord: Path | None = None
    cache: Path | None = None
    max_memory: int | None = None
    device: torch.device = HOST

    @property
    def has_budget(self) -> bool:
        """Whether 4 and 8 bits are spread over the weights."""
        return self.bits is not None or self.max_size is not None
