"""Apertus: norms of heads, and a feed-forward part of xIELU, whose numbers are learned."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from exporter.models.config import attention, decoder, mlp
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.spec import DecoderSpec, LayerSpec, MlpSpec, Norms
from exporter.models.tensor_layout import Stored

if TYPE_CHECKING:
    from torch import Tensor

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 12000000.0,
    "max_position_embeddings": 65536,
    "hidden_act": "xielu",
}
_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 12000000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
_NORMS = Norms("attention_layernorm"), Norms("feedforward_layernorm")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    if fields.get("rope_parameters") is None:
        fields["rope_parameters"] = _ROPE
    bias = flag(fields, "attention_bias")
    mixer = attention(fields, bias=bias, out_bias=bias, qk_norm="heads")
    if fields["hidden_act"] == "xielu":
        part = MlpSpec(count(fields, "intermediate_size"), "xielu", gated=False)
    else:
        part = mlp(fields, gated=False)
    return decoder(fields, [LayerSpec(mixer, part, *_NORMS)] * count(fields, "num_hidden_layers"))


def stored(spec: DecoderSpec, name: str) -> Stored:
    """The numbers of xIELU are stored as what softplus makes them of."""
    block, is_number, number = name.partition(".activation.")
    if not is_number:
        return Stored((name,))
    at = f"{block}.act_fn.{number}"
    if number == "beta":
        return Stored((at,)).then(lambda beta: beta.float().view(1))
    if number == "alpha_p":
        return Stored((at,)).then(_softplus)
    return Stored((at, f"{block}.act_fn.beta"), _negative)


def _softplus(alpha: "Tensor") -> "Tensor":
    from torch.nn import functional

    return functional.softplus(alpha.float())


def _negative(alpha: "Tensor", beta: "Tensor") -> "Tensor":
    return _softplus(alpha) + beta.float()


def is_unread(spec: DecoderSpec, name: str) -> bool:
    return name.endswith(".act_fn.eps")  # so close to 0 that nothing depends on it


FAMILY = Family("apertus", spec, stored, is_unread)
