"""Qwen3.5, its text part: the gated delta rule, and in every fourth layer attention whose outputs
are gated and whose heads rotate in part."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import decoder, mlp, unrotated_attention
from exporter.models.family import Family
from exporter.models.fields import FULL, count, flag, layer_types, refuse
from exporter.models.rotary_config import of_text, rotary
from exporter.models.spec import DecoderSpec, DeltaSpec, LayerSpec
from exporter.models.tensor_layout import Stored

_DELTA = "linear_attention"
DEFAULTS = {
    "vocab_size": 248320,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 32768,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.25,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = of_text({**DEFAULTS, **config})
    refuse(fields, "hidden_act", "silu", "swish")  # that of the convolution too
    refuse(fields, "attn_output_gate", True)
    bias = flag(fields, "attention_bias")
    attention = unrotated_attention(fields, bias=bias, out_bias=bias, qk_norm="heads")
    attention = replace(attention, rotary=rotary(fields, attention.head_dim), gate="numbers")
    delta = DeltaSpec(
        num_key_heads=count(fields, "linear_num_key_heads"),
        num_value_heads=count(fields, "linear_num_value_heads"),
        key_head_dim=count(fields, "linear_key_head_dim"),
        value_head_dim=count(fields, "linear_value_head_dim"),
        kernel_size=count(fields, "linear_conv_kernel_dim", least=2),
    )
    if delta.num_value_heads % delta.num_key_heads:
        raise ExportError(
            f"linear_num_value_heads {delta.num_value_heads} is not a multiple of "
            f"linear_num_key_heads {delta.num_key_heads}; each key head must serve the same number "
            "of value heads."
        )
    layers = {
        kind: LayerSpec(mixer, mlp(fields)) for kind, mixer in ((FULL, attention), (_DELTA, delta))
    }
    return decoder({**fields, "layer_types": None}, [layers[kind] for kind in _kinds(fields)])


def _kinds(fields: Mapping[str, Any]) -> list[str]:
    layers = count(fields, "num_hidden_layers")
    kinds = layer_types(fields, (FULL, _DELTA))
    if kinds and len(kinds) != layers:
        raise ExportError(f"layer_types lists {len(kinds)} layers; num_hidden_layers is {layers}.")
    every = count(fields, "full_attention_interval")
    return kinds or [_DELTA if (index + 1) % every else FULL for index in range(layers)]


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Norms are stored minus 1, but for those of the delta rule's heads; queries and their gates
    are rows of one tensor, head by head."""
    kept = Stored((name,))
    module, _, part = name.rpartition(".")[0].rpartition(".")
    if part in ("norm", "input_layernorm", "post_attention_layernorm"):
        return kept if module.endswith("linear_attn") else kept.plus_one()
    if not module.endswith("self_attn"):
        return kept
    attention = spec.attentions[0]
    head_dim, rotary = attention.head_dim, attention.rotary
    if part in ("q_norm", "k_norm"):
        kept = kept.plus_one()
    if part in ("q_proj", "gate_proj"):
        fused = Stored((f"{module}.q_proj.{name.rpartition('.')[2]}",))
        which = 0 if part == "q_proj" else 1
        kept = fused.then(lambda rows: rows.unflatten(0, (-1, 2, head_dim))[:, which].flatten(0, 1))
    if part in ("q_proj", "k_proj", "q_norm", "k_norm") and rotary is not None:
        kept = kept.half_split(head_dim, rotary.leading)
    return kept


FAMILY = Family("qwen3_5_text", spec, stored)
