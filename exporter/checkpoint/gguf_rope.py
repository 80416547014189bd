"""How a GGUF file scales rotary embedding, in the words of a Hugging Face `config.json`: what
llama.cpp computes of it.

Frequencies are divided by a factor, and by a stored factor each, if there are any; YaRN divides
some and not others. Cosines and sines are multiplied by `attn_factor`, with YaRN and without, and
with YaRN by its own magnitude, too.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from exporter.errors import ExportError
from exporter.models.fields import positive

ROPE_FACTORS = "rope_freqs.weight"
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"
TEMPERATURE = "attention.temperature_scale"  # by which queries grow with their position
_BETA = "llama_4_scaling_beta"
_YARN, _LINEAR, _NONE = "yarn", "linear", "none"
_LLAMA3_LOW, _LLAMA3_HIGH = 1.0, 4.0  # llama3's rotary factors in every published model
_ORIGINAL_CONTEXTS = (8192, *(2**power for power in range(4, 21)))
Metadata = Callable[[str], Any]


def rope_scaling(
    fields: Mapping[str, Any],
    stored: Metadata,
    rope_factors: Mapping[str, Tensor],
    head_dim: int | None,
    yarn: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the field `rope_scaling`, without which a family would take its own.

    Args:
        fields: the config's others.
        stored: reads the metadata behind the architecture's name and a dot.
        rope_factors: those of ROPE_FACTORS, LONG_FACTORS and SHORT_FACTORS that are stored.
        yarn: parameters of YaRN that the architecture's files do not hold.

    Raises:
        ExportError: there is no such field.
    """
    is_mistral3 = "mscale" in yarn
    kind, factor = stored("rope.scaling.type"), stored("rope.scaling.factor")
    kind = _LINEAR if kind is None else kind
    factor = stored("rope.scale_linear") if factor is None else factor
    factor = 1.0 if kind == _NONE or not factor else factor
    magnitude = 1.0
    if stored("rope.scaling.attn_factor") is not None:
        magnitude = positive({"attn_factor": stored("rope.scaling.attn_factor")}, "attn_factor")
    grows = is_mistral3 and stored(TEMPERATURE) is not None
    beta = {_BETA: stored(TEMPERATURE)} if grows else {}
    original = stored("rope.scaling.original_context_length")
    context = {} if original is None else {"original_max_position_embeddings": original}
    if kind == _YARN:
        if rope_factors:
            raise ExportError(f"rope.scaling.type yarn with {min(rope_factors)} is not supported.")
        return {**yarn, **beta, **context, **_yarn(factor, magnitude, stored, is_mistral3)}
    if kind not in (_NONE, _LINEAR, "longrope"):
        return {**beta, **context, "rope_type": kind, "factor": factor}  # which no family has
    if not rope_factors and magnitude == 1:
        scaling = {"rope_type": "default"} if factor == 1 else {"rope_type": _LINEAR}
        given = {} if factor == 1 else {"factor": factor}
        return {**beta, **context, **scaling, **given}
    if rope_factors.keys() == {ROPE_FACTORS} and (factor, magnitude) == (1, 1):
        theta = fields.get("rope_theta", 10000.0)
        return {**beta, **_llama3(rope_factors[ROPE_FACTORS], theta, head_dim)}
    turned = stored("rope.dimension_count")
    pairs = (turned if isinstance(turned, int) else head_dim or 0) // 2
    factors = rope_factors.get(ROPE_FACTORS, torch.ones(pairs))
    divisor = positive({"factor": factor}, "factor")
    return {
        **beta,
        **context,
        "rope_type": "longrope",
        "long_factor": (rope_factors.get(LONG_FACTORS, factors) * divisor).tolist(),
        "short_factor": (rope_factors.get(SHORT_FACTORS, factors) * divisor).tolist(),
        "attention_factor": magnitude,
    }


def _yarn(factor: Any, magnitude: float, stored: Metadata, is_mistral3: bool) -> dict[str, Any]:
    """Returns YaRN's parameters; only of Mistral 3 does llama.cpp read more than the factors."""
    stretch = 0.1 * math.log(max(1.0, positive({"factor": factor}, "factor")))
    own, multiplier = 1 + stretch, stored("rope.scaling.yarn_log_multiplier")
    if is_mistral3 and multiplier:
        own /= 1 + stretch * positive({"yarn_log_multiplier": multiplier}, "yarn_log_multiplier")
    betas = {
        "beta_fast": stored("rope.scaling.yarn_beta_fast"),
        "beta_slow": stored("rope.scaling.yarn_beta_slow"),
    }
    given = {name: value for name, value in betas.items() if is_mistral3 and value is not None}
    return {"rope_type": _YARN, "factor": factor, **given, "attention_factor": own * magnitude}


def _llama3(factors: Tensor, theta: Any, head_dim: int | None) -> dict[str, Any]:
    """The rotary parameters of Llama 3.1, of which GGUF stores only what they make of frequencies:
    the factor is the largest, and the original context the one that makes the others.

    Raises:
        ExportError: there is none.
    """
    factor = factors.max().item() if factors.numel() else math.nan
    sound = head_dim is not None and factors.shape == (head_dim // 2,)
    if sound and isinstance(theta, float) and 0 < theta < math.inf and 0 < factor < math.inf:
        assert head_dim is not None
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        wavelengths = 2 * math.pi * theta**exponents
        for original in _ORIGINAL_CONTEXTS:
            high = _LLAMA3_HIGH - _LLAMA3_LOW
            share = ((original / wavelengths - _LLAMA3_LOW) / high).clamp(0, 1)
            if torch.allclose(1 / ((1 - share) / factor + share), factors, rtol=1e-4):
                return {
                    "rope_type": "llama3",
                    "factor": factor,
                    "low_freq_factor": _LLAMA3_LOW,
                    "high_freq_factor": _LLAMA3_HIGH,
                    "original_max_position_embeddings": original,
                }
    raise ExportError(
        f"{ROPE_FACTORS} are not the rotary factors that rope_type 'llama3' makes; other ones are "
        "not computed."
    )
