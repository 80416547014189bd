"""What a decoder looks like: the fields of a Hugging Face `config.json` that change the program."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.errors import ExportError
from exporter.json_object import read_object

ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3", "smollm3")
_COMMON = {"rms_norm_eps": 1e-6, "rope_theta": 10000.0}
_QWEN = {**_COMMON, "max_position_embeddings": 32768, "num_key_value_heads": 32}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {**_COMMON, "max_position_embeddings": 2048},
    "mistral": {
        **_COMMON,
        "max_position_embeddings": 131072,
        "num_key_value_heads": 8,
        "sliding_window": 4096,
    },
    "qwen2": _QWEN,
    "qwen3": {**_QWEN, "head_dim": 128},
    "smollm3": {
        **_COMMON,
        "max_position_embeddings": 32768,
        "num_key_value_heads": 4,
        "rope_theta": 2000000.0,
        "tie_word_embeddings": True,
    },
}
_LARGEST = 2.0**128 - 2.0**104  # of float32's numbers


@dataclass(frozen=True)
class RopeScaling:
    """The Llama 3 stretch of rotary frequencies (`rope_type: llama3`), or a linear one.

    With `rope_type` "linear" only `factor` is read.
    """

    rope_type: str
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192


@dataclass(frozen=True)
class ModelConfig:
    """One decoder's shape, by the Hugging Face names."""

    model_type: str
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    attention_out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    no_rope_layers: tuple[int, ...] = ()
    sliding_window: int | None = None
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()

    @property
    def context_limit(self) -> int:
        """The longest context this decoder computes exactly: full attention inside the window."""
        if self.sliding_window is None:
            return self.max_position_embeddings
        return min(self.max_position_embeddings, self.sliding_window)


def read_config(path: Path) -> ModelConfig:
    """Reads a Hugging Face `config.json`.

    Raises:
        ExportError: the file is missing, is not JSON, names an architecture we do not build, lacks
            a field, or asks for something the decoder does not compute.
    """
    try:
        fields = read_object(path)
    except FileNotFoundError:
        raise ExportError(
            f"{path.parent} has no {path.name}; a Hugging Face model directory holds one beside "
            "its weights: check the path given to --checkpoint."
        ) from None
    try:
        return parse_config(fields)
    except ExportError as error:
        raise ExportError(f"{path}: {error}") from None


