"""StableLM: LayerNorms, biases, heads of which a quarter rotates, and perhaps parallel blocks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import decoder, mlp, unrotated_attention
from exporter.models.families.phi import rotated
from exporter.models.family import Family
from exporter.models.fields import count, flag, refuse
from exporter.models.rotary_config import rotary
from exporter.models.spec import DecoderSpec, LayerSpec, Norms
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "layer_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.25,
    "max_position_embeddings": 4096,
    "num_key_value_heads": 32,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    refuse(fields, "qk_layernorm", False)
    fields |= {"rms_norm_eps": fields["layer_norm_eps"], "head_dim": None}
    mixer = unrotated_attention(fields, bias=flag(fields, "use_qkv_bias"))
    mixer = replace(mixer, rotary=rotary(fields, mixer.head_dim))
    layer = LayerSpec(mixer, mlp(fields))
    if flag(fields, "use_parallel_residual"):
        layer = replace(layer, feed_forward_norms=Norms("input_layernorm"), parallel=True)
    plain = decoder(fields, [layer] * count(fields, "num_hidden_layers"))
    return replace(plain, norm="layer_with_bias")


def stored(spec: DecoderSpec, name: str) -> Stored:
    return rotated(spec, name, Stored((name,)))


FAMILY = Family("stablelm", spec, stored)
