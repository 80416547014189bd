"""CWM, the Code World Model: Llama 3 with a window in three of four layers."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, mlp, windowed
from exporter.models.family import Family
from exporter.models.fields import flag, layer_kinds
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0,
    "max_position_embeddings": 131072,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "sliding_window": 8192,
}
_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_ENDS = [128001, 128008, 128009]
_PATTERN = 4  # of as many layers the first sees all positions


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    for name, value in (("rope_parameters", _ROPE), ("eos_token_id", _ENDS)):
        if fields.get(name) is None:
            fields[name] = value
    layer = LayerSpec(attention(fields), mlp(fields, flag(fields, "mlp_bias")))
    kinds = layer_kinds(fields, lambda index: index % _PATTERN != 0)
    return decoder(fields, windowed(fields, layer, kinds))


FAMILY = Family("cwm", spec)
