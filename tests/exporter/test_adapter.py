"""LoRA adapters that PEFT writes: merged, the model computes what PEFT's own model does."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from support.exported import Quiet
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from exporter.catalogue.find import find_checkpoint
from exporter.checkpoint import Checkpoint, open_checkpoint, with_adapter
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from quant.scheme import Scheme

pytestmark = pytest.mark.filterwarnings(
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning",
    "ignore:Setting `save_embedding_layers`:UserWarning",
    "ignore:You have requested `ensure_weight_tying`:UserWarning",
    "ignore:Model has `tie_word_embeddings=True`:UserWarning",
)
TOKENS = torch.randint(0, 96, (2, 9), generator=torch.Generator().manual_seed(0))
Q_PROJ = "model.layers.0.self_attn.q_proj"
ENDLESS = "(" * 40 + "[a-z]" + "{1,2})" * 40
CASES: list[dict[str, Any]] = [
    {"target_modules": ["q_proj", "v_proj"]},
    {"target_modules": "all-linear", "use_rslora": True},
    {"target_modules": ["q_proj", "down_proj"], "use_dora": True},
    {
        "target_modules": ["q_proj", "k_proj"],
        "rank_pattern": {"k_proj": 3},
        "alpha_pattern": {"layers.1.self_attn.q_proj": 32},
    },
    {"target_modules": ["embed_tokens", "o_proj"]},
    {"target_modules": ["q_proj", "lm_head"]},
    {"target_modules": ["embed_tokens", "lm_head"]},
    {"target_modules": ["embed_tokens"], "modules_to_save": ["lm_head"]},
    {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens"]},
    {"target_modules": ["q_proj"], "modules_to_save": ["norm"]},
    {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
    {"target_modules": ["q_proj"], "bias": "all"},
    {"target_modules": ["q_proj", "embed_tokens"], "use_dora": True},
    # Names that mean nothing in this model, or that other settings take back.
    {"target_modules": ["v_proj", "qkv_proj"], "modules_to_save": ["q_norm"]},
    {"target_modules": ["v_proj", "o_proj"], "exclude_modules": ["o_proj"]},
    {"target_modules": ["v_proj", "down_proj", "embed_tokens"], "layers_to_transform": [1]},
    {"target_modules": ["q_proj", "lm_head"], "ensure_weight_tying": True},
    {
        "target_modules": ["q_proj", "v_proj"],
        "use_rslora": True,
        "alpha_pattern": {r"layers\.1\.self_attn\.(q|k)_proj": 3},
        "rank_pattern": {"^model.layers.0.self_attn.v_proj": 2},
    },
    {
        "target_modules": ["q_proj"],
        "layers_to_transform": [1],
        "layers_pattern": ["layers", "h"],
        "modules_to_save": ["layers.0.mlp.gate_proj"],
    },
]


def base_model(tied: bool) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attention_bias=True,
        tie_word_embeddings=tied,
    )
    return LlamaForCausalLM(config).eval()


def save(
    directory: Path, tied: bool, save_embedding_layers: bool | str = "auto", **settings: Any
) -> tuple[Path, Path, Tensor]:
    """A random model and an adapter of it, each as its library saves it, and PEFT's logits."""
    base, adapter = directory / "base", directory / "adapter"
    model = base_model(tied)
    model.save_pretrained(base)
    adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=7, **settings)).eval()
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data += 0.1 * torch.randn(parameter.shape)
    adapted.save_pretrained(adapter, save_embedding_layers=save_embedding_layers)
    with torch.no_grad():
        return base, adapter, adapted(TOKENS).logits


def logits(checkpoint: Checkpoint) -> Tensor:
    with torch.device("meta"):
        model = CausalLM(checkpoint.config)
    checkpoint.check(model)
    checkpoint.load_into(model, "")
    with torch.no_grad():
        return model.logits(TOKENS)


