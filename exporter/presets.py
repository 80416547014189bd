"""Models by name: their published shapes, and the hub ids of their weights."""

import difflib
import os
from dataclasses import dataclass
from typing import Any

from exporter.checkpoint import open_checkpoint
from exporter.checkpoint.hub import is_hub_id
from exporter.errors import ExportError
from exporter.models.families import Family, decoder_spec
from exporter.models.spec import DecoderSpec

Fields = dict[str, Any]  # fields of a config.json


@dataclass(frozen=True)
class Model:
    """A model that the command line names.

    Attributes:
        name: the preset's name, the hub id or the directory's name.
        config: its shape.
        source: the argument of `open_checkpoint` for its weights: a directory or a hub id.
    """

    name: str
    config: DecoderSpec
    source: str


_LLAMA3_ROPE: Fields = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_LLAMA2_7B: Fields = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 128,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LLAMA3_8B: Fields = {
    **_LLAMA2_7B,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}
_LLAMA31_8B: Fields = {
    **_LLAMA3_8B,
    "max_position_embeddings": 131072,
    "rope_scaling": {**_LLAMA3_ROPE, "factor": 8.0},
}
_LLAMA31_70B: Fields = {
    **_LLAMA31_8B,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
}
_LLAMA32_1B: Fields = {
    **_LLAMA31_8B,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "head_dim": 64,
    "rope_scaling": {**_LLAMA3_ROPE, "factor": 32.0},
    "tie_word_embeddings": True,
}
_LLAMA32_3B: Fields = {
    **_LLAMA32_1B,
    "hidden_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "head_dim": 128,
}
_MISTRAL_7B: Fields = {
    **_LLAMA2_7B,
    "model_type": "mistral",
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "vocab_size": 32768,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "sliding_window": None,
}
_QWEN25_05B: Fields = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
}
_QWEN25_15B: Fields = {
    **_QWEN25_05B,
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "head_dim": 128,
    "max_position_embeddings": 131072,
}
_QWEN25_7B: Fields = {
    **_QWEN25_15B,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
_QWEN3_06B: Fields = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 151643,
    "eos_token_id": [151645, 151643],
}
_QWEN3_17B: Fields = {**_QWEN3_06B, "hidden_size": 2048, "intermediate_size": 6144}
_QWEN3_4B: Fields = {
    **_QWEN3_06B,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
}
_SMOLLM2_135M: Fields = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
_SMOLLM2_360M: Fields = {
    **_SMOLLM2_135M,
    "hidden_size": 960,
    "intermediate_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 15,
    "num_key_value_heads": 5,
}
_SMOLLM2_17B: Fields = {
    **_SMOLLM2_135M,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "rope_theta": 130000.0,
}
_SMOLLM3_3B: Fields = {
    "model_type": "smollm3",
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-6,
    "rope_theta": 5000000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 128000,
    "eos_token_id": 128012,
}

ALIASES = {"llama2": "llama2-7b", "llama3": "llama3.2-1b"}
_SOURCES: tuple[tuple[str, Fields, str], ...] = (
    ("llama2-7b", _LLAMA2_7B, "meta-llama/Llama-2-7b-hf"),
    ("llama3-8b", _LLAMA3_8B, "meta-llama/Meta-Llama-3-8B"),
    ("llama3.1-8b", _LLAMA31_8B, "meta-llama/Llama-3.1-8B"),
    ("llama3.1-70b", _LLAMA31_70B, "meta-llama/Llama-3.1-70B"),
    ("llama3.2-1b", _LLAMA32_1B, "meta-llama/Llama-3.2-1B"),
    ("llama3.2-3b", _LLAMA32_3B, "meta-llama/Llama-3.2-3B"),
    (
        "llama3.3-70b",
        {**_LLAMA31_70B, "eos_token_id": [128001, 128008, 128009]},
        "meta-llama/Llama-3.3-70B-Instruct",
    ),
    ("mistral-7b", _MISTRAL_7B, "mistralai/Mistral-7B-v0.3"),
    ("qwen2.5-0.5b", _QWEN25_05B, "Qwen/Qwen2.5-0.5B"),
    ("qwen2.5-1.5b", _QWEN25_15B, "Qwen/Qwen2.5-1.5B"),
    ("qwen2.5-7b", _QWEN25_7B, "Qwen/Qwen2.5-7B"),
    ("qwen3-0.6b", _QWEN3_06B, "Qwen/Qwen3-0.6B"),
    ("qwen3-1.7b", _QWEN3_17B, "Qwen/Qwen3-1.7B"),
    ("qwen3-4b", _QWEN3_4B, "Qwen/Qwen3-4B"),
    ("smollm2-135m", _SMOLLM2_135M, "HuggingFaceTB/SmolLM2-135M"),
    ("smollm2-360m", _SMOLLM2_360M, "HuggingFaceTB/SmolLM2-360M"),
    ("smollm2-1.7b", _SMOLLM2_17B, "HuggingFaceTB/SmolLM2-1.7B"),
    ("smollm3-3b", _SMOLLM3_3B, "HuggingFaceTB/SmolLM3-3B"),
)
PRESETS = {name: Model(name, decoder_spec(fields), source) for name, fields, source in _SOURCES}


def preset_name(name: str) -> str | None:
    """Returns the preset for a name on the command line; None if it is not a preset."""
    known = ALIASES.get(name.lower(), name.lower())
    return known if known in PRESETS else None


def resolve_model(name: str, family: Family | None = None) -> Model:
    """Finds the model for a name on the command line.

    Args:
        name: a preset such as "llama3", a model directory, or a hub id, whose files are downloaded.
        family: the architecture; None: the family of the config's model_type.

    Raises:
        ExportError: there is no such preset, directory or hub model, or it cannot be exported.
    """
    preset = preset_name(name)
    if preset is not None:
        return PRESETS[preset]
    if os.path.exists(os.path.expanduser(name)) or is_hub_id(name):
        checkpoint = open_checkpoint(name, family)
        return Model(checkpoint.name, checkpoint.config, name)
    names = [*ALIASES, *PRESETS]
    close = difflib.get_close_matches(name.lower(), names, n=3)
    hint = f" (did you mean {' or '.join(close)}?)" if close else ""
    raise ExportError(
        f"There is no model {name!r}{hint}; name one of {', '.join(names)}, a directory, or a hub "
        "id such as meta-llama/Llama-3.2-1B."
    )
