"""Random models of transformers as GGUF files, as llama.cpp's converter stores them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType as Type
from support.gguf_files import llama3_factors, metadata_of, stored_tensors, write_gguf


@dataclass(frozen=True)
class GgufForm:
    """How a model is form.

    Attributes:
        names: the architecture's own keys, by the config's fields.
        more: metadata behind the architecture's name and a dot.
        from_one: whether norms are stored as they multiply, and not as distances from 1.
        factors: tensors beside the model's.
    """

    architecture: str
    names: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    pairs_rotate: bool = False
    from_one: bool = False
    factors: Mapping[str, Any] = field(default_factory=dict)


def write_model(path: Path, reference: Any, form: GgufForm) -> Path:
    """A model of transformers as a GGUF file."""
    config = reference.config.to_dict()
    rotary = config["rope_parameters"]
    rotary = rotary.get("full_attention", rotary)
    config = {"head_dim": config["hidden_size"] // config["num_attention_heads"], **config}
    config["rope_theta"] = rotary["rope_theta"]
    tensors = reference.state_dict()
    if config["tie_word_embeddings"]:
        del tensors["lm_head.weight"]
    if form.from_one:
        tensors = {n: t + 1 if n.endswith("norm.weight") else t for n, t in tensors.items()}
    made = stored_tensors(form.architecture, config, tensors, pairs_rotate=form.pairs_rotate)
    for name, factors in form.factors.items():
        if isinstance(factors, str):
            factors = llama3_factors(config["head_dim"], rotary["rope_theta"], rotary).numpy()
        made[name] = factors, Type.F32
    metadata = metadata_of(form.architecture, config, form.names)
    metadata |= {f"{form.architecture}.{key}": value for key, value in form.more.items()}
    return write_gguf(path, metadata, made)
