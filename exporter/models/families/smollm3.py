"""SmolLM3: Llama without rotary embedding in some layers, by default every fourth."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import attention, decoder, mlp, windowed
from exporter.models.family import Family
from exporter.models.fields import FULL, count, flag, layer_kinds
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 2000000.0,
    "max_position_embeddings": 32768,
    "num_key_value_heads": 4,
    "tie_word_embeddings": True,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    turned = attention(fields, bias=bias, out_bias=bias)
    with_rope = LayerSpec(turned, mlp(fields, flag(fields, "mlp_bias")))
    without = replace(with_rope, mixer=replace(turned, rotary=None))
    has_rope = _has_rope(fields)
    windows = flag(fields, "use_sliding_window")
    kinds = layer_kinds(fields, lambda index: windows and not has_rope[index])
    if fields.get("sliding_window") is None:
        kinds = [FULL] * len(kinds)
    turned_layers, others = (windowed(fields, layer, kinds) for layer in (with_rope, without))
    pairs = zip(has_rope, turned_layers, others, strict=True)
    return decoder(fields, [layer if has else other for has, layer, other in pairs])


def _has_rope(fields: Mapping[str, Any]) -> list[Any]:
    """Returns a 1 for each layer with rotary embedding, else 0; by default every fourth has
    none."""
    layers = count(fields, "num_hidden_layers")
    listed = fields.get("no_rope_layers")
    if listed is None:
        interval = count(fields, "no_rope_layer_interval", 4)
        return [(layer + 1) % interval != 0 for layer in range(layers)]
    if not isinstance(listed, list) or len(listed) != layers:
        raise ExportError(
            f"no_rope_layers is {listed!r}; it must list a 1 or a 0 for each of the {layers} "
            "layers."
        )
    return listed


FAMILY = Family("smollm3", spec)
