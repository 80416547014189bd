"""Builds the parts of a decoder's spec from the config fields that families share."""

from collections.abc import Iterable

from exporter.errors import ExportError
from exporter.models.fields import Fields, count, flag, layer_types, positive, token_ids
from exporter.models.spec import (
    Activation,
    AttentionSpec,
    DecoderSpec,
    LayerSpec,
    MlpSpec,
    RopeScaling,
    RotarySpec,
)

_ACTIVATIONS: dict[object, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


def attention(
    fields: Fields, bias: bool = False, out_bias: bool = False, qk_norm: bool = False
) -> AttentionSpec:
    """Returns attention to all positions, with the config's only rotary table."""
    heads = count(fields, "num_attention_heads")
    hidden_size = count(fields, "hidden_size")
    if fields.get("head_dim") is None and hidden_size < heads:
        raise ExportError(
            f"num_attention_heads {heads} is more than hidden_size {hidden_size}; set head_dim, or "
            "fewer heads."
        )
    key_value_heads = count(fields, "num_key_value_heads", heads)
    head_dim = count(fields, "head_dim", hidden_size // heads)
    if heads % key_value_heads:
        raise ExportError(
            f"num_attention_heads {heads} is not a multiple of num_key_value_heads "
            f"{key_value_heads}; each key/value head must serve the same number of query heads."
        )
    if head_dim % 2:
        raise ExportError(
            f"head_dim {head_dim} is odd; rotary embedding rotates pairs of numbers, so it must be "
            "even."
        )
    rope = rotary(fields, head_dim)
    return AttentionSpec(
        heads, key_value_heads, head_dim, rope, bias=bias, out_bias=out_bias, qk_norm=qk_norm
    )


def mlp(fields: Fields, bias: bool = False) -> MlpSpec:
    """Returns a gated feed-forward part with the config's activation."""
    name = fields.get("hidden_act", "silu")
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        known = ", ".join(repr(known) for known in _ACTIVATIONS)
        raise ExportError(f"hidden_act {name!r} is not supported; supported are {known}.")
    return MlpSpec(count(fields, "intermediate_size"), _ACTIVATIONS[name], bias=bias)


def rotary(fields: Fields, head_dim: int) -> RotarySpec:
    """Returns the table that every layer uses: from `rope_parameters` in new configs, from
    `rope_scaling` and `rope_theta` in older ones."""
    rope = _rope_fields(fields)
    for source in (fields, rope):
        share = source.get("partial_rotary_factor")
        if share is not None and share != 1:
            raise ExportError(
                f"partial_rotary_factor {share!r} is not supported; the decoder rotates complete "
                "heads (1.0)."
            )
    theta = positive(fields if rope.get("rope_theta") is None else rope, "rope_theta")
    return RotarySpec(head_dim, theta, _rope_scaling(rope))


def context_limit(fields: Fields, window: int | None) -> int:
    """Returns the longest context that full attention computes exactly: at most the window."""
    layer_types(fields)
    longest = count(fields, "max_position_embeddings")
    return longest if window is None else min(longest, window)


def decoder(fields: Fields, layers: Iterable[LayerSpec], context_limit: int) -> DecoderSpec:
    """Returns a decoder of these layers; the config gives embedding, head and token ids."""
    quantization = fields.get("quantization_config")
    if quantization:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else None
        raise ExportError(
            f"the weights are already quantized (quantization_config, method {method!r}); the "
            "exporter quantizes itself: use the original float checkpoint."
        )
    vocab_size = count(fields, "vocab_size")
    begins, ends = token_ids(fields, "bos_token_id"), token_ids(fields, "eos_token_id")
    for token in (*begins[:1], *ends):
        if not 0 <= token < vocab_size:
            raise ExportError(
                f"token id {token} (bos_token_id or eos_token_id) is outside the vocabulary; it "
                f"must be below vocab_size {vocab_size}."
            )
    return DecoderSpec(
        model_type=fields["model_type"],
        vocab_size=vocab_size,
        hidden_size=count(fields, "hidden_size"),
        context_limit=context_limit,
        rms_norm_eps=positive(fields, "rms_norm_eps"),
        layers=tuple(layers),
        tie_word_embeddings=flag(fields, "tie_word_embeddings"),
        bos_token_id=next(iter(begins), None),
        eos_token_ids=ends,
    )


def _rope_fields(fields: Fields) -> Fields:
    for name in ("rope_parameters", "rope_scaling"):
        rope = fields.get(name)
        if rope and not isinstance(rope, dict):
            raise ExportError(f"{name} is {rope!r}; it must be an object or null.")
        if rope:
            return rope
    return {}


def _rope_scaling(rope: Fields) -> RopeScaling | None:
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type == "default" and not any(isinstance(value, dict) for value in rope.values()):
        return None
    if rope_type == "linear":
        return RopeScaling("linear", positive(rope, "factor"))
    if rope_type != "llama3":
        raise ExportError(
            f"rope_type {rope_type!r} is not supported; supported are 'default', 'linear' and "
            "'llama3', the same for every layer."
        )
    scaling = RopeScaling(
        "llama3",
        positive(rope, "factor"),
        positive(rope, "low_freq_factor"),
        positive(rope, "high_freq_factor"),
        count(rope, "original_max_position_embeddings"),
    )
    if scaling.high_freq_factor <= scaling.low_freq_factor:
        raise ExportError(
            f"high_freq_factor {scaling.high_freq_factor} is not above low_freq_factor "
            f"{scaling.low_freq_factor}; it must be, because the frequencies between them are "
            "interpolated."
        )
    return scaling
