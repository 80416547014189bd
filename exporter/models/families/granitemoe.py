"""Granite 3 with a mixture of experts in the place of the MLPs."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, experts, mlp
from exporter.models.families import granite
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.spec import DecoderSpec, LayerSpec
from exporter.models.tensor_layout import Stored, stacked_expert

_DEFAULTS = {**granite.DEFAULTS, "num_experts_per_tok": 2}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {"num_local_experts": 8, **_DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    mixture = experts(fields, mlp(fields), normalized=True)
    layer = LayerSpec(attention(fields, bias=bias, out_bias=bias), mixture)
    return granite.multiplied(fields, [layer] * count(fields, "num_hidden_layers"))


def stored(spec: DecoderSpec, name: str) -> Stored:
    """As Granite's; experts are stacked."""
    kept = granite.stored(spec, name)
    block, is_expert, rest = name.partition(".mlp.experts.")
    if not is_expert:
        block, is_router, end = name.partition(".mlp.router.")
        if not is_router:
            return kept
        sparse = f"{block}.block_sparse_moe.router"
        return Stored((f"{sparse}.layer.{end}",)).or_else(Stored((f"{sparse}.{end}",)))
    number, part, _ = rest.split(".")
    size = spec.layers[0].feed_forward.intermediate_size
    sparse = f"{block}.block_sparse_moe"
    files = f"{sparse}.input_linear.weight", f"{sparse}.output_linear.weight"
    memory = f"{sparse}.experts.gate_up_proj", f"{sparse}.experts.down_proj"
    ways = [stacked_expert(*names, int(number), part, size) for names in (files, memory)]
    first, second, alone = (way.then(kept.make) for way in (*ways, Stored((name,))))
    return first.or_else(second.or_else(alone))


FAMILY = Family("granitemoe", spec, stored)
