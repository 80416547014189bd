"""Mixtures of experts on the CPU delegate: one call, one operator a layer, the model's logits."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.cpu_models import CONTEXT, LoweredModel, prepare, write
from support.expert_models import CLAMPED, EXPERTS, expert_model
from support.exported import feed
from support.tiers import soaked

from delegates.cpu import load
from exporter.capture.program import capture
from exporter.file.agreement import compare, reference_logits
from exporter.models.spec import ExpertsSpec, MlpSpec
from quant.scheme import Scheme

MANY = ExpertsSpec(MlpSpec(24), num_experts=20, num_experts_per_tok=3, normalized=False)
BIASED = ExpertsSpec(
    MlpSpec(40, "gelu_tanh", bias=True), num_experts=5, num_experts_per_tok=4, router_bias=True
)
SPECS = {
    "normalized": EXPERTS,
    "of all scores": MANY,
    "biases": BIASED,
    "clamped": CLAMPED,
    "one": ExpertsSpec(MlpSpec(56, "relu"), 1, 1),
}
SCHEMES = [Scheme("none"), Scheme("rtn4"), Scheme("rtn4", 64, 4), Scheme("rtn8"), Scheme("keep")]
PAIRS = [(name, scheme) for name in SPECS for scheme in SCHEMES]
FEW = [pair for i, pair in enumerate(PAIRS) if i % 6 == 0]  # each name and each scheme once


def lowered(experts: ExpertsSpec, scheme: Scheme, directory: Path, layers: int = 2) -> LoweredModel:
    model = prepare(expert_model(experts, layers), scheme)
    tokens = torch.randint(96, (36,), generator=torch.Generator().manual_seed(4))
    reference = reference_logits(model, tokens, CONTEXT, scheme.name != "none")
    return write(capture(model, CONTEXT, CONTEXT), directory, reference)


@pytest.mark.check
@pytest.mark.parametrize(
    "name", ["clamped", "of all scores", *soaked(["normalized", "biases", "one"])]
)
def test_the_op_list_computes_the_model(name: str, tmp_path: Path) -> None:
    """As numpy reads it."""
    model = lowered(SPECS[name], Scheme("none"), tmp_path)
    (call,) = model.calls
    assert compare(model.reference, call.step).error < 1e-5


def test_operators_of_a_layer(tmp_path: Path) -> None:
    model = lowered(EXPERTS, Scheme("rtn4"), tmp_path, layers=1)
    (call,) = model.calls
    layer = "model.layers.0"
    assert call.describe()[4:8] == [
        f"Norm {layer}.post_attention_layernorm",
        f"Linear {layer}.mlp.router",
        f"Experts {layer}.mlp",
        f"Elementwise add {layer}",
    ]
    weights = {item["key"]: item for item in call.program["weights"]}
    up, down = (weights[f"cpu/{layer}.mlp.experts.{part}_proj"] for part in ("gate_up", "down"))
    assert (up["rows"], up["columns"], up["format"]) == (6 * 96, 64, "int4_two_level")
    assert (down["rows"], down["columns"], down["format"]) == (6 * 64, 48, "int4_two_level")
    report = model.lowered.report
    assert (report.calls, report.left) == (1, {})


@pytest.mark.check
@pytest.mark.parametrize(
    "pair",
    [FEW[1], *FEW[:1], *FEW[2:], *soaked(pair for pair in PAIRS if pair not in FEW)],
)
def test_the_file_computes_the_model(
    pair: tuple[str, Scheme], tmp_path: Path, cpp_build: Path
) -> None:
    name, scheme = pair
    model = lowered(SPECS[name], scheme, tmp_path)
    report = model.lowered.report
    assert (report.calls, report.left) == (1, {})
    step = load(model.path)
    assert step is not None
    agreement = compare(model.reference, step)
    assert agreement.error <= model.reference.tolerance
    assert agreement.error < (1e-5 if scheme.name == "none" else 0.1)


@pytest.mark.check
@pytest.mark.parametrize(
    "experts",
    [
        pytest.param(replace(MANY, normalized=True), id="many"),
        pytest.param(CLAMPED, id="few"),
    ],
)
@torch.no_grad()
def test_calls_of_any_length_have_the_same_bits(
    experts: ExpertsSpec, tmp_path: Path, cpp_build: Path
) -> None:
    model = lowered(experts, Scheme("rtn4"), tmp_path)
    step = load(model.path)
    assert step is not None
    tokens = torch.randint(96, (40,), generator=torch.Generator().manual_seed(5))
    whole = feed(step, tokens, [40])
    for lengths in ([39, 1], [1] * 40, [7, 11, 2, 20]):
        assert torch.equal(feed(step, tokens, lengths)[-1:], whole), lengths
