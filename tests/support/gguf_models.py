"""Random models of transformers as GGUF files, as llama.cpp's converter stores them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from support.families import FAMILIES
from support.family_data import GgufForm
from support.gguf_files import llama3_factors, metadata_of, stored_tensors, write_gguf
from torch import Tensor

_ENDINGS = {"layer_scalar": "{}.weight", "expert_bias": "{}.bias"}  # that the converter adds


def with_split_experts(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Experts as the converter has them: gate and up apart, matrices as (out, in)."""
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        name = name.replace(".block_sparse_moe.", ".mlp.")
        name = name.replace(".feed_forward.experts.", ".mlp.experts.")
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


def write_model(
    path: Path, reference: Any, form: GgufForm, changes: Mapping[str, Any] | None = None
) -> Path:
    """A model of transformers as a GGUF file, with changes of its metadata."""
    config = reference.config.to_dict()
    rotary = config["rope_parameters"]
    rotary = rotary.get("full_attention", rotary)
    config = {"head_dim": config["hidden_size"] // config["num_attention_heads"], **config}
    config["rope_theta"] = rotary["rope_theta"]
    tensors = with_split_experts(reference.state_dict())
    tensors, numbers = without_numbers(tensors)
    if config["model_type"] == "stablelm":
        tensors = stacked_norms(tensors)
    if config["model_type"] == "gpt_neox":
        tensors = neox_tensors(config, tensors)
    if config["model_type"] == "qwen3_next":
        tensors = qwen3_next_tensors(config, tensors, form.fused)
    elif form.fused:
        tensors = fused_tensors(tensors)
    elif "linear_num_key_heads" in config:
        tensors = delta_tensors(config, tensors)
    tensors = {
        _ENDINGS.get(name.rpartition(".")[2], "{}").format(name): tensor.squeeze(1)
        if name.endswith(".conv.conv.weight")
        else tensor
        for name, tensor in tensors.items()
    }
    if config["tie_word_embeddings"]:
        del tensors["lm_head.weight"]
    if FAMILIES[config["model_type"]].norms_from_one:
        tensors = {
            name: tensor + 1
            if name.endswith("norm.weight") and ".linear_attn." not in name
            else tensor
            for name, tensor in tensors.items()
        }
    made = stored_tensors(
        form.architecture, config, tensors, form.type, pairs_rotate=form.pairs_rotate
    )
    for name, (data, _) in made.items():
        if data.ndim == 3:
            made[name] = gguf.quantize(data, form.experts), form.experts
    for name, factors in form.factors.items():
        if isinstance(factors, str):
            factors = llama3_factors(config["head_dim"], rotary["rope_theta"], rotary)
        made[name] = np.asarray(factors, np.float32), Type.F32
    metadata = metadata_of(form.architecture, config, form.names)
    metadata |= {f"{form.architecture}.{key}": value for key, value in form.more.items()}
    metadata |= numbers | (changes or {})
    return write_gguf(path, metadata, made)


def without_numbers(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors without the numbers of activations, and these as metadata, in the order of layers."""
    numbers: dict[str, list[float]] = {}
    for name, tensor in tensors.items():
        if ".act_fn." in name:
            numbers.setdefault(f"xielu.{name.rpartition('.')[2]}", []).append(tensor.float().item())
    return {name: tensor for name, tensor in tensors.items() if ".act_fn." not in name}, numbers


def stacked_norms(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Norms of each head as rows of one tensor."""
    made: dict[str, list[Tensor]] = {}
    for name, tensor in tensors.items():
        made.setdefault(re.sub(r"\.norms\.\d+", "", name), []).append(tensor)
    return {name: torch.stack(x) if len(x) > 1 else x[0] for name, x in made.items()}


def neox_tensors(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Queries, keys and values one after another, and not head by head."""
    heads = config["num_attention_heads"]
    return {
        name: tensor.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)
        if ".query_key_value." in name
        else tensor
        for name, tensor in tensors.items()
    }


def fused_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Queries, keys and values as one tensor."""
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if ".q_proj." in name:
            parts = [tensors[name.replace(".q_proj.", f".{part}_proj.")] for part in "qkv"]
            made[name.replace(".q_proj.", ".qkv_proj.")] = torch.cat(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            made[name] = tensor
    return made


def qwen3_next_tensors(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], fused: bool
) -> dict[str, Tensor]:
    """Gated delta rules of Qwen3-Next.

    Args:
        fused: whether queries, keys, values and gates are still head by head in one tensor.
    """
    size, heads = config["linear_key_head_dim"], config["linear_num_key_heads"]
    values = config["linear_value_head_dim"] * config["linear_num_value_heads"] // heads
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        block, _, part = name.partition(".linear_attn.")
        if part == "in_proj_qkvz.weight" and not fused:
            parts = tensor.unflatten(0, (heads, -1)).split((size, size, values, values), dim=1)
            *mixed, gates = (rows.flatten(0, 1) for rows in parts)
            made[f"{block}.linear_attn.in_proj_qkv.weight"] = torch.cat(mixed)
            made[f"{block}.linear_attn.in_proj_z.weight"] = gates
        elif part == "conv1d.weight":
            made[name] = tensor.squeeze(1)
        elif part == "A_log":
            made[name] = -tensor.exp()
        else:
            made[name.replace(".dt_bias", ".dt_proj.bias")] = tensor
    return made


def delta_tensors(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the converter makes of gated delta rules: heads of values in the order of the first ones
    of every key head, then the second ones, and so on."""
    key_heads, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    size, keys = config["linear_value_head_dim"], 2 * key_heads * config["linear_key_head_dim"]
    order = [
        key * (heads // key_heads) + one
        for one in range(heads // key_heads)
        for key in range(key_heads)
    ]

    def rows(tensor: Tensor, size: int) -> Tensor:
        return torch.cat([tensor[head * size : (head + 1) * size] for head in order])

    made = {}
    for name, tensor in tensors.items():
        _, _, part = name.partition(".linear_attn.")
        if part in ("in_proj_qkv.weight", "conv1d.weight"):
            tensor = torch.cat([tensor[:keys], rows(tensor[keys:], size)]).squeeze(1)
        elif part == "in_proj_z.weight":
            tensor = rows(tensor, size)
        elif part == "out_proj.weight":
            tensor = rows(tensor.T, size).T.contiguous()
        elif part in ("in_proj_a.weight", "in_proj_b.weight", "dt_bias"):
            tensor = rows(tensor, 1)
        elif part == "A_log":
            tensor = -rows(tensor, 1).exp()
        made[name.replace(".dt_bias", ".dt_proj.bias")] = tensor
    return made
