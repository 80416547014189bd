"""Checkpoints: a Hugging Face directory, a hub id, GGUF or Meta's own files, as one Checkpoint."""

from exporter.checkpoint.adapter import refuse_adapter_beside, with_adapter
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.low_rank import read_adapters
from exporter.checkpoint.open import open_checkpoint

__all__ = [
    "Checkpoint",
    "open_checkpoint",
    "read_adapters",
    "refuse_adapter_beside",
    "with_adapter",
]
