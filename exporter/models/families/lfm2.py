"""LFM2 and LFM2.5: gated short convolutions, and attention with norms of heads in a few layers. The
size of the feed-forward part is computed."""

from collections.abc import Mapping, Sequence
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import attention, decoder
from exporter.models.family import Family
from exporter.models.fields import FULL, count, flag, layer_types, positive, refuse
from exporter.models.spec import ConvolutionSpec, DecoderSpec, LayerSpec, MlpSpec, Norms
from exporter.models.tensor_layout import Stored

_CONVOLUTION = "conv"
_DEFAULTS = {
    "vocab_size": 65536,
    "norm_eps": 1e-5,
    "rope_theta": 1000000.0,
    "max_position_embeddings": 128000,
    "num_key_value_heads": 8,
    "conv_L_cache": 3,
    "block_multiple_of": 256,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": True,
    "tie_word_embeddings": True,
}
_NORMS = Norms("operator_norm"), Norms("ffn_norm")
_NAMES = {
    "model.norm": "model.embedding_norm",
    "self_attn.o_proj": "self_attn.out_proj",
    "self_attn.q_norm": "self_attn.q_layernorm",
    "self_attn.k_norm": "self_attn.k_layernorm",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2",
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    size = count(fields, "hidden_size")
    refuse(fields, "conv_dim", size)
    refuse(fields, "conv_dim_out", size)
    refuse(fields, "block_use_swiglu", True)
    refuse(fields, "use_pos_enc", True)
    feed_forward = MlpSpec(_intermediate_size(fields))
    kernel = count(fields, "conv_L_cache", least=2)
    convolution = ConvolutionSpec(kernel, flag(fields, "conv_bias"))
    layers = {
        FULL: LayerSpec(attention(fields, qk_norm="heads"), feed_forward, *_NORMS),
        _CONVOLUTION: LayerSpec(convolution, feed_forward, *_NORMS),
    }
    tie = "tie_word_embeddings" if fields.get("tie_embedding") is None else "tie_embedding"
    shared = {
        "rms_norm_eps": positive(fields, "norm_eps"),
        "tie_word_embeddings": flag(fields, tie),
        "layer_types": None,
    }
    return decoder({**fields, **shared}, [layers[kind] for kind in _kinds(fields)])


def _kinds(fields: Mapping[str, Any]) -> list[str]:
    """Returns each layer's kind: as listed, or by the indices of those with attention."""
    layers = count(fields, "num_hidden_layers")
    kinds = listed_kinds(fields, (FULL, _CONVOLUTION))
    indices = fields.get("full_attn_idxs")
    if kinds or indices is None:
        return kinds or [FULL] * layers
    if not isinstance(indices, list) or any(index not in range(layers) for index in indices):
        raise ExportError(
            f"full_attn_idxs is {indices!r}; it must list layers from 0 to {layers - 1}."
        )
    return [FULL if index in indices else _CONVOLUTION for index in range(layers)]


def listed_kinds(fields: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    """Returns each layer's kind; empty if the config does not list them."""
    kinds, layers = layer_types(fields, known), count(fields, "num_hidden_layers")
    if kinds and len(kinds) != layers:
        raise ExportError(f"layer_types lists {len(kinds)} layers; num_hidden_layers is {layers}.")
    return kinds


def _intermediate_size(fields: Mapping[str, Any]) -> int:
    name = "intermediate_size" if fields.get("block_ff_dim") is None else "block_ff_dim"
    size = count(fields, name)
    if not flag(fields, "block_auto_adjust_ff_dim"):
        return size
    size = 2 * size // 3
    if fields.get("block_ffn_dim_multiplier") is None:
        return size
    multiple = count(fields, "block_multiple_of")
    size = int(positive(fields, "block_ffn_dim_multiplier") * size)
    return size + -size % multiple


def stored(spec: DecoderSpec, name: str) -> Stored:
    for ours, theirs in _NAMES.items():
        if f"{ours}." in name:
            return Stored((name.replace(f"{ours}.", f"{theirs}."),))
    return Stored((name,))


FAMILY = Family("lfm2", spec, stored)
