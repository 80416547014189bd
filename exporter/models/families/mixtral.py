"""Mixtral: Mistral with a mixture of experts in the place of the MLPs."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, experts, mlp, windowed
from exporter.models.families.mistral import kinds
from exporter.models.family import Family
from exporter.models.spec import DecoderSpec, LayerSpec
from exporter.models.tensor_layout import Stored, stacked_expert

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0,
    "max_position_embeddings": 131072,
    "num_key_value_heads": 8,
    "num_experts_per_tok": 2,
}
_LETTERS = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    if fields.get("num_experts") is None:  # the other name for it
        fields = {"num_local_experts": 8, **fields}
    mixture = experts(fields, mlp(fields), normalized=True)
    layer = LayerSpec(attention(fields), mixture)
    return decoder({**fields, "layer_types": None}, windowed(fields, layer, kinds(fields)))


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Experts are stored one by one, with letters for names, or, as transformers has them in
    memory, stacked."""
    block, is_expert, rest = name.partition(".mlp.experts.")
    if not is_expert:
        routed = name.replace(".mlp.router.", ".mlp.gate.")
        sparse = name.replace(".mlp.router.", ".block_sparse_moe.gate.")
        return Stored((sparse,)).or_else(Stored((routed,)))
    number, part, _ = rest.split(".")
    size = spec.layers[0].feed_forward.intermediate_size
    names = f"{block}.mlp.experts.gate_up_proj", f"{block}.mlp.experts.down_proj"
    together = stacked_expert(*names, int(number), part, size)
    letter = f"{block}.block_sparse_moe.experts.{number}.{_LETTERS[part]}.weight"
    return Stored((letter,)).or_else(together.or_else(Stored((name,))))


FAMILY = Family("mixtral", spec, stored)