def test_a_file_that_holds_saved_embeddings_twice(tmp_path: Path) -> None:
    """As PEFT writes them with save_embedding_layers, which it sets for a changed vocabulary."""
    settings = {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]}
    base, adapter, want = save(tmp_path, False, save_embedding_layers=True, **settings)
    names = load_file(adapter / "adapter_model.safetensors")
    start = "base_model.model.model.embed_tokens"
    assert {f"{start}.original_module.weight", f"{start}.modules_to_save.weight"} <= names.keys()
    have = logits(with_adapter(open_checkpoint(base), adapter))
    assert torch.allclose(have, want, rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base, adapter, _ = save(tmp_path_factory.mktemp("pair"), False, target_modules=["q_proj"])
    return base, adapter


def changed(adapter: Path, directory: Path, **fields: Any) -> Path:
    """A copy of an adapter with other fields in its configuration."""
    copy = directory / "changed"
    copy.mkdir()
    config = json.loads((adapter / "adapter_config.json").read_text())
    (copy / "adapter_config.json").write_text(json.dumps(config | fields))
    (copy / "adapter_model.safetensors").symlink_to(adapter / "adapter_model.safetensors")
    return copy


def refusal(base: Path, adapter: Path | str) -> str:
    with pytest.raises(ExportError) as raised:
        with_adapter(open_checkpoint(base), adapter)
    return str(raised.value)


def test_weights_as_peft_wrote_them_before(pair: tuple[Path, Path], tmp_path: Path) -> None:
    base, adapter = pair
    pickled = changed(adapter, tmp_path)
    weights = pickled / "adapter_model.safetensors"
    torch.save(load_file(weights), pickled / "adapter_model.bin")
    weights.unlink()
    have, want = (logits(with_adapter(open_checkpoint(base), at)) for at in (pickled, adapter))
    assert torch.equal(have, want)


def test_an_adapter_in_the_models_directory(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Other libraries load both."""
    base, adapter = pair
    both = shutil.copytree(base, tmp_path / "both")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(adapter / name, both)
    options = ExportOptions(model=str(both), out=tmp_path / "x.pte", scheme=Scheme("none"))
    with pytest.raises(ExportError, match="says that an adapter belongs to this model: merge it"):
        find_checkpoint(options, Quiet())
    merged = find_checkpoint(replace(options, adapter=str(both)), Quiet())
    assert torch.equal(logits(merged), logits(with_adapter(open_checkpoint(base), adapter)))
    named = f"is an adapter, not a model: export its base model .*with --adapter {adapter}"
    with pytest.raises(ExportError, match=named):
        open_checkpoint(adapter)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("settings", CASES, ids=str)
def test_it_computes_what_peft_computes(
    settings: dict[str, Any], tied: bool, tmp_path: Path
) -> None:
    base, adapter, want = save(tmp_path, tied, **settings)
    said: list[str] = []
    listener = Quiet()
    listener.note = said.append  # type: ignore[method-assign]
    options = ExportOptions(model=str(base), out=tmp_path / "x.pte", adapter=str(adapter))
    merged = find_checkpoint(options, listener)
    unties = tied and not merged.config.tie_word_embeddings
    assert said == [one for one in said if "two matrices" in one] and len(said) == unties
    have = logits(merged)
    assert (have - logits(open_checkpoint(base))).abs().max() > 1e-2
    # Logits of about 1 from float32 sums of at most 48 products, in another order.
    assert torch.allclose(have, want, rtol=0, atol=1e-5)


def test_of_several_patterns_the_first_in_the_file_counts(tmp_path: Path) -> None:
    """As where PEFT loads the adapter: it sorts them when it saves, so it may have trained with
    another one."""
    patterns = {"q_proj": 5, "layers.0.self_attn.q_proj": 32}
    base, adapter, _ = save(tmp_path, False, target_modules=["q_proj"], alpha_pattern=patterns)
    with torch.no_grad():
        want = PeftModel.from_pretrained(base_model(False), adapter).eval()(TOKENS).logits
    merged = with_adapter(open_checkpoint(base), adapter)
    assert torch.allclose(logits(merged), want, rtol=0, atol=1e-5)
    (note,) = merged.notes
    assert f"'layers.0.self_attn.q_proj' and 'q_proj' match {Q_PROJ}. The first counts" in note


def test_a_setting_of_layers_that_no_decoder_has(tmp_path: Path) -> None:
    """PEFT takes fan_in_fan_out back where modules are linear."""
    base, adapter, want = save(tmp_path, False, target_modules=["q_proj", "o_proj"], use_dora=True)
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fan_in_fan_out": True}))
    have = logits(with_adapter(open_checkpoint(base), adapter))
    assert torch.allclose(have, want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("names", ["language_model.layers", "layers"])
def test_names_of_another_class_of_the_model_are_read_with_a_note(
    pair: tuple[Path, Path], tmp_path: Path, names: str
) -> None:
    base, adapter = pair
    deeper = changed(adapter, tmp_path)
    path = deeper / "adapter_model.safetensors"
    path.unlink()
    tensors = load_file(adapter / path.name)
    save_file({n.replace("model.layers", names): t for n, t in tensors.items()}, path)
    checkpoint = open_checkpoint(base)
    same, moved = with_adapter(checkpoint, adapter), with_adapter(checkpoint, deeper)
    assert torch.equal(logits(moved), logits(same))
    assert not same.notes
    assert "PEFT leaves such changes out" in moved.notes[0]


def test_an_adapter_of_another_model(pair: tuple[Path, Path], tmp_path: Path) -> None:
    base, adapter = pair
    other = tmp_path / "other"
    model = base_model(False).config
    model.hidden_size = 64
    LlamaForCausalLM(model).save_pretrained(other)
    assert refusal(other, adapter) == (
        f"The adapter {adapter} does not fit other: it changes "
        "model.layers.0.self_attn.q_proj.weight (32, 32), and other has (32, 64) there; take the "
        "adapter's own base model."
    )
    model.num_hidden_layers, model.hidden_size = 1, 32
    LlamaForCausalLM(model).save_pretrained(other)
    assert (
        "layers.1.self_attn.q_proj.weight (32, 32), and other has no such tensor; take"
        in refusal(other, adapter)
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'; only LORA adapters can be merged."),
        ({"layer_replication": [[0, 2]]}, "layer_replication is [[0, 2]], which is not supported."),
        ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights is 'pissa_niter_4', which"),
        ({"lora_alpha": "7"}, "lora_alpha is '7', not a number."),
        ({"lora_alpha": float("nan")}, "lora_alpha is nan, not a number."),
        ({"use_rslora": 1}, "use_rslora is 1, neither true nor false."),
        ({"alpha_pattern": ["q_proj"]}, "alpha_pattern is ['q_proj'], not an object of numbers."),
        ({"alpha_pattern": {"(": 1}}, "alpha_pattern '(' is not a regular expression"),
        ({"rank_pattern": {"(": 1}}, "rank_pattern '(' is not a regular expression"),
        ({"target_modules": "("}, "target_modules '(' is not a regular expression"),
        ({"layers_to_transform": 1, "layers_pattern": "("}, "layers_pattern '(' is not a regular"),
        ({"rank_pattern": {"a{99999999999}": 1}}, "is not a regular expression (the repetition"),
        ({"target_modules": "(.*)*(.*)*(.*)*x"}, f"{Q_PROJ} has a low-rank change and is no targ"),
        ({"alpha_pattern": {ENDLESS: 1}}, f"alpha_pattern '{ENDLESS}' takes too long: write it"),
        (
            {"target_modules": ["q_proj", 1]},
            "target_modules is ['q_proj', 1], not a list of names.",
        ),
        ({"r": "4"}, "the rank r is '4', not a whole number from 1 on."),
        ({"r": 0}, "the rank r is 0, not a whole number from 1 on."),
        ({"bias": "foo"}, "bias is 'foo'; it is one of none, all, lora_only."),
        ({"layers_to_transform": ["0"]}, "layers_to_transform is ['0'], not a list of numbers."),
        ({"r": 8}, f"{Q_PROJ} has a low-rank change of rank 4, not 8; take the two"),
        ({"rank_pattern": {"q_proj": 2}}, f"{Q_PROJ} has a low-rank change of rank 4, not 2; take"),
        ({"target_modules": []}, f"{Q_PROJ} has a low-rank change and is no target there;"),
        ({"target_modules": "k_proj"}, f"{Q_PROJ} has a low-rank change and is no target there;"),
        ({"exclude_modules": ["q_proj"]}, f"{Q_PROJ} has a low-rank change and is no target"),
        ({"layers_to_transform": 1}, f"{Q_PROJ} has a low-rank change and is no target there;"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save names lm_head, whose tensors are miss"),
        ({"use_dora": True}, f"use_dora is True, and {Q_PROJ} has no lora_magnitude_vector;"),
        ({"target_modules": ["q_proj", "gate_proj"]}, "mlp.gate_proj is one of target_modules and"),
        ({"target_modules": ["q_proj", "lm_head"]}, "lm_head is one of target_modules and has no"),
    ],
)
def test_what_is_not_computed_is_refused(
    pair: tuple[Path, Path], tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    base, adapter = pair
    assert sentence in refusal(base, changed(adapter, tmp_path, **fields))


def test_what_is_no_adapter(pair: tuple[Path, Path], tmp_path: Path) -> None:
    base, adapter = pair
    assert refusal(base, base).startswith(f"{base} has no adapter_config.json; a PEFT adapter has")
    assert refusal(base, "no where/at all") == (
        "There is no directory no where/at all; an adapter is a directory or a hub id."
    )
    alone = changed(adapter, tmp_path)
    weights = alone / "adapter_model.safetensors"
    weights.unlink()
    assert "has neither adapter_model.safetensors nor adapter_model.bin; save" in refusal(
        base, alone
    )
    tensors = load_file(adapter / weights.name)
    first = next(name for name in tensors if "lora_A" in name)
    save_file({name: t for name, t in tensors.items() if name != first}, weights)
    assert "lora_A and lora_B of model.layers.0.self_attn.q_proj do not fit each other" in refusal(
        base, alone
    )
    save_file({name: t for name, t in tensors.items() if "layers.0" not in name}, weights)
    assert f"{Q_PROJ} is one of target_modules and has no tensors" in refusal(base, alone)
    save_file({**tensors, "base_model.model.x.other": torch.zeros(1)}, weights)
    assert "holds base_model.model.x.other, which is neither a low-rank change nor" in refusal(
        base, alone
    )
    save_file({}, weights)
    assert "holds no tensors" in refusal(base, alone)
