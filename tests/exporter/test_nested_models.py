"""Models that see as well: of these the language model is read, and what is left out is named."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from support.exported import Quiet
from support.families.gemma2 import GEMMA
from support.families.gemma4_text import GEMMA4
from support.families.qwen3_5_text import QWEN3_5
from support.family_models import SHAPE, assert_same, transformers
from support.loading import loaded

from exporter.catalogue.find import find_checkpoint
from exporter.catalogue.names import EMBEDDED
from exporter.checkpoint import open_checkpoint, with_adapter
from exporter.errors import ExportError
from exporter.models.families import decoder_spec
from exporter.options import ExportOptions
from exporter.tokenizer import compile_tokenizer

VISION: dict[str, Any] = dict(
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    image_size=28,
    patch_size=14,
)
VISION_Q_PROJ = "base_model.model.model.vision_tower.encoder.layers.1.self_attn.q_proj"
TEXT = {**SHAPE, "num_hidden_layers": 2, "tie_word_embeddings": True}


def gemma3() -> Any:
    config = transformers.Gemma3Config(
        text_config={**TEXT, **GEMMA, "sliding_window_pattern": 2},
        vision_config={**VISION, "model_type": "siglip_vision_model"},
        mm_tokens_per_image=4,
        eos_token_id=[1, 106],
    )
    return transformers.Gemma3ForConditionalGeneration(config)


def mistral3() -> Any:
    config = transformers.Mistral3Config(
        text_config={**TEXT, "model_type": "ministral3", "head_dim": 8},
        vision_config={**VISION, "model_type": "pixtral", "head_dim": 8},
        image_token_index=10,
    )
    return transformers.Mistral3ForConditionalGeneration(config)


def qwen3_5() -> Any:
    text = {**TEXT, **QWEN3_5, "layer_types": ["linear_attention", "full_attention"]}
    vision = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=14)
    config = transformers.Qwen3_5Config(
        text_config=text,
        vision_config={**vision, "out_hidden_size": SHAPE["hidden_size"]},
        tie_word_embeddings=True,
    )
    return transformers.Qwen3_5ForConditionalGeneration(config)


def qwen3_vl() -> Any:
    vision = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=14)
    vision |= dict(out_hidden_size=SHAPE["hidden_size"], deepstack_visual_indexes=[0])
    config = transformers.Qwen3VLConfig(
        text_config=TEXT, vision_config=vision, tie_word_embeddings=True, image_token_id=10
    )
    return transformers.Qwen3VLForConditionalGeneration(config)


def gemma4() -> Any:
    vision = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2)
    config = transformers.Gemma4Config(
        text_config={**TEXT, **GEMMA4, "pad_token_id": 0},
        vision_config={**vision, "num_key_value_heads": 2, "head_dim": 8},
        audio_config=dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2),
        eos_token_id=[1, 106],
    )
    return transformers.Gemma4ForConditionalGeneration(config)


def smolvlm() -> Any:
    config = transformers.SmolVLMConfig(
        text_config={**TEXT, "model_type": "llama", "tie_word_embeddings": False},
        vision_config=VISION,
        image_token_id=10,
    )
    return transformers.SmolVLMForConditionalGeneration(config)


def idefics3() -> Any:
    config = transformers.Idefics3Config(
        text_config={**TEXT, "model_type": "llama"}, vision_config=VISION, image_token_id=10
    )
    return transformers.Idefics3ForConditionalGeneration(config)


# What is left out of each.
PARTS = {
    smolvlm: {"vision_model", "connector"},
    idefics3: {"vision_model", "connector"},
    gemma3: {"vision_tower", "multi_modal_projector"},
    gemma4: {"audio_tower", "embed_audio", "embed_vision", "vision_tower"},
    mistral3: {"vision_tower", "multi_modal_projector"},
    qwen3_5: {"visual", "mtp"},
    qwen3_vl: {"visual"},
}


@pytest.mark.parametrize("build", PARTS)
@pytest.mark.parametrize("older", [False, True], ids=["saved now", "older names"])
@torch.no_grad()
def test_the_language_model_is_read(build: Any, older: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    reference = build().eval()
    reference.config._attn_implementation = "eager"
    for name, parameter in reference.named_parameters():
        spread = (0.3 if parameter.dim() == 1 else 0.15) * torch.randn_like(parameter)
        parameter.data = spread + ("norm" in name and build not in (gemma3, qwen3_5))
    reference.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    is_older = any(name.startswith("language_model.model.") for name in tensors)
    if is_older != older and build not in (smolvlm, idefics3):  # which have one name alone
        old, new = "language_model.model.", "model.language_model."
        old, new = (new, old) if older else (old, new)
        tensors = {renamed(name, old, new): tensor for name, tensor in tensors.items()}
    if build is qwen3_5:  # transformers has no such head, and published files do
        tensors |= {"mtp.fc.weight": torch.ones(2, 2), "mtp.norm.weight": torch.ones(2)}
    save_file(tensors, tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path)
    assert set(checkpoint.left_out) == PARTS[build]
    tokens = torch.arange(20, 60)[None]
    model = loaded(checkpoint).eval()
    assert_same(model.logits(tokens), reference(tokens).logits)

    said: list[str] = []
    listener = Quiet()
    listener.note = said.append  # type: ignore[method-assign]
    options = ExportOptions(str(tmp_path), tmp_path / "model.pte", vision=False)
    find_checkpoint(options, listener)
    parts = checkpoint.left_out
    assert said == [
        f"Exporting the language model of {checkpoint.name} alone, without "
        + ", ".join(f"{name} ({count} tensor{'s' * (count > 1)})" for name, count in parts.items())
        + "."
    ]


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize("build", [gemma3, qwen3_5])
@torch.no_grad()
def test_adapters_that_also_change_what_is_left_out(build: Any, tmp_path: Path) -> None:
    """Of layers of the same shape as the language model's, too."""
    torch.manual_seed(0)
    reference = build().eval()
    reference.save_pretrained(tmp_path / "base")
    adapted = get_peft_model(reference, LoraConfig(r=3, target_modules="all-linear")).eval()
    for parameter in adapted.parameters():
        parameter.data += parameter.requires_grad * 0.1 * torch.randn(parameter.shape)
    adapted.save_pretrained(tmp_path / "adapter")
    tensors = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    vision = {name: tensor for name, tensor in tensors.items() if "language_model" not in name}
    assert vision
    q_proj = "base_model.model.model.language_model.layers.1.self_attn.q_proj"
    for matrix in ("lora_A", "lora_B") if build is gemma3 else ():
        zeros = torch.zeros_like(tensors[f"{q_proj}.{matrix}.weight"])
        tensors[f"{VISION_Q_PROJ}.{matrix}.weight"] = zeros
    save_file(tensors, tmp_path / "adapter" / "adapter_model.safetensors")
    checkpoint, tokens = open_checkpoint(tmp_path / "base"), torch.arange(20, 60)[None]
    merged = loaded(with_adapter(checkpoint, tmp_path / "adapter"))
    torch.testing.assert_close(
        merged.logits(tokens), adapted(input_ids=tokens).logits, rtol=0, atol=1e-4
    )
    save_file(vision, tmp_path / "adapter" / "adapter_model.safetensors")
    with pytest.raises(ExportError, match="changes only .* of base, which is not exported; take"):
        with_adapter(checkpoint, tmp_path / "adapter")


