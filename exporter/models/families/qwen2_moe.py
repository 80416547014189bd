"""Qwen2 with a mixture of experts, and one expert that all rows share, in the place of most
MLPs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import attention, decoder, experts, mlp, windowed
from exporter.models.families import qwen3_moe
from exporter.models.family import Family
from exporter.models.fields import FULL, SLIDING, count, flag, layer_kinds
from exporter.models.spec import DecoderSpec, LayerSpec, MlpSpec
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 32768,
    "num_key_value_heads": 16,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "intermediate_size": 5632,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "decoder_sparse_step": 1,
    "qkv_bias": True,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    dense = LayerSpec(attention(fields, bias=flag(fields, "qkv_bias")), mlp(fields))
    most = count(fields, "max_window_layers", least=0)
    slides = flag(fields, "use_sliding_window") and fields.get("sliding_window") is not None
    kinds = layer_kinds(fields, lambda index: index % 2 == 0 and index < most and slides)
    if SLIDING in kinds and not flag(fields, "use_sliding_window"):
        raise ExportError(  # transformers would take a window of 0, in which there is nothing
            "layer_types lists sliding layers, but use_sliding_window is not true; set it, or list "
            "full_attention alone."
        )
    kinds = kinds if slides else [FULL] * len(kinds)
    pairs = zip(*(windowed(fields, x, kinds) for x in (dense, sparse(fields, dense))), strict=True)
    chosen = zip(pairs, qwen3_moe.sparse_layers(fields), strict=True)
    return decoder(fields, [pair[is_sparse] for pair, is_sparse in chosen])


def sparse(fields: Mapping[str, Any], dense: LayerSpec) -> LayerSpec:
    """Returns the layer with experts and a shared one."""
    expert = mlp({**fields, "intermediate_size": count(fields, "moe_intermediate_size")})
    size = count(fields, "shared_expert_intermediate_size")
    shared = MlpSpec(size, expert.activation, row_gate=True)
    mixture = experts(fields, expert, flag(fields, "norm_topk_prob"))
    return replace(dense, feed_forward=mixture, shared_expert=shared)


def stored(spec: DecoderSpec, name: str) -> Stored:
    """The shared expert is a part of the mixture, and so is the linear of its gate."""
    gate = name.replace(".shared_expert.row_gate.", ".mlp.shared_expert_gate.")
    if gate != name:
        return Stored((gate,)).then(lambda row: row.view(1, -1))  # of GGUF, a vector
    return qwen3_moe.stored(spec, name.replace(".shared_expert.", ".mlp.shared_expert."))


FAMILY = Family("qwen2_moe", spec, stored)
