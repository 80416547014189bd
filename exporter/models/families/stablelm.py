"""StableLM: LayerNorms, biases, heads of which a quarter rotates, and perhaps parallel blocks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import decoder, mlp, unrotated_attention
from exporter.models.families.phi import rotated
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.rotary_config import rotary
from exporter.models.spec import DecoderSpec, LayerSpec, Norms, QkNorm
from exporter.models.tensor_layout import Stored, joined

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
    fields |= {"rms_norm_eps": fields["layer_norm_eps"], "head_dim": None}
    qk_norm: QkNorm = "layer_by_head" if flag(fields, "qk_layernorm") else None
    mixer = unrotated_attention(fields, bias=flag(fields, "use_qkv_bias"), qk_norm=qk_norm)
    mixer = replace(mixer, rotary=rotary(fields, mixer.head_dim))
    layer = LayerSpec(mixer, mlp(fields))
    if flag(fields, "use_parallel_residual"):
        layer = replace(layer, feed_forward_norms=Norms("input_layernorm"), parallel=True)
    plain = decoder(fields, [layer] * count(fields, "num_hidden_layers"))
    return replace(plain, norm="layer_with_bias")


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Each head's norm is a tensor of its own; GGUF has one with a row for each."""
    block, _, part = name.removesuffix(".weight").rpartition(".")
    if part not in ("q_norm", "k_norm"):
        return rotated(spec, name, Stored((name,)))
    mixer = spec.attentions[0]
    heads = mixer.num_attention_heads if part == "q_norm" else mixer.num_key_value_heads
    names = (f"{block}.{part[0]}_layernorm.norms.{head}.weight" for head in range(heads))
    whole = Stored((name,)).flat()
    return rotated(spec, name, joined(*names)).or_else(rotated(spec, name, whole))


FAMILY = Family("stablelm", spec, stored)
