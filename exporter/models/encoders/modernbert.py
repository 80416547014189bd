"""ModernBERT (Warner et al., 2024): rotary positions, a window in two of three layers, gated
feed-forward parts, and norms in front of the blocks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import decoder, mlp, unrotated_attention, windowed
from exporter.models.encoder_spec import StackSpec
from exporter.models.family import Family
from exporter.models.fields import count, flag, layer_kinds, positive
from exporter.models.rotary_config import rotary_by_kind
from exporter.models.spec import LayerSpec, NormKind, Norms
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "vocab_size": 50368,
    "hidden_size": 768,
    "intermediate_size": 1152,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "hidden_activation": "gelu",
    "max_position_embeddings": 8192,
    "norm_eps": 1e-5,
    "local_attention": 128,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
}
_NAMES = {
    "embed_tokens": "embeddings.tok_embeddings",
    "embedding_layer_norm": "embeddings.norm",
    "norm": "final_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "mlp_norm",
    "self_attn.o_proj": "attn.Wo",
    "mlp.down_proj": "mlp.Wo",
}
_FUSED = {"q_proj": 0, "k_proj": 1, "v_proj": 2, "gate_proj": 0, "up_proj": 1}


def spec(config: Mapping[str, Any]) -> StackSpec:
    fields = {**_DEFAULTS, **config}
    fields["rope_theta"] = positive(fields, "global_rope_theta")
    fields["rms_norm_eps"] = positive(fields, "norm_eps")
    # On each side of a token; its own is one of the window.
    fields["sliding_window"] = count(fields, "local_attention") // 2 + 1
    every = count(fields, "global_attn_every_n_layers")
    kinds = layer_kinds(fields, lambda index: index % every != 0)
    bias = flag(fields, "attention_bias")
    mixer = replace(unrotated_attention(fields, bias=bias, out_bias=bias), text="all")
    tables = rotary_by_kind(fields, mixer.head_dim, positive(fields, "local_rope_theta"))
    part = mlp(fields, bias=flag(fields, "mlp_bias"), act="hidden_activation")
    first, *others = windowed(fields, LayerSpec(mixer, part), kinds, tables)
    layers = [replace(first, mixer_norms=Norms(None)), *others]
    norm: NormKind = "layer_with_bias" if flag(fields, "norm_bias") else "layer"
    stack = replace(decoder(fields, layers), norm=norm, bos_token_id=None, eos_token_ids=())
    return StackSpec(stack, embedding_norm=True)


def stored(spec: StackSpec, name: str) -> Stored:
    """One matrix makes queries, keys and values; another both sides of a gated part."""
    path, kind = name.removeprefix("model.").rsplit(".", 1)
    start = ""
    if path.startswith("layers."):
        layers, index, path = path.split(".", 2)
        start = f"{layers}.{index}."
    part = path.rpartition(".")[2]
    if part not in _FUSED:
        return Stored((f"{start}{_NAMES.get(path, path)}.{kind}",))
    layer = spec.decoder.layers[int(start.split(".")[1])]
    if path.startswith("mlp."):
        fused, size = "mlp.Wi", layer.feed_forward.intermediate_size
    else:
        attention = layer.attention
        fused, size = "attn.Wqkv", attention.num_attention_heads * attention.head_dim
    first = _FUSED[part] * size
    return Stored((f"{start}{fused}.{kind}",)).rows(first, first + size)


def is_unread(_: StackSpec, name: str) -> bool:
    """What predicts masked tokens, or classes."""
    return name.startswith(("head.", "decoder.", "classifier."))


FAMILY: Family[StackSpec] = Family("modernbert", spec, stored, is_unread)
