"""StarCoder2: LayerNorms, biases, a feed-forward part that is not gated, and perhaps a window."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import attention, decoder, mlp, windowed
from exporter.models.families.mistral import kinds
from exporter.models.family import Family
from exporter.models.fields import flag
from exporter.models.spec import DecoderSpec, LayerSpec
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "norm_epsilon": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "num_key_value_heads": 2,
    "hidden_act": "gelu_pytorch_tanh",
    "use_bias": True,
    "tie_word_embeddings": True,
    "bos_token_id": 50256,
    "eos_token_id": 50256,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    fields |= {"rms_norm_eps": fields["norm_epsilon"], "layer_types": None}
    bias = flag(fields, "use_bias")
    mixer = attention(fields, bias=bias, out_bias=bias)
    layer = LayerSpec(mixer, mlp(fields, bias, gated=False))
    plain = decoder(fields, windowed(fields, layer, kinds(fields)))
    return replace(plain, norm="layer_with_bias")


def stored(spec: DecoderSpec, name: str) -> Stored:
    return Stored((name.replace(".up_proj.", ".c_fc.").replace(".down_proj.", ".c_proj."),))


FAMILY = Family("starcoder2", spec, stored)
