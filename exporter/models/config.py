"""Builds the parts of a decoder's spec from the config fields that families share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from exporter.errors import ExportError
from exporter.models.fields import (
    FULL,
    SLIDING,
    Fields,
    count,
    flag,
    layer_types,
    positive,
    refuse,
    token_ids,
)
from exporter.models.rotary_config import longest_context, rotary, whole_heads
from exporter.models.spec import (
    Activation,
    AttentionSpec,
    DecoderSpec,
    ExpertsSpec,
    LayerSpec,
    MlpSpec,
    QkNorm,
    RotarySpec,
)

PACKED_METHODS = (
    "gptq",
    "awq",
    "compressed-tensors",
    "mxfp4",
    "fp8",
    "fbgemm_fp8",
    "bitsandbytes",
    "auto-round",
)  # which can be read
_ACTIVATIONS: dict[object, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
    "quick_gelu": "quick_gelu",
}


def attention(
    fields: Fields, bias: bool = False, out_bias: bool = False, qk_norm: QkNorm = None
) -> AttentionSpec:
    """Returns attention to all positions, with the config's only rotary table."""
    plain = unrotated_attention(fields, bias, out_bias, qk_norm)
    return replace(plain, rotary=whole_heads(rotary(fields, plain.head_dim)))


def unrotated_attention(
    fields: Fields, bias: bool = False, out_bias: bool = False, qk_norm: QkNorm = None
) -> AttentionSpec:
    """Returns attention to all positions, without a rotary table."""
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
    return AttentionSpec(
        heads, key_value_heads, head_dim, None, bias=bias, out_bias=out_bias, qk_norm=qk_norm
    )


def windowed(
    fields: Fields,
    layer: LayerSpec,
    kinds: Sequence[str],
    tables: Mapping[str, RotarySpec | None] | None = None,
) -> list[LayerSpec]:
    """Returns a layer for each kind; sliding ones have the config's window.

    Args:
        tables: the rotary table of each kind; None: the layer's own for all.
    """
    window = count(fields, "sliding_window") if SLIDING in kinds else None
    windows = {FULL: None, SLIDING: window}
    made = {}
    for kind in set(kinds):
        rotary = layer.attention.rotary if tables is None else tables[kind]
        mixer = replace(layer.attention, window=windows[kind], rotary=rotary)
        made[kind] = replace(layer, mixer=mixer)
    return [made[kind] for kind in kinds]


def mlp(fields: Fields, bias: bool = False, act: str = "hidden_act", gated: bool = True) -> MlpSpec:
    """Returns a feed-forward part with the activation in the field `act`."""
    name = fields.get(act, "silu")
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        known = ", ".join(repr(known) for known in _ACTIVATIONS)
        raise ExportError(f"{act} {name!r} is not supported; supported are {known}.")
    return MlpSpec(count(fields, "intermediate_size"), _ACTIVATIONS[name], gated, bias)


def experts(fields: Fields, expert: MlpSpec, normalized: bool) -> ExpertsSpec:
    """Returns a mixture of such experts."""
    names = ("num_experts", "num_local_experts")  # of which transformers' configs have one
    given = [one for one in names if fields.get(one) is not None]
    name = given[0] if given else names[0]
    number, chosen = count(fields, name), count(fields, "num_experts_per_tok")
    if fields[given[-1]] != number:
        raise ExportError(
            f"{name} is {number} and {given[-1]} is {fields[given[-1]]}; they are the same number: "
            "leave out the wrong one."
        )
    if chosen > number:
        raise ExportError(
            f"num_experts_per_tok {chosen} is more than {name} {number}; set as many or fewer."
        )
    return ExpertsSpec(expert, number, chosen, normalized)


def context_limit(fields: Fields, layers: Iterable[LayerSpec]) -> int:
    """Returns the longest context that these layers compute."""
    mixers = (layer.mixer for layer in layers)
    tables = {mixer.rotary if isinstance(mixer, AttentionSpec) else None for mixer in mixers}
    return max(longest_context(fields, table) for table in tables)


def decoder(fields: Fields, layers: Iterable[LayerSpec]) -> DecoderSpec:
    """Returns a decoder of these layers; the config gives embedding, head and token ids."""
    layers = tuple(layers)
    layer_types(fields)
    refuse(fields, "is_causal", True)
    refuse(fields, "compression_config")  # quantization_config's first name
    quantization = fields.get("quantization_config") or {}
    if not isinstance(quantization, dict):
        raise ExportError(
            f"quantization_config is {quantization!r}; it must be an object, or null if the "
            "weights are floats."
        )
    method = quantization.get("quant_method")
    of_mlx = bool(fields.get("quantization")) and method is None
    if quantization and method not in PACKED_METHODS and not of_mlx:
        raise ExportError(
            f"the weights are already quantized (quantization_config, method {method!r}); those "
            f"of {', '.join(PACKED_METHODS)} can be read: use one of these, or the original float "
            "checkpoint."
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
        context_limit=context_limit(fields, layers),
        rms_norm_eps=positive(fields, "rms_norm_eps"),
        layers=layers,
        tie_word_embeddings=flag(fields, "tie_word_embeddings"),
        bos_token_id=next(iter(begins), None),
        eos_token_ids=ends,
    )
