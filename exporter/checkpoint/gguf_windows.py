"""Windows of attention in GGUF files: those that llama.cpp computes, and a note of those that it
leaves out."""

from collections.abc import Callable, Mapping
from typing import Any

from exporter.models.fields import FULL, SLIDING

_KEY, _PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"
_KINDS = (FULL, SLIDING)
# Families whose windows llama.cpp computes, by how many layers the model must have; None: any.
_COMPUTED = {
    "cohere2": None,
    "exaone4": 64,
    "gemma2": None,
    "gemma3_text": None,
    "gemma4_text": None,
    "gpt_oss": None,
    "lfm2": None,
    "olmo2": None,
}
Metadata = Callable[[str], Any]


def window_fields(fields: Mapping[str, Any], stored: Metadata) -> dict[str, Any]:
    """Returns the fields of config.json that say which layers slide.

    Args:
        fields: the others, and `sliding_window`; where it is 0 or absent, no layer slides.
        stored: reads the metadata behind the architecture's name and a dot.
    """
    model_type, layers = fields["model_type"], fields.get("num_hidden_layers")
    if not _computes(model_type, layers):
        return {"sliding_window": None}
    if not fields.get("sliding_window"):
        if model_type == "gemma3_text" and type(layers) is int:
            return {"sliding_window": None, "layer_types": [FULL] * layers}
        return {} if model_type == "exaone4" else {"sliding_window": None}
    # Ai2's models of both generations call themselves olmo2.
    given: dict[str, Any] = {"model_type": "olmo3"} if model_type == "olmo2" else {}
    pattern = stored(_PATTERN)
    if isinstance(pattern, list):
        given["layer_types"] = [_KINDS[bool(slides)] for slides in pattern]
    elif type(pattern) is int and type(layers) is int:  # every so many does not slide; 0: all do
        slide = [pattern == 0 or index % pattern < pattern - 1 for index in range(layers)]
        given["layer_types"] = [_KINDS[slides] for slides in slide]
    return given


def window_notes(metadata: Mapping[str, Any], model_type: str, layers: Any) -> tuple[str, ...]:
    """Returns a sentence for a window that the file names and llama.cpp leaves out."""
    name = metadata["general.architecture"]
    window, context = (metadata.get(f"{name}.{key}") for key in (_KEY, "context_length"))
    if _computes(model_type, layers) or type(window) is not int or window <= 0:
        return ()
    if type(context) is int and window >= context:
        return ()
    return (
        f"{name}.{_KEY} {window} is left out, as in llama.cpp: every token sees all before it. "
        "The model's safetensors are exported with their windows.",
    )


def _computes(model_type: str, layers: Any) -> bool:
    return model_type in _COMPUTED and _COMPUTED[model_type] in (None, layers)
