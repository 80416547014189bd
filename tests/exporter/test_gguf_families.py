"""Each architecture that GGUF files hold: random models of transformers, stored as llama.cpp's
converter does, compute the same logits when they are read back."""

import random
from dataclasses import replace
from pathlib import Path

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from support.families import FAMILIES
from support.families.qwen3_moe import KEYS, MIXTURE
from support.family_data import GgufForm
from support.family_models import Case, assert_same, case_of, reference_model, tokens_of
from support.gguf_files import COMMON
from support.gguf_models import with_split_experts, write_model
from support.loading import loaded
from torch import Tensor

from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM

CASES = [
    pytest.param(case_of(name, label), form, id=f"{name}-{label}")
    for name, data in FAMILIES.items()
    for label, form in data.gguf.items()
]


@pytest.mark.parametrize(("case", "form"), CASES)
def test_logits_are_those_of_transformers(tmp_path: Path, case: Case, form: GgufForm) -> None:
    """Of a text, and where its length chooses a rotary table, of one that has the other."""
    reference = reference_model(case)
    path = write_model(tmp_path / "m.gguf", reference, form)
    checkpoint, tokens = open_checkpoint(path), tokens_of(reference)
    checkpoint.config = checkpoint.config.for_context(tokens.shape[1], both=True)
    model = loaded(checkpoint)
    original = model.config.original_context
    assert (original is not None) == ("rope_factors_long.weight" in form.factors)
    texts = [tokens] if original is None else [tokens, tokens[:, :original]]
    for text in texts:
        with torch.no_grad():
            assert_same(_logits(model, text), reference(text).logits)


@pytest.mark.parametrize(
    ("model_type", "label"),
    [
        ("exaone4", "full"),
        ("ministral3", "grown"),
        ("mistral", "no-window"),
        ("mixtral", "experts"),
        ("phi3", "plain"),
        ("qwen3", "plain"),
        ("smollm3", "every-fourth"),
        ("starcoder2", "plain"),
    ],
)
def test_windows_that_llama_cpp_leaves_out(tmp_path: Path, model_type: str, label: str) -> None:
    """They are left out, and a note says it."""
    reference = reference_model(case_of(model_type, label))
    form = FAMILIES[model_type].gguf[label]
    window, pattern = "attention.sliding_window", "attention.sliding_window_pattern"
    changed = replace(form, more={**form.more, window: 4, pattern: 2})
    checkpoint = open_checkpoint(write_model(tmp_path / "m.gguf", reference, changed))
    tokens = tokens_of(reference)
    assert checkpoint.notes == (
        f"{form.architecture}.{window} 4 is left out, as in llama.cpp: every token sees all before "
        "it. The model's safetensors are exported with their windows.",
    )
    with torch.no_grad():
        assert_same(_logits(loaded(checkpoint), tokens), reference(tokens).logits)


@torch.no_grad()
def _logits(model: CausalLM, tokens: Tensor) -> Tensor:
    hidden = model.embed(tokens)
    context = model.text_context(model.context(tokens.shape[1]), tokens, hidden)
    for layer in model.model.layers:
        hidden = layer(hidden, context)
    return model.finish_logits(model.lm_head(model.model.norm(hidden)))


@pytest.mark.parametrize("type", [Type.Q8_0, Type.Q4_0, Type.MXFP4, Type.F16], ids=lambda t: t.name)
def test_experts_are_read_one_by_one(tmp_path: Path, type: Type) -> None:
    fields = {**MIXTURE, "hidden_size": 64, "moe_intermediate_size": 96}
    reference = reference_model(Case("qwen3_moe", "stacked", fields))
    form = GgufForm("qwen3moe", KEYS, experts=type)
    checkpoint = open_checkpoint(write_model(tmp_path / "m.gguf", reference, form))
    parts = with_split_experts(reference.state_dict())
    for part in ("gate_proj", "up_proj", "down_proj"):
        block = "model.layers.1.mlp.experts"
        stored = gguf.quantize(parts[f"{block}.{part}.weight"].numpy(), type)
        want = torch.from_numpy(gguf.dequantize(stored, type))
        for expert in (0, 3, 6):
            name = f"{block}.{expert}.{part}.weight"
            assert torch.equal(checkpoint.tensor(name).float(), want[expert])
            assert checkpoint.source_type(name) == type.name
            kept = checkpoint.integers(name)
            assert (kept is not None) == (type in (Type.Q8_0, Type.Q4_0))
            if kept is not None:
                floats = kept.values.unflatten(1, (-1, 32)) * kept.scales[..., None]
                assert torch.equal(floats.flatten(1), want[expert])


@pytest.mark.parametrize("beta", [[0.5], ["x"] * 3, 7])
def test_xielu_without_a_number_for_each_layer_is_refused(tmp_path: Path, beta: object) -> None:
    label, form = next(iter(FAMILIES["apertus"].gguf.items()))
    path = write_model(
        tmp_path / "m.gguf", reference_model(case_of("apertus", label)), form, {"xielu.beta": beta}
    )
    with pytest.raises(ExportError, match="xielu.beta is .*; it must have a number for each layer"):
        open_checkpoint(path)


@pytest.mark.parametrize("model_type", ["lfm2", "gemma4_text", "qwen3_5_text"])
def test_other_metadata_is_read_or_refused_in_a_sentence(tmp_path: Path, model_type: str) -> None:
    """One value replaced by another, most of them of a wrong type or size."""
    label, form = next(iter(FAMILIES[model_type].gguf.items()))
    reference, refused = reference_model(case_of(model_type, label)), 0
    values = [0, 1, 7, 2**31 - 1, -1.0, 0.5, float("nan"), "x", True, [0], [1, 2, 3], [2] * 6]
    values += [[0.5] * 3, ["x", "y", "z"], [False] * 3, [True] * 6, [False] * 6]
    changes = [(key, value) for key in (*COMMON, *form.names, *form.more) for value in values]
    for key, value in random.Random(0).sample(changes, 60):
        changed = replace(form, more={**form.more, key: value})
        path = write_model(tmp_path / "m.gguf", reference, changed)
        try:
            checkpoint = open_checkpoint(path)
            with torch.device("meta"):
                checkpoint.check(CausalLM(checkpoint.config))
        except ExportError as error:
            refused += 1
            assert "\n" not in str(error) and str(error).endswith("."), (key, value)
    assert refused > 20