def parse_config(fields: dict[str, Any]) -> ModelConfig:
    """Turns the fields of a `config.json` into a ModelConfig.

    A field that is absent takes the default of the architecture's Hugging Face config class.

    Raises:
        ExportError: an architecture or a feature that the decoder does not compute, or a field
            that is missing, of the wrong kind or out of range.
    """
    model_type = fields.get("model_type")
    if model_type not in ARCHITECTURES:
        raise ExportError(
            f"model_type {model_type!r} is not an architecture this exporter builds; "
            f"it builds {', '.join(ARCHITECTURES)}."
        )
    fields = {**_DEFAULTS[model_type], **fields}
    _refuse_unsupported(fields)
    heads = _count(fields, "num_attention_heads")
    layers = _count(fields, "num_hidden_layers")
    hidden_size = _count(fields, "hidden_size")
    if fields.get("head_dim") is None and hidden_size < heads:
        raise ExportError(
            f"num_attention_heads {heads} is more than hidden_size {hidden_size}; give head_dim, "
            "or fewer heads."
        )
    bias = model_type != "mistral" and _flag(fields, "attention_bias")
    config = ModelConfig(
        model_type=model_type,
        hidden_size=hidden_size,
        intermediate_size=_count(fields, "intermediate_size"),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=_count(fields, "num_key_value_heads", heads),
        head_dim=_count(fields, "head_dim", hidden_size // heads),
        vocab_size=_count(fields, "vocab_size"),
        max_position_embeddings=_count(fields, "max_position_embeddings"),
        rms_norm_eps=_positive(fields, "rms_norm_eps"),
        rope_theta=_rope_theta(fields),
        rope_scaling=_rope_scaling(fields),
        tie_word_embeddings=_flag(fields, "tie_word_embeddings"),
        attention_bias=bias or model_type == "qwen2",
        attention_out_bias=bias and model_type != "qwen2",
        mlp_bias=model_type in ("llama", "smollm3") and _flag(fields, "mlp_bias"),
        qk_norm=model_type == "qwen3",
        no_rope_layers=_no_rope_layers(fields, layers),
        sliding_window=_sliding_window(fields, layers),
        bos_token_id=next(iter(_token_ids(fields, "bos_token_id")), None),
        eos_token_ids=_token_ids(fields, "eos_token_id"),
    )
    _check(config)
    return config


def _refuse_unsupported(fields: dict[str, Any]) -> None:
    activation = fields.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ExportError(
            f"hidden_act {activation!r} is not supported; the decoder computes 'silu' (SwiGLU)."
        )
    quantization = fields.get("quantization_config")
    if quantization:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else None
        raise ExportError(
            f"the weights are already quantized (quantization_config, method {method!r}); the "
            "exporter quantizes by itself: use the float checkpoint that they were made from."
        )
    for source in (fields, _rope_fields(fields)):
        share = source.get("partial_rotary_factor")
        if share is not None and share != 1:
            raise ExportError(
                f"partial_rotary_factor {share!r} is not supported; the decoder rotates whole "
                "heads (1.0)."
            )


def _check(config: ModelConfig) -> None:
    if config.num_attention_heads % config.num_key_value_heads:
        raise ExportError(
            f"num_attention_heads {config.num_attention_heads} is not a multiple of "
            f"num_key_value_heads {config.num_key_value_heads}; each key head serves equally many "
            "query heads."
        )
    scaling = config.rope_scaling
    if scaling is not None and scaling.high_freq_factor <= scaling.low_freq_factor:
        raise ExportError(
            f"high_freq_factor {scaling.high_freq_factor} is not above low_freq_factor "
            f"{scaling.low_freq_factor}; the frequencies between them are interpolated."
        )
    if config.head_dim % 2:
        raise ExportError(f"head_dim {config.head_dim} is odd; rotary embedding turns pairs.")
    for token in (config.bos_token_id, *config.eos_token_ids):
        if token is not None and not 0 <= token < config.vocab_size:
            raise ExportError(
                f"token id {token} (bos_token_id or eos_token_id) is outside the vocabulary; "
                f"vocab_size is {config.vocab_size}."
            )


def _count(fields: dict[str, Any], name: str, default: int | None = None, least: int = 1) -> int:
    """A whole number of at least `least`; `default` stands for a field that is absent or null."""
    value = fields.get(name)
    value = default if value is None else value
    if value is None:
        raise ExportError(
            f"{name} is missing and the decoder's shape needs it; take the config.json that was "
            "published with the weights."
        )
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ExportError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
    return value


def _positive(fields: dict[str, Any], name: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ExportError(f"{name} is {value!r}; it must be a number above 0.")
    if value > _LARGEST:
        raise ExportError(
            f"{name} is {value!r}, more than float32 holds, in which the decoder computes; take "
            "the config.json that was published with the weights."
        )
    return float(value)


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise ExportError(f"{name} is {value!r}; it must be true or false.")
    return bool(value)


def _token_ids(fields: dict[str, Any], name: str) -> tuple[int, ...]:
    """The ids of a field that holds one, a list of them, or null."""
    value = fields.get(name)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if any(isinstance(token, bool) or not isinstance(token, int) for token in ids):
        raise ExportError(f"{name} is {value!r}; it must be a token id or a list of them.")
    return tuple(ids)


def _rope_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Rotary settings: `rope_parameters` in new configs, `rope_scaling` in older ones."""
    for name in ("rope_parameters", "rope_scaling"):
        rope = fields.get(name)
        if rope and not isinstance(rope, dict):
            raise ExportError(f"{name} is {rope!r}; it must be an object or null.")
        if rope:
            return rope
    return {}


def _rope_theta(fields: dict[str, Any]) -> float:
    rope = _rope_fields(fields)
    return _positive(fields if rope.get("rope_theta") is None else rope, "rope_theta")


def _rope_scaling(fields: dict[str, Any]) -> RopeScaling | None:
    rope = _rope_fields(fields)
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type == "default" and not any(isinstance(value, dict) for value in rope.values()):
        return None
    if rope_type == "linear":
        return RopeScaling("linear", _positive(rope, "factor"))
    if rope_type == "llama3":
        return RopeScaling(
            "llama3",
            _positive(rope, "factor"),
            _positive(rope, "low_freq_factor"),
            _positive(rope, "high_freq_factor"),
            _count(rope, "original_max_position_embeddings"),
        )
    raise ExportError(
        f"rope_type {rope_type!r} is not supported; the decoder computes 'default', 'linear' and "
        "'llama3', the same for every layer."
    )


def _no_rope_layers(fields: dict[str, Any], layers: int) -> tuple[int, ...]:
    """Layers without rotary embedding: SmolLM3 lists a 1 for each layer that has it."""
    if fields["model_type"] != "smollm3":
        return ()
    has_rope = fields.get("no_rope_layers")
    if has_rope is None:
        interval = _count(fields, "no_rope_layer_interval", 4)
        has_rope = [(layer + 1) % interval != 0 for layer in range(layers)]
    if not isinstance(has_rope, list) or len(has_rope) != layers:
        raise ExportError(
            f"no_rope_layers is {has_rope!r}; it must list a 1 or a 0 for each of the {layers} "
            "layers."
        )
    return tuple(layer for layer in range(layers) if not has_rope[layer])


def _sliding_window(fields: dict[str, Any], layers: int) -> int | None:
    """The window, when any layer has one; each architecture says so in its own way."""
    model_type = fields["model_type"]
    kinds = fields.get("layer_types") or []
    known = ("full_attention", "sliding_attention")
    if not isinstance(kinds, list) or any(kind not in known for kind in kinds):
        raise ExportError(
            f"layer_types is {kinds!r}; each layer must be one of {', '.join(known)}."
        )
    if model_type == "llama" or fields.get("sliding_window") is None:
        return None
    if model_type == "mistral":
        slides = True
    elif not _flag(fields, "use_sliding_window"):
        slides = False
    elif kinds:
        slides = "sliding_attention" in kinds
    elif model_type == "smollm3":
        slides = bool(_no_rope_layers(fields, layers))
    else:
        slides = _count(fields, "max_window_layers", 28, least=0) < layers
    return _count(fields, "sliding_window") if slides else None
