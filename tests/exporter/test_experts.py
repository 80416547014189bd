"""Mixtures of experts: what is captured, what other forms of it compute, what configs may say."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.expert_models import CLAMPED, EXPERTS, expert_model, with_experts
from support.exported import Quiet
from support.families.qwen3_moe import MIXTURE
from support.family_models import SHAPE, Case, reference_model
from support.small_models import quantized_model
from support.tiers import soaked_rows
from torch._decomp import decomposition_table

from delegates import DELEGATES, DelegateError, get_delegate
from exporter.capture.program import capture
from exporter.catalogue.names import EMBEDDED
from exporter.errors import ExportError
from exporter.file.pte import read_report
from exporter.models.decoder import CausalLM
from exporter.models.experts_operator import Routing, route
from exporter.models.families import decoder_spec
from exporter.models.spec import ExpertsSpec, MlpSpec
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.plan.requirements import needs_of
from quant.scheme import Scheme

CONTEXT = 24
OPERATOR = torch.ops.thimble.experts.default
SPECS = {
    "normalized": EXPERTS,
    "of all scores": replace(EXPERTS, normalized=False, num_experts_per_tok=3),
    "biases": ExpertsSpec(MlpSpec(40, "gelu_tanh", bias=True), 5, 4, router_bias=True),
    "clamped": CLAMPED,
    "one": ExpertsSpec(MlpSpec(48), 1, 1),
    "sigmoids": replace(EXPERTS, sigmoid=True, choice_bias=True, share_scale=2.5),
}


def model_of(experts: ExpertsSpec, scheme: str) -> CausalLM:
    model = expert_model(experts)
    return model if scheme == "none" else quantized_model(model, Scheme(scheme))


def test_the_highest_scores_are_chosen() -> None:
    scores = torch.tensor([[1.0, 3.0, 2.0], [0.0, -1.0, 1.0]])
    weights, chosen = route(scores, Routing(2, normalized=True))
    assert chosen.tolist() == [[1, 2], [2, 0]]
    torch.testing.assert_close(weights, torch.tensor([[1.0, 0.0], [1.0, 0.0]]).softmax(-1))
    weights, _ = route(scores, Routing(2, normalized=False))
    torch.testing.assert_close(weights, scores.softmax(-1).gather(1, chosen))


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        *(("normalized", "rtn8"), ("sigmoids", "rtn4"), ("of all scores", "rtn8")),
        *(("biases", "rtn4"), ("clamped", "rtn8"), ("one", "rtn4")),
        *soaked_rows(
            [
                *(("normalized", "rtn4"), ("sigmoids", "rtn8"), ("of all scores", "rtn4")),
                *(("biases", "rtn8"), ("clamped", "rtn4"), ("one", "rtn8")),
                *((name, "none") for name in SPECS),
            ]
        ),
    ],
)
@torch.no_grad()
def test_one_operator_and_its_decomposition(name: str, scheme: str) -> None:
    """Both equal the modules, for calls of every length of one program."""
    experts = SPECS[name]
    model = model_of(experts, scheme)
    tokens = torch.randint(96, (1, CONTEXT), generator=torch.Generator().manual_seed(2))
    expected = model.logits(tokens)[0]
    program = capture(model, CONTEXT, CONTEXT)
    nodes = program.graph.find_nodes(op="call_function", target=OPERATOR)
    assert len(nodes) == 2
    expanded = program.run_decompositions({OPERATOR: decomposition_table[OPERATOR]})
    assert not expanded.graph.find_nodes(op="call_function", target=OPERATOR)
    for run in (program.module(), expanded.module()):
        start = 0
        for length in (9, 1, 1, 13):
            logits = run(tokens[:, start : start + length], torch.tensor([start]))
            start += length
            torch.testing.assert_close(logits[0], expected[start - 1], rtol=0, atol=2e-4)


@pytest.mark.parametrize("name", DELEGATES)
def test_who_takes_experts(name: str) -> None:
    limits, needs = get_delegate(name).LIMITS, needs_of(with_experts())
    if name in ("cpu", "xnnpack", "coreml"):
        return limits.check(needs)
    with pytest.raises(DelegateError) as error:
        limits.check(needs)
    assert str(error.value) == (
        f"{name} does not support mixtures of experts: "
        "export with --delegate cpu, xnnpack or coreml."
    )
    get_delegate(f"{name},cpu").LIMITS.check(needs)


@pytest.mark.check
def test_an_export_names_experts_that_saw_few_tokens(tmp_path: Path, cpp_build: Path) -> None:
    """Calibrated on few tokens, within a budget."""
    shape = dict(vocab_size=4096, hidden_size=96, num_experts=24, num_experts_per_tok=1)
    reference_model(Case("qwen3_moe", "rare", {**MIXTURE, **shape})).save_pretrained(tmp_path)
    text = (EMBEDDED / "calibration.txt").read_text(encoding="utf-8")
    (tmp_path / "text.txt").write_text(text[:12000])
    options = ExportOptions(
        model=str(tmp_path),
        out=tmp_path / "model.pte",
        scheme=Scheme("gptq4"),
        tokenizer=EMBEDDED / "tokenizer.json",
        bits=7.0,
        calibration=tmp_path / "text.txt",
        calibration_tokens=300,
        max_context_len=64,
    )
    listener = Quiet()
    result = export_model(options, listener)
    found = read_report(result.out)["quantization"]
    count, rare = found["experts"]["count"], found["experts"]["rare"]
    assert count == 72 and 0 < len(rare) < 72
    assert all(name.startswith("model.layers.") and ".mlp.experts." in name for name in rare)
    assert (
        f"The calibration text gave too few tokens to {len(rare)} of 72 experts; their weights are "
        "rounded to nearest. The report names them; more --calibration-tokens may reach them."
    ) in listener.notes
    assert found["bits"].keys() >= {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}
    assert found["bits_per_weight"] <= 7.0


FIELDS: dict[str, Any] = {**SHAPE, **MIXTURE, "model_type": "qwen3_moe"}


def test_which_layers_have_experts() -> None:
    spec = decoder_spec({**FIELDS, "num_hidden_layers": 4, "mlp_only_layers": [3]})
    kinds = [isinstance(layer.feed_forward, ExpertsSpec) for layer in spec.layers]
    assert kinds == [True, True, True, False]
    dimensions = spec.dimensions()
    assert dimensions["intermediate_size"] == [40, 40, 40, 88]
    assert (dimensions["num_experts"], dimensions["num_experts_per_tok"]) == (7, 2)
    every = decoder_spec({**FIELDS, "num_hidden_layers": 4, "decoder_sparse_step": 2})
    kinds = [isinstance(layer.feed_forward, ExpertsSpec) for layer in every.layers]
    assert kinds == [False, True, False, True]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"num_experts_per_tok": 8},
            "num_experts_per_tok 8 is more than num_experts 7; set as many or fewer.",
        ),
        (
            {"mlp_only_layers": [3]},
            "mlp_only_layers is [3]; it must be a list of layers, from 0 to 2.",
        ),
        (
            {"num_experts": None},
            "num_experts is missing, but the decoder needs it; use the config.json that was "
            "published with the weights.",
        ),
    ],
)
def test_configs_that_do_not_fit(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ExportError) as error:
        decoder_spec({**FIELDS, **fields})
    assert str(error.value) == sentence
