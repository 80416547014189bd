"""Helium: Llama whose heads rotate in pairs of neighbours."""

from collections.abc import Mapping
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import attention, decoder, mlp
from exporter.models.families import glm
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-8,
    "rope_theta": 100000.0,
    "max_position_embeddings": 4096,
    "num_key_value_heads": 20,
    "head_dim": 128,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    mixer = attention(fields, bias=flag(fields, "attention_bias"))
    heads, size = mixer.num_attention_heads * mixer.head_dim, count(fields, "hidden_size")
    if heads != size:
        raise ExportError(
            f"num_attention_heads times head_dim is {heads} and hidden_size is {size}; of this "
            "architecture they are the same number."
        )
    layer = LayerSpec(mixer, mlp(fields, flag(fields, "mlp_bias")))
    return decoder(fields, [layer] * count(fields, "num_hidden_layers"))


FAMILY = Family("helium", spec, glm.in_halves)
