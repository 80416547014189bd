"""Quantized mixtures of experts: each expert by its own tokens, those of one part stored alike."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.expert_models import CLAMPED, EXPERTS, expert_model, with_experts
from support.layer_streams import assert_streams_go_through_the_layer
from support.quantization import content
from support.small_models import ModelWeights
from support.tiers import checked
from torch import Tensor

from exporter.models.decoder import CausalLM
from exporter.models.spec import ExpertsSpec
from quant.budget.allocate_bits import Budget, allocate_bits, parts_of, small_numbers
from quant.budget.sensitivity import measure_costs
from quant.cache.store import Cache
from quant.errors import QuantError
from quant.layers.block_solver import Streams
from quant.layers.gptq import gptq_layer
from quant.layers.stream import Stream
from quant.machine.device import HOST
from quant.machine.resources import Resources
from quant.machine.spill import Spill
from quant.measure.quality import compare_logits
from quant.measure.size import STOCK
from quant.method import DRIFTS, Method
from quant.modules import QuantizedLinear
from quant.quantize import quantize
from quant.report import QuantReport
from quant.rotation.fold import rotate
from quant.rounding.nearest import round_weight
from quant.rounding.solve import rotated_by, solve, statistics
from quant.scheme import Scheme
from quant.weight_type import INT8, int4

BIASED = replace(EXPERTS, router_bias=True)
# Two of them are for comparison alone.
TIERS = {drift: [pytest.mark.soak] * (drift in ("gptaq", "qronos")) for drift in DRIFTS}
UP, DOWN = "mlp.experts.gate_up_proj", "mlp.experts.down_proj"


def tokens(windows: int = 24, seq_len: int = 16, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 96, (windows, seq_len), generator=generator)


def quantized(
    model: CausalLM, scheme: Scheme, resources: Resources | None = None
) -> tuple[CausalLM, QuantReport]:
    with torch.device("meta"):
        made = CausalLM(model.config).eval()
    given = {} if resources is None else {"resources": resources}
    report = quantize(made, scheme, ModelWeights(model), tokens(), tokens(8, seed=9), **given)
    return made, report


def without_some(model: CausalLM) -> CausalLM:
    """The model, of whose last layer two experts are never chosen."""
    bias = model.model.layers[-1].mlp.router.bias
    bias.data[[1, 4]] = -1e4
    return model


@pytest.mark.parametrize("name", ["none", "rtn4", "rtn8", "gptq4", "hqq4", "keep"])
def test_a_scheme_measures_the_model_that_it_makes(name: str) -> None:
    reference = expert_model(layers=3)
    model, report = quantized(reference, Scheme(name))
    assert report.quality is not None
    text = tokens(8, seed=9)
    logits = (each.logits(text)[:, :-1] for each in (reference, model))
    wanted = compare_logits(*logits, text[:, 1:]).to_dict()
    assert report.quality.to_dict() == pytest.approx(wanted, rel=1e-3, abs=1e-6)
    assert report.experts == 12
    parts = ["self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"]
    assert list(report.widths)[:6] == [*parts, UP, DOWN]
    made = [module for module in model.modules() if isinstance(module, QuantizedLinear)]
    assert len(made) == (0 if name == "none" else 1 + 3 * 4 + 3 + 12 * 3)


@pytest.mark.parametrize(
    ("drift", "experts"),
    [
        *(
            pytest.param(drift, EXPERTS, id=f"{drift}-plain", marks=marks)
            for drift, marks in TIERS.items()
        ),
        pytest.param("residual", CLAMPED, id="residual-clamped"),
        *(
            pytest.param(drift, CLAMPED, id=f"{drift}-clamped", marks=pytest.mark.soak)
            for drift in DRIFTS
            if drift != "residual"
        ),
    ],
)
def test_gptq_runs_its_streams_through_the_quantized_layer(
    drift: str, experts: ExpertsSpec
) -> None:
    assert_streams_go_through_the_layer(expert_model(experts), tokens(), drift)


def test_each_expert_has_its_own_hessian() -> None:
    """Its integers are those that GPTQ chooses for the rows that the router gives it."""
    model, text = expert_model(), tokens(64)
    context, method = model.context(16), Method(drift="none", descent=0)
    scheme = Scheme("gptq4", method=method)
    before = model.model.layers[0]
    after = copy.deepcopy(before)
    gptq_layer(
        after, scheme, "", Streams(Stream(text, model.embed, context), None), lambda *_: None
    )
    x = model.embed(text)
    x = x + after.self_attn(after.input_layernorm(x), context)
    rows = after.post_attention_layernorm(x).flatten(0, 1)
    chosen = before.mlp.chosen(rows)
    assert chosen.shape == (1024, 2)
    for number, (ours, old) in enumerate(zip(after.mlp.experts, before.mlp.experts, strict=True)):
        own = rows[(chosen == number).any(dim=1)]
        gated = torch.nn.functional.silu(ours.gate_proj(own)) * ours.up_proj(own)
        for name, given in (("gate_proj", own), ("up_proj", own), ("down_proj", gated)):
            columns = given.shape[1] + -given.shape[1] % 32
            weight = rotated_by(method)(getattr(old, name).weight)
            shape = len(given), len(weight), columns
            known = statistics([[given]], None, *shape, method, lambda t: sum(t), HOST)
            wanted = solve(weight, int4(32), method, known, None)
            same = (wanted.values == getattr(ours, name).values).float().mean()
            assert same > 0.99, (number, name)  # but for the order of sums


def test_experts_without_tokens_are_rounded_and_named() -> None:
    model = without_some(expert_model(BIASED))
    made, report = quantized(model, Scheme("gptq4"))
    assert report.rare_experts == ("model.layers.1.mlp.experts.1", "model.layers.1.mlp.experts.4")
    assert report.to_dict()["rare_experts"] == list(report.rare_experts)
    method = Method(rounding="nearest", scales="searched")
    weight = model.model.layers[1].mlp.experts[4].up_proj.weight
    wanted = round_weight(rotated_by(method)(weight), int4(32), "", method)
    found = made.model.layers[1].mlp.experts[4].up_proj
    assert torch.equal(found.values, wanted.values) and torch.equal(found.scales, wanted.scales)
    assert found.rotated == 64
    assert quantized(model, Scheme("rtn4"))[1].rare_experts == ()  # it needs no tokens


def test_names_come_back_from_the_cache(tmp_path: Path) -> None:
    model = without_some(expert_model(BIASED))
    cache = Cache(tmp_path)
    first, wanted = quantized(model, Scheme("gptq4"), Resources(cache))
    second, report = quantized(model, Scheme("gptq4"), Resources(cache))
    assert (wanted.cached_layers, report.cached_layers) == (0, 2)
    assert report.rare_experts == wanted.rare_experts and len(report.rare_experts) == 2
    theirs = content(second)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in content(first).items())


@pytest.mark.parametrize("drift", [*checked(["none"]), "residual"])
def test_through_the_disk_the_bits_are_the_same(drift: str, tmp_path: Path) -> None:
    model = expert_model(replace(EXPERTS, num_experts=3), layers=3)
    scheme = Scheme("gptq4", method=Method(drift=drift, descent=0))
    plain, _ = quantized(model, scheme)
    spilled, _ = quantized(model, scheme, Resources(spill=Spill(tmp_path)))
    theirs = content(spilled)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in content(plain).items())


def test_a_budget_gives_all_experts_of_a_part_one_type() -> None:
    model = expert_model(layers=3)
    with torch.device("meta"):
        empty = CausalLM(model.config)
    weights, scheme = ModelWeights(model), Scheme("rtn4")
    costs = measure_costs(empty, scheme.choice, (int4(32), INT8), weights, tokens(8))
    assert {f"model.layers.{i}.{part}" for i in (1, 2) for part in (UP, DOWN)} <= costs.keys()
    assert all(at8 < 0.05 * at4 for at4, at8 in costs.values())
    sizes = {part.name: part.sizes for part in parts_of(empty, scheme, STOCK)}
    assert sizes[f"model.layers.1.{UP}"][0] == 6 * 96 * (64 // 2 + 2 * 64 // 32)
    norms = 64 * (2 * 3 + 1)
    assert small_numbers(empty) == norms + 2 * 6 * 64  # and routers
    spread_out = allocate_bits(empty, scheme, Budget(bits=6.5), weights, tokens(8), lambda: None)
    assert spread_out.types
    made, report = quantized(model, spread_out)
    assert 5.5 < report.size.bits_per_weight <= 6.5
    for index in (1, 2):
        experts = made.model.layers[index].mlp.experts
        for part, linears in ((UP, ("gate_proj", "up_proj")), (DOWN, ("down_proj",))):
            type = spread_out.type_of(f"model.layers.{index}.{part}")
            found = {getattr(one, name).weight_type for one in experts for name in linears}
            assert found == {type}


def test_a_rotation_may_be_folded() -> None:
    """The router reads the rotated stream, every expert writes to it."""
    model = expert_model(BIASED, layers=3)
    with torch.device("meta"):
        turned = CausalLM(with_experts(BIASED, 3)).eval()
    quantize(turned, Scheme("none"), rotate(turned, ModelWeights(model)))
    text = tokens(4)
    torch.testing.assert_close(turned.logits(text), model.logits(text), rtol=1e-5, atol=2e-4)


def test_awq_refuses_experts() -> None:
    with pytest.raises(QuantError) as error:
        quantized(expert_model(), Scheme("awq4"))
    assert str(error.value) == (
        "awq4 does not support mixtures of experts, which this model has; take gptq4."
    )
