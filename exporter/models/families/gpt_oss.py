"""gpt-oss: experts with biases and a clamped gate, sinks, and a window in every other layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import attention, decoder, experts, windowed
from exporter.models.family import Family
from exporter.models.fields import count, flag, layer_kinds, positive, refuse
from exporter.models.spec import DecoderSpec, LayerSpec, MlpSpec
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "head_dim": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 2880,
    "sliding_window": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 150000.0,
    "max_position_embeddings": 131072,
    "num_experts_per_tok": 4,
    "swiglu_limit": 7.0,
    "attention_bias": True,
}
_ROPE = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    if fields.get("num_experts") is None:  # the other name for it
        fields = {"num_local_experts": 128, **fields}
    if fields.get("rope_parameters") is None:
        fields["rope_parameters"] = _ROPE
    refuse(fields, "hidden_act", "silu")
    refuse(fields, "swiglu_alpha", 1.702)
    bias = flag(fields, "attention_bias")
    mixer = replace(attention(fields, bias=bias, out_bias=bias), sinks=True)
    limit, size = positive(fields, "swiglu_limit"), count(fields, "intermediate_size")
    expert = MlpSpec(size, "quick_gelu", bias=True, limit=limit)
    mixture = replace(experts(fields, expert, normalized=True), router_bias=True)
    kinds = layer_kinds(fields, lambda index: index % 2 == 0)
    return decoder(fields, windowed(fields, LayerSpec(mixer, mixture), kinds))


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Experts are stored together, as (in, out) matrices in which the outputs of gate and up
    alternate; those of MXFP4 are read one by one, as (out, in); those of GGUF also apart."""
    block, is_expert, rest = name.partition(".mlp.experts.")
    if not is_expert:
        return Stored((name,))
    number, part, kind = rest.split(".")
    whole = "down_proj" if part == "down_proj" else "gate_up_proj"
    if kind == "bias":
        entry = Stored((f"{block}.mlp.experts.{whole}_bias",)).entry(int(number))
        return Stored((name,)).or_else(_own_rows(entry, part))
    alone = Stored((f"{block}.mlp.experts.{number}.{whole}",))
    stacked = Stored((f"{block}.mlp.experts.{whole}",)).entry(int(number)).transposed()
    packed = _own_rows(alone, part).or_else(_own_rows(stacked, part))
    return Stored((name,)).or_else(packed)


def _own_rows(stored: Stored, part: str) -> Stored:
    if part == "down_proj":
        return stored
    first = 0 if part == "gate_proj" else 1
    return stored.then(lambda tensor: tensor[first::2])


FAMILY = Family("gpt_oss", spec, stored)
