"""The dense models of Granite 4. Their config is that of a hybrid with experts, but they have
neither."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import attention, mlp
from exporter.models.families import granite
from exporter.models.family import Family
from exporter.models.fields import count, flag, refuse
from exporter.models.spec import DecoderSpec, LayerSpec
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
    "shared_intermediate_size": 1024,
    "num_local_experts": 8,
    "embedding_multiplier": 1.0,
    "logits_scaling": 1.0,
    "residual_multiplier": 1.0,
    "attention_multiplier": 1.0,
}
_ATTENTION = ("attention", "full_attention")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    _check_dense(fields)
    refuse(fields, "normalization_function", "rmsnorm")
    refuse(fields, "position_embedding_type", "rope", "nope")
    bias = flag(fields, "attention_bias")
    mixer = attention(fields, bias=bias, out_bias=bias)
    if fields.get("position_embedding_type") != "rope":
        mixer = replace(mixer, rotary=None)
    size = count(fields, "shared_intermediate_size")
    layer = LayerSpec(mixer, mlp({**fields, "intermediate_size": size}))
    layers = [layer] * count(fields, "num_hidden_layers")
    return granite.multiplied({**fields, "layer_types": None}, layers)


def _check_dense(fields: Mapping[str, Any]) -> None:
    refuse(fields, "num_local_experts", 0)
    name = "layer_types" if fields.get("layer_types") is not None else "layers_block_type"
    kinds, layers = fields.get(name), count(fields, "num_hidden_layers")
    if not isinstance(kinds, list):
        raise ExportError(f"{name} is {kinds!r}; it must list 'attention' for each layer.")
    others = [kind for kind in kinds if kind not in _ATTENTION]
    if others:
        raise ExportError(
            f"{name} with {others[0]!r} is not supported; of this architecture only models whose "
            "layers are all 'attention' are built."
        )
    if len(kinds) != layers:
        raise ExportError(f"{name} lists {len(kinds)} layers; num_hidden_layers is {layers}.")


def stored(spec: DecoderSpec, name: str) -> Stored:
    """The same as Granite's, but gate and up are rows of one tensor."""
    kept = granite.stored(spec, name)
    block, _, part = name.rpartition(".weight")[0].rpartition(".mlp.")
    if part == "down_proj":
        return Stored((f"{block}.shared_mlp.output_linear.weight",), kept.make)
    if part in ("gate_proj", "up_proj"):
        size = spec.layers[0].feed_forward.intermediate_size
        begin = 0 if part == "gate_proj" else size
        fused = Stored((f"{block}.shared_mlp.input_linear.weight",))
        return fused.rows(begin, begin + size)
    return kept


FAMILY = Family("granitemoehybrid", spec, stored)
