"""The type in which a delegate keeps keys and values: by the weights beside them and by the heads.

It is decided before anything is quantized, so that the quantized model computes what the file will.
"""

from delegates.limits import Limits
from delegates.storage import FLOAT_BITS
from exporter.models.decoder import CausalLM
from exporter.models.spec import AttentionSpec, DecoderSpec
from quant.layers.blocks import part_names
from quant.scheme import HEAD_PART, Scheme
from quant.weight_type import WeightType

_INT8 = 1  # byte
_LEAST_HEAD = 32  # numbers


def cached_bytes(model: CausalLM, scheme: Scheme, limits: Limits) -> int:
    """Returns the bytes of a number in the caches of keys and values of a model, which is not
    quantized yet."""
    layers = enumerate(part_names(model))
    parts = [f"model.layers.{i}.{part}" for i, parts in layers for part in parts]
    bits = min(_bits(scheme.type_of(part)) for part in (*parts, HEAD_PART))
    return limits.cached_bytes(bits, all(map(_fit_int8, model.config.attentions)))


def as_cached(spec: DecoderSpec, item_bytes: int) -> DecoderSpec:
    """Returns the decoder with heads in int8, if its caches have so many bytes for a number."""
    return spec.with_int8_heads() if item_bytes == _INT8 else spec


def _bits(type: WeightType | None) -> int:
    """Of a weight, as they count beside keys and values: the integers of a checkpoint, of one level
    (`--quant keep`), lose nothing and count as 8."""
    if type is None:
        return FLOAT_BITS
    return type.bits if type.levels == 2 else max(type.bits, 8)


def _fit_int8(attention: AttentionSpec) -> bool:
    """Whether keys lose little in int8, of which each head has one scale: a large bias would decide
    it for all other numbers, and a head of few numbers has none that even it out."""
    return not attention.bias and attention.head_dim >= _LEAST_HEAD
