"""Qwen3 with a mixture of experts in the place of most MLPs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import attention, decoder, experts, mlp, windowed
from exporter.models.family import Family
from exporter.models.fields import FULL, SLIDING, count, flag
from exporter.models.spec import DecoderSpec, ExpertsSpec, LayerSpec
from exporter.models.tensor_layout import Stored, stacked_expert

_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 32768,
    "num_key_value_heads": 4,
    "sliding_window": 4096,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    dense = LayerSpec(attention(fields, bias=bias, out_bias=bias, qk_norm="heads"), mlp(fields))
    expert = mlp({**fields, "intermediate_size": count(fields, "moe_intermediate_size")})
    sparse = replace(dense, feed_forward=experts(fields, expert, flag(fields, "norm_topk_prob")))
    slides = flag(fields, "use_sliding_window") and fields.get("sliding_window") is not None
    number = count(fields, "num_hidden_layers")
    kinds = [SLIDING if slides else FULL] * number
    pairs = zip(*(windowed(fields, layer, kinds) for layer in (dense, sparse)), strict=True)
    chosen = zip(pairs, sparse_layers(fields), strict=True)
    return decoder(fields, [pair[is_sparse] for pair, is_sparse in chosen])


def sparse_layers(fields: Mapping[str, Any]) -> list[bool]:
    """Returns, for each layer, whether it has experts."""
    number, step = (count(fields, name) for name in ("num_hidden_layers", "decoder_sparse_step"))
    dense = _mlp_only(fields, number)
    return [(index + 1) % step == 0 and index not in dense for index in range(number)]


def _mlp_only(fields: Mapping[str, Any], layers: int) -> list[int]:
    listed = fields.get("mlp_only_layers") or []
    if not isinstance(listed, list) or any(index not in range(layers) for index in listed):
        raise ExportError(
            f"mlp_only_layers is {listed!r}; it must be a list of layers, from 0 to {layers - 1}."
        )
    return listed


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Experts are stored one by one or, as transformers has them in memory, stacked, with gate and
    up as rows of one tensor."""
    block, is_expert, rest = name.partition(".mlp.experts.")
    if not is_expert:
        return Stored((name.replace(".mlp.router.", ".mlp.gate."),))
    layer = spec.layers[int(block.split(".")[2])].feed_forward
    assert isinstance(layer, ExpertsSpec)
    number, part, _ = rest.split(".")
    names = f"{block}.mlp.experts.gate_up_proj", f"{block}.mlp.experts.down_proj"
    together = stacked_expert(*names, int(number), part, layer.intermediate_size)
    return together.or_else(Stored((name,)))


FAMILY = Family("qwen3_moe", spec, stored)
