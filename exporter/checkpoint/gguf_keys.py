"""Keys of GGUF files that are absent, or of which llama.cpp makes what no decoder computes."""

from collections.abc import Callable, Mapping
from typing import Any

from exporter.errors import ExportError

RMS_NORM_EPS = "attention.layer_norm_rms_epsilon"
LAYER_NORM_EPS = "attention.layer_norm_epsilon"
_PLAIN = ("linear", "none", 0, 1)  # values of `rope.scaling.*` that change no rotation alone
_SCALES = ("rope.scaling.type", "rope.scaling.factor", "rope.scale_linear")
_MAGNITUDE = "rope.scaling.attn_factor"
# Families with several rotary tables, by the keys that scale them otherwise than their own.
_UNSCALED = {
    "apertus": (*_SCALES, _MAGNITUDE),
    "gemma4_text": (*_SCALES, _MAGNITUDE),
    "gemma3_text": (_MAGNITUDE,),
}
_ONE_BASE = ("cohere2", "exaone4", "gemma2", "gpt_oss", "olmo2")  # of layers with windows, too
_SIGMOID = 2  # of the functions by which llama.cpp weighs experts
Metadata = Callable[[str], Any]


def fields_of_absent(model_type: str, stored: Metadata, head_dim: int | None) -> Mapping[str, Any]:
    """Returns fields of config.json where no key gives them, as llama.cpp takes them: the family
    of transformers may have other defaults.

    Args:
        stored: reads the metadata behind the architecture's name and a dot.
        head_dim: None: not known.
    """
    heads = stored("attention.head_count")
    fields: dict[str, Any] = {"rope_theta": 10000.0, "num_key_value_heads": heads}
    if model_type == "phi3" and stored("context_length") is not None:
        fields["original_max_position_embeddings"] = stored("context_length")
    if model_type == "cohere":
        fields["logit_scale"] = 1.0
    if model_type == "gemma2":  # files of its first days have no key
        fields["sliding_window"] = 4096
    if model_type in ("granite", "granitemoe") and head_dim:
        fields["attention_multiplier"] = head_dim**-0.5
    return fields


def check_keys(model_type: str, stored: Metadata, head_dim: int | None) -> None:
    """Checks that no key asks for something that no decoder computes.

    Args:
        stored: reads the metadata behind the architecture's name and a dot.

    Raises:
        ExportError: one does, or a key is missing without which llama.cpp reads no file.
    """
    if stored("attention.causal") is False:
        raise ExportError("attention.causal is false; only causal attention is supported.")
    if stored(RMS_NORM_EPS) is None and stored(LAYER_NORM_EPS) is None:
        raise ExportError(
            f"neither {RMS_NORM_EPS} nor {LAYER_NORM_EPS} is stored, and norms need one; convert "
            "the model again."
        )
    for key in _UNSCALED.get(model_type, ()):
        value = stored(key)
        if value is not None and value not in _PLAIN:
            raise ExportError(f"{key} {value!r} is not supported for {model_type}.")
    if model_type == "gemma3_text" and stored("rope.scaling.type") == "yarn":
        raise ExportError(f"rope.scaling.type 'yarn' is not supported for {model_type}.")
    base, own = stored("rope.freq_base_swa"), stored("rope.freq_base")
    if model_type in _ONE_BASE and base not in (None, 10000.0 if own is None else own):
        raise ExportError(f"rope.freq_base_swa {base!r} is not supported for {model_type}.")
    gating = stored("expert_gating_func")
    if model_type == "lfm2_moe" and gating not in (None, _SIGMOID):
        raise ExportError(
            f"expert_gating_func {gating!r} is not supported for {model_type}; supported is "
            f"{_SIGMOID}, the sigmoid."
        )
    if model_type == "granite" and stored("rope.scaling.finetuned") is False:
        raise ExportError(
            "rope.scaling.finetuned is false, which means for granite that no position is rotated; "
            "take the model's safetensors instead."
        )
    sections = stored("rope.dimension_sections")
    if model_type == "glm4" and isinstance(sections, list) and any(sections):
        raise ExportError(f"rope.dimension_sections {sections!r} is not supported.")
    turned = stored("rope.dimension_count_swa")
    if model_type != "gemma4_text" and turned not in (None, head_dim):
        raise ExportError(
            f"rope.dimension_count_swa {turned!r} is not supported; supported is {head_dim!r}, "
            "complete heads."
        )