def renamed(name: str, old: str, new: str) -> str:
    if name.startswith(old):
        return new + name.removeprefix(old)
    if new.startswith("model."):
        return name if name.startswith("lm_head") else f"model.{name}"
    return name.removeprefix("model.")


def test_what_the_whole_says_holds_where_the_language_model_says_nothing() -> None:
    text = {**SHAPE, "model_type": "llama", "eos_token_id": None}
    whole = {"model_type": "llava", "text_config": text, "eos_token_id": [7, 9]}
    assert decoder_spec(whole).eos_token_ids == (7, 9)
    assert decoder_spec({**whole, "tie_word_embeddings": True}).tie_word_embeddings
    said = {**text, "tie_word_embeddings": False}
    assert not decoder_spec({"text_config": said, "tie_word_embeddings": True}).tie_word_embeddings
    tied = {**text, "tie_word_embeddings": True}
    assert not decoder_spec({"text_config": tied, "tie_word_embeddings": False}).tie_word_embeddings


def test_more_layers_than_any_model_has() -> None:
    sentence = "^num_hidden_layers is 1000000000; at most 10000 are supported.$"
    shape = {**SHAPE, "model_type": "llama", "num_hidden_layers": 10**9}
    for fields in (shape, {"text_config": shape}):
        with pytest.raises(ExportError, match=sentence):
            decoder_spec(fields)


def test_a_nested_config_that_is_none() -> None:
    with pytest.raises(ExportError, match="^text_config is 7; it must be an object.$"):
        decoder_spec({"model_type": "llava", "text_config": 7})
    with pytest.raises(ExportError, match="^model_type 'gemma3' is not supported"):
        decoder_spec({**SHAPE, "model_type": "gemma3"})


def test_heads_that_predict_more_tokens_are_left_out(tmp_path: Path) -> None:
    config = {**SHAPE, "model_type": "qwen2"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = {"model.norm.weight": torch.ones(48), "mtp.norm.weight": torch.ones(48)}
    save_file({**tensors, "mtp.fc.weight": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    config["num_hidden_layers"] = 1
    (tmp_path / "config.json").write_text(json.dumps(config))
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.left_out == {"mtp": 2}
    assert list(checkpoint.weights.shapes()) == ["model.norm.weight"]


@pytest.mark.parametrize("said", [{}, {"tie_word_embeddings": False}], ids=["nothing", "untied"])
def test_a_head_that_is_neither_stored_nor_tied(said: dict[str, bool], tmp_path: Path) -> None:
    text = {**SHAPE, "model_type": "llama", "num_hidden_layers": 1, "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps({"text_config": text, **said}))
    tensors = {"language_model.model.norm.weight": torch.ones(48)}
    save_file(tensors, tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.config.tie_word_embeddings
    assert checkpoint.notes == (
        "no lm_head.weight is stored, so the embedding is also the head, although config.json does "
        "not say tie_word_embeddings. transformers takes random numbers.",
    )


def test_the_tokens_that_begin_and_end_a_text_may_be_nested(tmp_path: Path) -> None:
    """As in Qwen3.5's config.json, whose eos_token_id is in text_config alone."""
    stored = json.loads((EMBEDDED / "tokenizer.json").read_text(encoding="utf-8"))
    stored["post_processor"] = None  # which would say itself how a text begins
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored))
    tokens = {"bos_token_id": 5, "eos_token_id": 7}
    for outer, begin, ends in (({}, 5, [7]), ({"bos_token_id": 6, "eos_token_id": [8]}, 6, [8, 7])):
        (tmp_path / "config.json").write_text(json.dumps({**outer, "text_config": tokens}))
        compiled = compile_tokenizer(tmp_path)
        assert (compiled.bos_id, compiled.eos_ids) == (begin, ends)
