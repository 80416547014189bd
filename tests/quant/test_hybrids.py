"""Layers without attention are quantized as the others are, by what their blocks tell."""

from itertools import filterfalse, product
from pathlib import Path

import pytest
import torch
from support.quantization import MemoryWeights
from support.small_models import ModelWeights, random_model
from support.tiers import checked_rows
from torch import Tensor, nn

from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec
from quant.budget.allocate_bits import Budget, allocate_bits, parts_of
from quant.cache.store import Cache
from quant.layers.blocks import parts_of_layer
from quant.machine.resources import Resources
from quant.machine.spill import Spill
from quant.measure.quality import compare_logits
from quant.measure.size import STOCK
from quant.method import Method
from quant.modules import QuantizedLinear
from quant.quantize import quantize
from quant.scheme import SCHEMES, Scheme

SHAPE = {
    "vocab_size": 90,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
CONFIGS = {
    "lfm2": {
        "block_ff_dim": 144,
        "block_multiple_of": 32,
        "layer_types": ["conv", "full_attention", "conv"],
        "conv_bias": True,
    },
    "qwen3_5_text": {
        "intermediate_size": 96,
        "full_attention_interval": 2,
        "head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
    },
    "phi": {"intermediate_size": 96},
    "qwen2_moe": {
        "intermediate_size": 96,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 64,
        "mlp_only_layers": [1],
    },
    "gemma4_text": {
        "intermediate_size": 96,
        "num_hidden_layers": 6,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "sliding_window": 7,
        "head_dim": 16,
        "global_head_dim": 32,
        "num_kv_shared_layers": 3,
        "use_double_wide_mlp": True,
        "vocab_size_per_layer_input": 90,
        "hidden_size_per_layer_input": 32,
        "final_logit_softcapping": 30.0,
        "bos_token_id": None,
        "eos_token_id": None,
    },
}


def tokens(windows: int, seed: int) -> Tensor:
    return torch.randint(90, (windows, 16), generator=torch.Generator().manual_seed(seed))


def every_day(case: tuple[str, str]) -> bool:
    """Every scheme with one model, and every model with one scheme."""
    return case[0] == next(iter(CONFIGS)) or case[1] == "gptq4"


MEASURED = [case for case in product(CONFIGS, SCHEMES) if case != ("qwen2_moe", "awq4")]


@pytest.mark.parametrize(
    ("model_type", "name"),
    [*filter(every_day, MEASURED), *checked_rows(filterfalse(every_day, MEASURED))],
)
def test_a_scheme_measures_the_model_that_it_makes(model_type: str, name: str) -> None:
    model = random_model(decoder_spec({**SHAPE, **CONFIGS[model_type], "model_type": model_type}))
    with torch.device("meta"):
        made = CausalLM(model.config).eval()
    text = tokens(8, seed=9)
    report = quantize(made, Scheme(name), ModelWeights(model), tokens(8, seed=1), text)
    assert report.quality is not None
    logits = (each.logits(text)[:, :-1] for each in (model, made))
    wanted = compare_logits(*logits, text[:, 1:]).to_dict()
    measured = report.quality.to_dict()
    exact = name == "none"
    # Sums of another order round some of the inputs to the next of 255 steps: in 120 tokens, each
    # moves a figure by a thousandth or so, and two likeliest tokens that are as likely may change
    # places in one of them.
    assert measured.pop("top1") == pytest.approx(wanted.pop("top1"), abs=0 if exact else 1.5 / 120)
    assert measured == pytest.approx(wanted, rel=1e-3 if exact else 1e-2, abs=1e-6)
    for layer in made.model.layers:
        assert isinstance(layer, nn.Module)
        linears = [layer.get_submodule(path) for p in parts_of_layer(layer) for path in p.linears]
        floats = [
            each
            for path, each in layer.named_modules()
            if isinstance(each, nn.Linear) and not path.endswith(("router", "row_gate"))
        ]
        assert len(floats) == (len(linears) if name == "none" else 0)
        assert name == "none" or all(isinstance(each, QuantizedLinear) for each in linears)


def test_an_interrupted_run_resumes_what_later_layers_need(tmp_path: Path) -> None:
    """Keys and values that cached layers leave for those still to be made."""
    fields = {**SHAPE, **CONFIGS["gemma4_text"], "model_type": "gemma4_text"}
    model = random_model(decoder_spec(fields))

    def run(cache: Cache) -> tuple[dict[str, Tensor], int]:
        with torch.device("meta"):
            made = CausalLM(model.config).eval()
        resources = Resources(cache=cache)
        weights, text = ModelWeights(model), tokens(8, 1)
        scheme = Scheme("gptq4", method=Method(descent=0))
        report = quantize(made, scheme, weights, text, resources=resources)
        return dict(made.named_buffers(remove_duplicate=False)), report.cached_layers

    wanted, _ = run(Cache(tmp_path, 10**9))
    for entry in sorted(path for path in tmp_path.rglob("*") if path.is_file())[::3]:
        entry.unlink()
    found, cached = run(Cache(tmp_path, 10**9))
    assert 0 < cached < 6
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())


@pytest.mark.parametrize("name", ["rtn4", "keep"])
def test_a_table_that_lies_on_disk_is_rounded_some_rows_at_a_time(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {**SHAPE, **CONFIGS["gemma4_text"], "model_type": "gemma4_text"}
    weights = MemoryWeights(dict(random_model(decoder_spec(fields)).state_dict()))

    def run(spill: Spill) -> dict[str, Tensor]:
        with torch.device("meta"):
            made = CausalLM(decoder_spec(fields)).eval()
        quantize(made, Scheme(name), weights, resources=Resources(spill=spill))
        return dict(made.named_buffers(remove_duplicate=False))

    wanted, released = run(Spill()), weights.released
    monkeypatch.setattr("quant.layers.outside_layers.PIECE", 7 * 6 * 32)  # 7 of the table's 90 rows
    spill = Spill(tmp_path)
    found = run(spill)
    assert all(torch.equal(found[key], tensor) for key, tensor in wanted.items())
    table = "model.layer_inputs.embedding.values"
    assert found[table].shape == (90, 6 * 32) and spill.mapped
    pieces = weights.released - 2 * released
    assert pieces >= 13 if name == "rtn4" else pieces == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model_type", CONFIGS)
def test_a_budget_is_spread_over_it(model_type: str) -> None:
    model = random_model(decoder_spec({**SHAPE, **CONFIGS[model_type], "model_type": model_type}))
    with torch.device("meta"):
        empty, made = (CausalLM(model.config).eval() for _ in range(2))
    weights = ModelWeights(model)
    chosen = allocate_bits(
        empty, Scheme("rtn4"), Budget(bits=6.5), weights, tokens(8, 9), lambda: None
    )
    parts = {part.name for part in parts_of(empty, Scheme("rtn4"), STOCK)}
    mixers = {"lfm2": "conv.in_proj", "qwen3_5_text": "linear_attn.in_proj"}
    mixer = mixers.get(model_type, "self_attn.qkv_proj")
    assert f"model.layers.0.{mixer}" in parts and chosen.types
    report = quantize(made, chosen, weights, tokens(24, 1), tokens(8, 9))
    assert 5 < report.size.bits_per_weight <= 6.5
