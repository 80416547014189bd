"""SmolLM3: Llama without rotary embedding in some layers, by default every fourth."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import attention, context_limit, decoder, mlp
from exporter.models.family import Family
from exporter.models.fields import count, flag, layer_types
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
    layers = [with_rope if has else without for has in has_rope]
    return decoder(fields, layers, context_limit(fields, _window(fields, has_rope)))


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


def _window(fields: Mapping[str, Any], has_rope: list[Any]) -> int | None:
    """Returns the window, if any layer has one. If the config lists no layers, those without rotary
    embedding have none."""
    if fields.get("sliding_window") is None or not flag(fields, "use_sliding_window"):
        return None
    kinds = layer_types(fields)
    slides = "sliding_attention" in kinds if kinds else not all(has_rope)
    return count(fields, "sliding_window") if slides else None


FAMILY = Family("smollm3", spec)
