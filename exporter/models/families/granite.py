"""Granite 3: Llama with four multipliers. Those of blocks and of logits are folded into weights."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import attention, decoder, mlp
from exporter.models.family import Family
from exporter.models.fields import count, flag, positive
from exporter.models.spec import DecoderSpec, LayerSpec
from exporter.models.tensor_layout import Stored

DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
    "embedding_multiplier": 1.0,
    "logits_scaling": 1.0,
    "residual_multiplier": 1.0,
    "attention_multiplier": 1.0,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    layer = LayerSpec(
        attention(fields, bias=bias, out_bias=bias), mlp(fields, flag(fields, "mlp_bias"))
    )
    return multiplied(fields, [layer] * count(fields, "num_hidden_layers"))


def multiplied(fields: Mapping[str, Any], layers: Iterable[LayerSpec]) -> DecoderSpec:
    """Returns a decoder of these layers with Granite's multipliers."""
    scale = positive(fields, "attention_multiplier")
    layers = [replace(layer, mixer=replace(layer.attention, scale=scale)) for layer in layers]
    residual = positive(fields, "residual_multiplier")
    embedding = positive(fields, "embedding_multiplier")
    return replace(
        decoder(fields, layers),
        embedding_scale=None if embedding == 1 else embedding,
        folded=(
            ("self_attn.o_proj", residual),
            ("down_proj", residual),
            ("model.norm", 1 / positive(fields, "logits_scaling")),
        ),
    )


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Folds in the multiplier that the decoder would apply to this tensor's output."""
    kept = Stored((name,))
    for module, factor in spec.folded:
        if factor != 1 and name.rpartition(".")[0].endswith(module):
            return kept.times(factor)
    return kept


FAMILY = Family("granite", spec, stored)
