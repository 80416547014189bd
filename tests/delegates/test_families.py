"""Every family is one call of the CPU delegate, whose logits are those of transformers."""

from pathlib import Path

import pytest
import torch
from support.cpu_models import prepare, write
from support.exported import feed
from support.families import FAMILIES
from support.family_models import (
    CASES,
    LENGTH,
    Case,
    case_of,
    our_model,
    reference_model,
    tokens_of,
)
from support.small_models import ModelWeights

from delegates.cpu import load
from exporter.capture.program import capture
from exporter.file.agreement import compare, reference_logits, require_agreement
from exporter.models.decoder import CausalLM
from quant.quantize import quantize
from quant.scheme import Scheme

LENGTHS = [20, 3, 1, 1, 15]


def tier(case: Case) -> pytest.MarkDecorator:
    checked = FAMILIES[case.model_type].checked
    return pytest.mark.check if case.label in checked else pytest.mark.soak


@pytest.mark.parametrize("case", [pytest.param(c, id=str(c), marks=tier(c)) for c in CASES])
@torch.no_grad()
def test_a_family_is_one_call(case: Case, tmp_path: Path, cpp_build: Path) -> None:
    reference = reference_model(case)
    tokens = tokens_of(reference)[0]
    want = reference(tokens[None]).logits[0, torch.tensor(LENGTHS).cumsum(0) - 1]
    ours = our_model(reference)
    model = CausalLM(ours.config.for_context(LENGTH)).requires_grad_(False).eval()
    model.load_state_dict(ours.state_dict())
    eager = reference_logits(model, tokens, LENGTH, False)
    found = write(capture(model, LENGTH, LENGTH), tmp_path, eager)
    report = found.lowered.report
    assert (report.calls, report.left) == (1, {}), report.lines
    step = load(found.path)
    assert step is not None
    torch.testing.assert_close(feed(step, tokens, LENGTHS), want, rtol=0, atol=1e-4)


@pytest.mark.soak
@pytest.mark.parametrize("case", [case_of(name) for name in FAMILIES], ids=str)
@torch.no_grad()
def test_gptq4_agrees_within_what_rounding_explains(
    case: Case, tmp_path: Path, cpp_build: Path
) -> None:
    ours = our_model(reference_model(case))
    config = ours.config.for_context(LENGTH)
    generator = torch.Generator().manual_seed(5)
    text = torch.randint(3, config.vocab_size, (24, LENGTH), generator=generator)
    with torch.device("meta"):
        model = CausalLM(config).eval()
    report = quantize(model, Scheme("gptq4"), ModelWeights(ours), text[:20], text[20:])
    assert report.quality is not None and report.quality.kl < 0.5
    eager = reference_logits(model.requires_grad_(False), text[23], LENGTH, True)
    found = write(capture(model, LENGTH, LENGTH), tmp_path, eager)
    assert (found.lowered.report.calls, found.lowered.report.left) == (1, {})
    step = load(found.path)
    assert step is not None
    require_agreement(compare(eager, step))


@pytest.mark.check
@torch.no_grad()
def test_what_float16_caches_round_is_explained(tmp_path: Path, cpp_build: Path) -> None:
    """Attention that is sharpened tells their keys apart; int8 activations are then rounded
    otherwise in many places."""
    ours = our_model(reference_model(case_of("ministral3", "sharpened")))
    length = min(60, ours.config.context_limit)
    model = CausalLM(ours.config.for_context(length)).eval()
    model.load_state_dict(ours.state_dict())
    model = prepare(model, Scheme("rtn4")).requires_grad_(False)
    tokens = torch.randint(3, 199, (40,), generator=torch.Generator().manual_seed(5))
    eager = reference_logits(model, tokens, 7, True)
    step = load(write(capture(model, length, 7), tmp_path, eager).path)
    assert step is not None
    require_agreement(compare(eager, step))
