"""Command R: parallel blocks that read one LayerNorm, heads that rotate in pairs of neighbours, and
scaled logits."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import attention, decoder, mlp
from exporter.models.families import glm
from exporter.models.family import Family
from exporter.models.fields import count, flag, positive
from exporter.models.spec import DecoderSpec, LayerSpec, Norms
from exporter.models.tensor_layout import Stored

DEFAULTS = {
    "layer_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "max_position_embeddings": 8192,
    "logit_scale": 0.0625,
    "tie_word_embeddings": True,
    "bos_token_id": 5,
    "eos_token_id": 255001,
}
_NORM = Norms("input_layernorm")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**DEFAULTS, **config}
    layer = parallel(fields)
    if flag(fields, "use_qk_norm"):
        layer = replace(layer, mixer=replace(layer.attention, qk_norm="layer_by_head"))
    return scaled(fields, decoder(fields, [layer] * count(fields, "num_hidden_layers")))


def parallel(fields: dict[str, Any]) -> LayerSpec:
    """Returns the layer; the fields get the names that others have."""
    fields["rms_norm_eps"] = fields["layer_norm_eps"]
    bias = flag(fields, "attention_bias")
    mixer = attention(fields, bias=bias, out_bias=bias)
    return LayerSpec(mixer, mlp(fields), _NORM, _NORM, parallel=True)


def scaled(fields: Mapping[str, Any], plain: DecoderSpec) -> DecoderSpec:
    """Returns the decoder with LayerNorms; the last one scales the logits."""
    folded = (("model.norm", positive(fields, "logit_scale")),)
    return replace(plain, norm="layer", folded=folded)


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Folds in the factor of the logits; norms of heads have a row for each."""
    ((module, factor),) = spec.folded
    plain = Stored((name,))
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        plain = plain.flat()
    kept = glm.in_halves(spec, name, plain)
    return kept.times(factor) if name.startswith(f"{module}.") else kept


FAMILY = Family("cohere", spec, stored)
