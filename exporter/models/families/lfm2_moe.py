"""LFM2 with a mixture of experts, chosen by sigmoids, behind the first layers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import experts
from exporter.models.families import lfm2
from exporter.models.family import Family
from exporter.models.fields import count, flag, positive
from exporter.models.spec import DecoderSpec, ExpertsSpec, MlpSpec
from exporter.models.tensor_layout import Stored, stacked_expert

_DEFAULTS = {
    "intermediate_size": 7168,
    "moe_intermediate_size": 1792,
    "num_dense_layers": 2,
    "num_experts": 32,
    "num_experts_per_tok": 4,
    "use_expert_bias": True,
    "routed_scaling_factor": 1.0,
    "norm_topk_prob": True,
}
_LETTERS = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config, "block_auto_adjust_ff_dim": False, "block_ff_dim": None}
    dense = lfm2.spec(fields)
    expert = MlpSpec(count(fields, "moe_intermediate_size"))
    mixture = replace(
        experts(fields, expert, flag(fields, "norm_topk_prob")),
        sigmoid=True,
        choice_bias=flag(fields, "use_expert_bias"),
        share_scale=positive(fields, "routed_scaling_factor"),
    )
    first = count(fields, "num_dense_layers", least=0)
    layers = (
        layer if index < first else replace(layer, feed_forward=mixture)
        for index, layer in enumerate(dense.layers)
    )
    return replace(dense, layers=tuple(layers))


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Experts are stored one by one, with letters for names; of GGUF, without; or, as transformers
    has them in memory, stacked."""
    block, is_expert, rest = name.partition(".mlp.experts.")
    if not is_expert:
        routed = name.replace(".mlp.router.", ".feed_forward.gate.")
        routed = routed.replace(".mlp.choice_bias", ".feed_forward.expert_bias")
        return lfm2.stored(spec, name) if routed == name else Stored((routed,))
    layer = spec.layers[int(block.split(".")[2])].feed_forward
    assert isinstance(layer, ExpertsSpec)
    number, part, _ = rest.split(".")
    at = f"{block}.feed_forward.experts"
    names = f"{at}.gate_up_proj", f"{at}.down_proj"
    together = stacked_expert(*names, int(number), part, layer.intermediate_size)
    alone = Stored((name,)).or_else(together)
    return Stored((f"{at}.{number}.{_LETTERS[part]}.weight",)).or_else(alone)


FAMILY = Family("lfm2_moe", spec, stored)
