"""OLMo 3: OLMo 2 with windows in three of four layers. Only full layers scale rotation."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import decoder, mlp, unrotated_attention, windowed
from exporter.models.families import olmo2
from exporter.models.family import Family
from exporter.models.fields import flag, layer_kinds
from exporter.models.rotary_config import rotary_by_kind
from exporter.models.spec import DecoderSpec, LayerSpec

_THETA = 500000.0
_DEFAULTS = {**olmo2.DEFAULTS, "rope_theta": _THETA, "sliding_window": 4096}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    mixer = unrotated_attention(fields, bias=bias, out_bias=bias, qk_norm="rows")
    layer = LayerSpec(mixer, mlp(fields), olmo2.AFTER_ATTENTION, olmo2.AFTER_MLP)
    kinds = layer_kinds(fields, lambda index: (index + 1) % 4 != 0)
    tables = rotary_by_kind(fields, mixer.head_dim, _THETA)
    return decoder(fields, windowed(fields, layer, kinds, tables))


FAMILY = Family("olmo3", spec)
