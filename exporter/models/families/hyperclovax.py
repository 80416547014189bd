"""HyperCLOVA X: Granite with norms after the blocks, too; logits are multiplied, not divided."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import attention, mlp
from exporter.models.families import granite
from exporter.models.family import Family
from exporter.models.fields import count, flag, positive
from exporter.models.spec import DecoderSpec, LayerSpec, Norms

_DEFAULTS = {**granite.DEFAULTS, "use_post_norm": True}
_AROUND_ATTENTION = Norms("input_layernorm", "post_norm1")
_AROUND_MLP = Norms("post_attention_layernorm", "post_norm2")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    mixer = attention(fields, bias=bias, out_bias=bias)
    if config.get("attention_multiplier") is None:
        fields["attention_multiplier"] = mixer.head_dim**-0.5
    layer = LayerSpec(mixer, mlp(fields, flag(fields, "mlp_bias")))
    after = flag(fields, "use_post_norm")
    if after:
        layer = replace(layer, mixer_norms=_AROUND_ATTENTION, feed_forward_norms=_AROUND_MLP)
    residual, logits = (positive(fields, x) for x in ("residual_multiplier", "logits_scaling"))
    ends = ("post_norm1", "post_norm2") if after else ("o_proj", "down_proj")
    folded = (*((end, residual) for end in ends), ("model.norm", logits))
    layers = [layer] * count(fields, "num_hidden_layers")
    return replace(granite.multiplied(fields, layers), folded=folded)


FAMILY = Family("hyperclovax", spec, granite.stored)
