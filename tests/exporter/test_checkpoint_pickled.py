"""Files of `torch.save`: torchtune's own and older Hugging Face directories, of random models."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from support.loading import loaded
from torch import Tensor

from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError

SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 80,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {},
    "gemma2": {"query_pre_attn_scalar": 16, "sliding_window": 32},
    "phi3": {},
}
PAIRED = ("llama", "mistral", "gemma2")
NAMES = {
    "model.embed_tokens.": "tok_embeddings.",
    "model.layers.": "layers.",
    "self_attn.o_proj": "attn.output_proj",
    "self_attn.": "attn.",
    "gate_proj": "w1",
    "down_proj": "w2",
    "up_proj": "w3",
    "model.norm.weight": "norm.scale",
    "q_norm.weight": "q_norm.scale",
    "k_norm.weight": "k_norm.scale",
    "lm_head.": "output.",
    "input_layernorm.weight": "sa_norm.scale",
}
NORMS = {"post_attention_layernorm.weight": "mlp_norm.scale"}
SANDWICH = {
    "post_attention_layernorm.weight": "sa_scale.scale",
    "pre_feedforward_layernorm.weight": "mlp_norm.scale",
    "post_feedforward_layernorm.weight": "mlp_scale.scale",
}


def random_model(model_type: str) -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(model_type, **SHAPE, **FAMILIES[model_type])
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:  # norms and biases are 1 and 0 else
            parameter.data += torch.randn(parameter.shape) * 0.2
    return model


def by_pairs(weight: Tensor) -> Tensor:
    """Rows of each head in the order x0, x_half, x1, ..."""
    halves = weight.view(-1, 2, 8, 64)
    return halves.transpose(1, 2).reshape(weight.shape)


def tuned(model: transformers.PreTrainedModel) -> dict[str, Tensor]:
    model_type, tensors = model.config.model_type, {}
    state = model.state_dict()
    if model.config.tie_word_embeddings:
        del state["lm_head.weight"]
    for name, tensor in state.items():
        if name.endswith("qkv_proj.weight"):
            parts = zip("qkv", tensor.split([64, 32, 32]), strict=True)
            tensors |= {name.replace("qkv", letter): part for letter, part in parts}
        elif name.endswith("gate_up_proj.weight"):
            gate, up = tensor.chunk(2)
            tensors |= {name.replace("gate_up", "gate"): gate, name.replace("gate_up", "up"): up}
        elif name.endswith(("q_proj.weight", "k_proj.weight")) and model_type in PAIRED:
            tensors[name] = by_pairs(tensor)
        else:
            tensors[name] = tensor
    names = NAMES | (SANDWICH if model_type == "gemma2" else NORMS)
    result = {}
    for name, tensor in tensors.items():
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        result[name] = tensor.contiguous().clone()
    return result


def write(directory: Path, model: transformers.PreTrainedModel) -> Path:
    model.config.to_json_file(directory / "config.json")
    torch.save(tuned(model), directory / "model-00001-of-00001.bin")
    return directory


@pytest.mark.parametrize("model_type", FAMILIES)
@torch.no_grad()
def test_logits_are_those_of_the_model(tmp_path: Path, model_type: str) -> None:
    model = random_model(model_type)
    tokens = torch.arange(40)[None] * 7 % 80
    ours = loaded(open_checkpoint(write(tmp_path, model))).logits(tokens)
    torch.testing.assert_close(ours, model(tokens).logits, rtol=0, atol=1e-4)


@torch.no_grad()
def test_metas_layout_of_torchtune(tmp_path: Path) -> None:
    """One file in Meta's names beside params.json, under torchtune's name."""
    model = random_model("llama")
    tensors = tuned(model)
    names = {
        ".attn.output_proj": ".attention.wo",
        "sa_norm.scale": "attention_norm.weight",
        "mlp_norm.scale": "ffn_norm.weight",
        ".mlp.": ".feed_forward.",
        "norm.scale": "norm.weight",
        **{f".attn.{letter}_proj": f".attention.w{letter}" for letter in "qkv"},
    }
    renamed = {}
    for name, tensor in tensors.items():
        for theirs, metas in names.items():
            name = name.replace(theirs, metas)
        renamed[name] = tensor
    torch.save(renamed, tmp_path / "model-00001-of-00001.bin")
    params = {"dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 80}
    (tmp_path / "params.json").write_text(json.dumps({**params, "norm_eps": 1e-6}))
    tokens = torch.arange(40)[None] * 7 % 80
    ours = loaded(open_checkpoint(tmp_path)).logits(tokens)
    torch.testing.assert_close(ours, model(tokens).logits, rtol=0, atol=1e-4)


def test_another_programs_file_of_that_name(tmp_path: Path) -> None:
    path = write(tmp_path, random_model("llama")) / "model-00001-of-00001.bin"
    torch.save({"weight": torch.ones(2)}, path)
    with pytest.raises(ExportError) as raised:
        open_checkpoint(tmp_path)
    assert str(raised.value) == (
        f"{path} has no tensor tok_embeddings.weight, so torchtune did not write it; name a "
        "directory in the layout of Hugging Face, Meta or torchtune."
    )


@torch.no_grad()
@pytest.mark.parametrize("shards", [1, 2])
def test_pickled_weights(tmp_path: Path, shards: int) -> None:
    model = random_model("qwen2")
    model.config.to_json_file(tmp_path / "config.json")
    tensors = model.state_dict()
    if shards == 1:
        torch.save(tensors, tmp_path / "pytorch_model.bin")
    else:
        places = {
            name: f"pytorch_model-0000{1 + number % 2}-of-00002.bin"
            for number, name in enumerate(tensors)
        }
        for file in set(places.values()):
            held = {name: tensor for name, tensor in tensors.items() if places[name] == file}
            torch.save(held, tmp_path / file)
        (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    tokens = torch.arange(40)[None] * 7 % 80
    ours = loaded(open_checkpoint(tmp_path)).logits(tokens)
    torch.testing.assert_close(ours, model(tokens).logits, rtol=0, atol=1e-4)
    if shards == 2:
        (tmp_path / "pytorch_model-00002-of-00002.bin").unlink()
        with pytest.raises(ExportError, match="lacks 1 of the 2 files that pytorch_model.bin.ind"):
            open_checkpoint(tmp_path)


def test_a_pickle_with_code_is_not_read(tmp_path: Path) -> None:
    model = random_model("llama")
    model.config.to_json_file(tmp_path / "config.json")
    torch.save({"model": model}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ExportError, match="more than tensors, such as code that would run"):
        open_checkpoint(tmp_path)


def test_tensors_of_another_library_are_refused(tmp_path: Path) -> None:
    """Those of torchao load where it is imported."""
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = random_model("llama")
    quantize_(model, Int8WeightOnlyConfig())
    torch.save(dict(model.state_dict()), tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps({**SHAPE, "model_type": "llama"}))
    with pytest.raises(ExportError, match="holds tensors of the type Int8Tensor, which are not"):
        open_checkpoint(tmp_path)
