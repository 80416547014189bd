"""Apertus in GGUF files: the numbers of xIELU are metadata, one of each layer."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from exporter.checkpoint.gguf_rope import ROPE_FACTORS
from exporter.errors import ExportError

NAMES = {"attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}
_NUMBERS = ("alpha_p", "alpha_n", "beta")


def computed(
    stored: Callable[[str], Any],
    so_far: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    rope_factors: Mapping[str, Tensor],
) -> Mapping[str, Any]:
    """Returns the rotary table of files without factors: the family's own has some."""
    if ROPE_FACTORS in rope_factors:
        return {}
    return {"rope_parameters": {"rope_type": "default", "rope_theta": so_far.get("rope_theta")}}


def numbers(metadata: Mapping[str, Any]) -> dict[str, Tensor]:
    """Returns float32 (1,) of each layer, by their Hugging Face names; none of other architectures.

    Raises:
        ExportError: there is not one of each for every layer.
    """
    if metadata.get("general.architecture") != "apertus":
        return {}
    layers, made = metadata.get("apertus.block_count"), {}
    for name in _NUMBERS:
        values = metadata.get(f"xielu.{name}")
        if isinstance(values, float):
            values = [values] * (layers or 0)
        if not _is_list_of(values, layers):
            raise ExportError(f"xielu.{name} is {values!r}; it must have a number for each layer.")
        for layer, value in enumerate(values or ()):
            made[f"model.layers.{layer}.mlp.act_fn.{name}"] = torch.tensor([value])
    return made


def _is_list_of(values: Any, count: Any) -> bool:
    known = isinstance(values, list) and all(isinstance(value, float) for value in values)
    return known and len(values) == count
