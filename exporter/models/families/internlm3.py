"""InternLM3: Llama, whose config calls the biases by other names, too."""

from collections.abc import Mapping
from typing import Any

from exporter.errors import ExportError
from exporter.models.families import llama
from exporter.models.family import Family
from exporter.models.fields import flag
from exporter.models.spec import DecoderSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 32768,
    "num_key_value_heads": 2,
    "head_dim": 128,
}
_NAMES = {"attention_bias": "qkv_bias", "mlp_bias": "bias"}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    for ours, theirs in _NAMES.items():
        if fields.get(theirs) is not None:
            fields[ours] = fields[theirs]
    biases = [flag(fields, name) for name in _NAMES]
    if biases[0] != biases[1]:
        raise ExportError(
            f"qkv_bias is {biases[0]} and bias is {biases[1]}; of this architecture only models "
            "with both or with none are supported."
        )
    return llama.spec(fields)


FAMILY = Family("internlm3", spec)
