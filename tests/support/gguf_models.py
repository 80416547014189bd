"""Random models of transformers as GGUF files, as llama.cpp's converter stores them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
from gguf import GGMLQuantizationType as Type
from support.gguf_files import llama3_factors, metadata_of, stored_tensors, write_gguf
from torch import Tensor


@dataclass(frozen=True)
class GgufForm:
    """How a model is form.

    Attributes:
        names: the architecture's own keys, by the config's fields.
        more: metadata behind the architecture's name and a dot.
        from_one: whether norms are stored as they multiply, and not as distances from 1.
        factors: tensors beside the model's.
        experts: the type of the experts' matrices.
    """

    architecture: str
    names: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    pairs_rotate: bool = False
    from_one: bool = False
    factors: Mapping[str, Any] = field(default_factory=dict)
    experts: Type = Type.F32


def with_split_experts(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Experts as the converter has them: gate and up apart, matrices as (out, in)."""
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        block, is_expert, part = name.partition(".mlp.experts.")
        if name.endswith(".sinks"):
            made[f"{name}.weight"] = tensor
        elif not is_expert:
            made[name] = tensor
        else:
            whole = part.removesuffix("_bias")
            alternate = f"{block}.mlp.experts.gate_up_proj_bias" in tensors
            tensor = tensor.mT if alternate and tensor.ndim == 3 else tensor
            end = "bias" if part != whole else "weight"
            if whole == "down_proj":
                parts = {whole: tensor}
            elif alternate:
                parts = {"gate_proj": tensor[:, ::2], "up_proj": tensor[:, 1::2]}
            else:
                parts = dict(zip(("gate_proj", "up_proj"), tensor.chunk(2, dim=1), strict=True))
            made |= {f"{block}.mlp.experts.{p}.{end}": t.contiguous() for p, t in parts.items()}
    return made


def write_model(path: Path, reference: Any, form: GgufForm) -> Path:
    """A model of transformers as a GGUF file."""
    config = reference.config.to_dict()
    rotary = config["rope_parameters"]
    rotary = rotary.get("full_attention", rotary)
    config = {"head_dim": config["hidden_size"] // config["num_attention_heads"], **config}
    config["rope_theta"] = rotary["rope_theta"]
    tensors = with_split_experts(reference.state_dict())
    if config["tie_word_embeddings"]:
        del tensors["lm_head.weight"]
    if form.from_one:
        tensors = {n: t + 1 if n.endswith("norm.weight") else t for n, t in tensors.items()}
    made = stored_tensors(form.architecture, config, tensors, pairs_rotate=form.pairs_rotate)
    for name, (data, _) in made.items():
        if data.ndim == 3:
            made[name] = gguf.quantize(data, form.experts), form.experts
    for name, factors in form.factors.items():
        if isinstance(factors, str):
            factors = llama3_factors(config["head_dim"], rotary["rope_theta"], rotary).numpy()
        made[name] = factors, Type.F32
    metadata = metadata_of(form.architecture, config, form.names)
    metadata |= {f"{form.architecture}.{key}": value for key, value in form.more.items()}
    return write_gguf(path, metadata, made)
