"""Answers of stories260K that do not end."""

from pathlib import Path

from safetensors.torch import load_file, save_file

ENDS = (1, 2)  # its BOS, with which the next story would begin, ends an answer too
WITHOUT_ENDS = {str(token): -100 for token in ENDS}  # a logit_bias


def write_endless_head(weights: Path) -> None:
    """Adds a head to tied weights that never says `ENDS`, at whatever temperature: their logits are
    8 times the mean of all, which is negative."""
    tensors = load_file(weights)
    head = tensors["model.embed_tokens.weight"].clone()
    head[list(ENDS)] = 8 * head.mean(0)
    save_file({**tensors, "lm_head.weight": head}, weights)
