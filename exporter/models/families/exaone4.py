"""EXAONE 4: norms after the blocks and norms of heads. In models with windows, only sliding layers
rotate."""

from collections.abc import Callable, Mapping
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import attention, decoder, mlp, windowed
from exporter.models.family import Family
from exporter.models.fields import FULL, SLIDING, count, layer_kinds
from exporter.models.spec import DecoderSpec, LayerSpec, Norms

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
    "num_key_value_heads": 32,
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
}
_AFTER = Norms(None, "post_attention_layernorm"), Norms(None, "post_feedforward_layernorm")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    mixer = attention(fields, qk_norm="heads")
    layer = LayerSpec(mixer, mlp(fields), *_AFTER)
    kinds = layer_kinds(fields, _slides(fields))
    if fields.get("sliding_window") is None:
        return decoder(fields, [layer] * len(kinds))
    tables = {FULL: None, SLIDING: mixer.rotary}
    return decoder(fields, windowed(fields, layer, kinds, tables))


def _slides(fields: Mapping[str, Any]) -> Callable[[int], bool]:
    """Reads the pattern: a number n, every n-th layer is full; or letters, L for each sliding
    layer."""
    pattern, last = fields.get("sliding_window_pattern"), count(fields, "num_hidden_layers") - 1
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        return lambda index: index < last and pattern[index % len(pattern)] == "L"
    if isinstance(pattern, str):
        raise ExportError(
            f"sliding_window_pattern is {pattern!r}; it must be a number of layers, or letters: L "
            "for a layer that slides, G for one that does not."
        )
    every = count(fields, "sliding_window_pattern", 1, least=0) or 1
    return lambda index: (index + 1) % every != 0


FAMILY = Family("exaone4", spec)
