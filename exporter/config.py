"""What a decoder looks like: the fields of a Hugging Face `config.json` that change the program."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.errors import ExportError

ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3", "smollm3")


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
        fields = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ExportError(
            f"{path.parent} has no {path.name}; a Hugging Face model directory holds one beside "
            "its weights: check the path given to --checkpoint."
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ExportError(f"{path} cannot be read as JSON ({error}); download it again.") from None
    if not isinstance(fields, dict):
        raise ExportError(f"{path} is not a JSON object; download it again.")
    try:
        return parse_config(fields)
    except KeyError as error:
        raise ExportError(
            f"{path} has no field {error}; the decoder's shape needs it: "
            "take the config.json that was published with the weights."
        ) from None
    except (TypeError, ValueError) as error:
        raise ExportError(f"{path} has a field of the wrong kind ({error}).") from None


def parse_config(fields: dict[str, Any]) -> ModelConfig:
    """Turns the fields of a `config.json` into a ModelConfig.

    Raises:
        ExportError: an architecture or a feature that the decoder does not compute.
        KeyError: a required field is missing.
    """
    model_type = fields.get("model_type")
    if model_type not in ARCHITECTURES:
        raise ExportError(
            f"model_type {model_type!r} is not an architecture this exporter builds; "
            f"it builds {', '.join(ARCHITECTURES)}."
        )
    activation = fields.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ExportError(
            f"hidden_act {activation!r} is not supported; the decoder computes 'silu' (SwiGLU)."
        )
    heads = int(fields["num_attention_heads"])
    layers = int(fields["num_hidden_layers"])
    attention_bias = bool(fields.get("attention_bias", False))
    config = ModelConfig(
        model_type=model_type,
        hidden_size=int(fields["hidden_size"]),
        intermediate_size=int(fields["intermediate_size"]),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=int(fields.get("num_key_value_heads") or heads),
        head_dim=int(fields.get("head_dim") or int(fields["hidden_size"]) // heads),
        vocab_size=int(fields["vocab_size"]),
        max_position_embeddings=int(fields.get("max_position_embeddings", 2048)),
        rms_norm_eps=float(fields.get("rms_norm_eps", 1e-6)),
        rope_theta=_rope_theta(fields),
        rope_scaling=_rope_scaling(fields),
        tie_word_embeddings=bool(fields.get("tie_word_embeddings", False)),
        attention_bias=True if model_type == "qwen2" else attention_bias,
        attention_out_bias=False if model_type == "qwen2" else attention_bias,
        mlp_bias=bool(fields.get("mlp_bias", False)),
        qk_norm=model_type == "qwen3",
        no_rope_layers=_no_rope_layers(fields, layers),
        sliding_window=_sliding_window(fields),
        bos_token_id=_first(fields.get("bos_token_id")),
        eos_token_ids=_as_tuple(fields.get("eos_token_id")),
    )
    _check(config)
    return config


def _check(config: ModelConfig) -> None:
    for name in (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
        "max_position_embeddings",
    ):
        if getattr(config, name) < 1:
            raise ExportError(f"{name} is {getattr(config, name)}; it must be at least 1.")
    if config.num_attention_heads % config.num_key_value_heads:
        raise ExportError(
            f"num_attention_heads {config.num_attention_heads} is not a multiple of "
            f"num_key_value_heads {config.num_key_value_heads}; each key head serves equally many "
            "query heads: check config.json."
        )
    if config.head_dim % 2:
        raise ExportError(f"head_dim {config.head_dim} is odd; rotary embedding turns pairs.")


def _rope_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Rotary settings: `rope_parameters` in new configs, `rope_scaling` in older ones."""
    return fields.get("rope_parameters") or fields.get("rope_scaling") or {}


def _rope_theta(fields: dict[str, Any]) -> float:
    return float(_rope_fields(fields).get("rope_theta") or fields.get("rope_theta") or 10000.0)


def _rope_scaling(fields: dict[str, Any]) -> RopeScaling | None:
    rope = _rope_fields(fields)
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type == "default":
        return None
    if rope_type == "linear":
        return RopeScaling("linear", float(rope["factor"]))
    if rope_type == "llama3":
        return RopeScaling(
            "llama3",
            float(rope["factor"]),
            float(rope["low_freq_factor"]),
            float(rope["high_freq_factor"]),
            int(rope["original_max_position_embeddings"]),
        )
    raise ExportError(
        f"rope_type {rope_type!r} is not supported; the decoder computes 'default', 'linear' and "
        "'llama3'."
    )


def _no_rope_layers(fields: dict[str, Any], layers: int) -> tuple[int, ...]:
    """Layers without rotary embedding: SmolLM3 lists a 1 for each layer that has it."""
    if fields["model_type"] != "smollm3":
        return ()
    has_rope = fields.get("no_rope_layers")
    if has_rope is None:
        interval = int(fields.get("no_rope_layer_interval", 4))
        has_rope = [int((layer + 1) % interval != 0) for layer in range(layers)]
    return tuple(layer for layer in range(layers) if not has_rope[layer])


def _sliding_window(fields: dict[str, Any]) -> int | None:
    window = fields.get("sliding_window")
    if window is None or fields.get("use_sliding_window", fields["model_type"] == "mistral") is False:
        return None
    return int(window)


def _as_tuple(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(int(v) for v in value) if isinstance(value, list) else (int(value),)


def _first(value: Any) -> int | None:
    return next(iter(_as_tuple(value)), None)
