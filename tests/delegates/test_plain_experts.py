"""Mixtures of experts in plain operators, as XNNPACK takes them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.cpu_models import CONTEXT, prepare
from support.expert_models import CLAMPED, EXPERTS, expert_model
from support.exported import feed

from delegates import xnnpack
from delegates.passes.experts import EXPERTS as EXPERTS_OPERATOR
from delegates.passes.experts import expand_experts
from exporter.capture.program import capture
from exporter.file.agreement import compare, reference_logits, require_agreement
from exporter.models.spec import ExpertsSpec, MlpSpec
from quant.scheme import Scheme

OF_SIGMOIDS = ExpertsSpec(
    MlpSpec(24, "relu2"), 7, 3, sigmoid=True, choice_bias=True, share_scale=1.7
)
SPECS = {
    "normalized": EXPERTS,
    "of all scores": ExpertsSpec(MlpSpec(24, "gelu"), 5, 3, normalized=False),
    "clamped": CLAMPED,
    "sigmoids": OF_SIGMOIDS,
    "their shares": replace(OF_SIGMOIDS, normalized=False, expert=MlpSpec(24, "gelu_tanh")),
    "one": ExpertsSpec(MlpSpec(56, "relu"), 1, 1),
}
TOKENS = torch.randint(96, (36,), generator=torch.Generator().manual_seed(4))
LENGTHS = [20, 1, 3, 12]


@pytest.mark.check
@pytest.mark.parametrize(
    "name",
    ["normalized", "sigmoids", "of all scores", "clamped", "their shares", "one"],
)
@torch.no_grad()
def test_plain_operators_compute_the_model(name: str) -> None:
    model = expert_model(SPECS[name])
    wanted = model.logits(TOKENS[None])[0, torch.tensor(LENGTHS).cumsum(0) - 1]
    program = capture(model, CONTEXT, CONTEXT)
    assert expand_experts(program) == 2
    assert not any(str(node.target) == EXPERTS_OPERATOR for node in program.graph.nodes)
    found = feed(program.module(), TOKENS, LENGTHS)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "scheme"),
    [("clamped", Scheme("rtn4")), ("normalized", Scheme("rtn8", whole_rows=True))],
)
def test_xnnpack_computes_the_model(name: str, scheme: Scheme, tmp_path: Path) -> None:
    method = replace(scheme.choice, rotation="none")
    model = prepare(expert_model(SPECS[name]), replace(scheme, method=method))
    reference = reference_logits(model, TOKENS, CONTEXT, True)
    lowered = xnnpack.lower(capture(model, CONTEXT, CONTEXT), {}, {}, with_etrecord=False)
    assert lowered.report.linears_delegated == lowered.report.linears
    with open(tmp_path / "model.pte", "wb") as file:
        lowered.program.write_to_file(file)
    require_agreement(compare(reference, xnnpack.load(tmp_path / "model.pte")))
