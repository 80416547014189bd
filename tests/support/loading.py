"""A checkpoint as a whole model, for tests that compare what it computes."""

import torch

from exporter.checkpoint import Checkpoint
from exporter.models.decoder import CausalLM


def loaded(checkpoint: Checkpoint) -> CausalLM:
    """Every weight of the checkpoint, checked and in float32."""
    with torch.device("meta"):
        model = CausalLM(checkpoint.config).eval()
    checkpoint.check(model)
    checkpoint.load_into(model, "")
    return model
