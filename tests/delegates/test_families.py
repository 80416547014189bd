"""Every family is one call of the CPU delegate, whose logits are those of transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.cpu_models import prepare, write
from support.exported import feed
from support.family_models import CASES, LENGTH, Case, our_model, reference_model, tokens_of
from support.random_configs import random_case

from delegates.cpu import load
from exporter.capture.program import capture
from exporter.file.agreement import compare, reference_logits, require_agreement
from exporter.models.decoder import CausalLM
from quant.scheme import Scheme

LENGTHS = [20, 3, 1, 1, 15]
# Between them: rows of one tensor, heads of which a part turns, factors for long contexts; norms of
# rows, windows and tables by layer; four norms, scales and caps; queries with a table of their own;
# sinks and experts with biases; keys and values of other layers, inputs of each layer.
MARKS: dict[str, Any] = {
    "Gemma4Text-shared": pytest.mark.check,
    "Gemma2-caps": pytest.mark.check,
    "Phi3-phi-4-mini": pytest.mark.check,
    "Olmo3-yarn": pytest.mark.check,
    "Ministral3-grown": pytest.mark.check,
    "GptOss-yarn": pytest.mark.check,
    "Gemma4Text-keys-are-values": pytest.mark.check,
}


def name_of(case: Case) -> str:
    return f"{case.architecture}-{case.label}"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=MARKS.get(name, pytest.mark.soak))
        for name, case in ((name_of(case), case) for case in CASES)
    ],
)
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


@pytest.mark.check
@torch.no_grad()
def test_what_float16_caches_round_is_explained(tmp_path: Path, cpp_build: Path) -> None:
    """Attention that is sharpened tells their keys apart; int8 activations are then rounded
    otherwise in many places."""
    ours = our_model(reference_model(random_case("Ministral3", 201)))
    length = min(60, ours.config.context_limit)
    model = CausalLM(ours.config.for_context(length)).eval()
    model.load_state_dict(ours.state_dict())
    model = prepare(model, Scheme("rtn4")).requires_grad_(False)
    tokens = torch.randint(3, 199, (40,), generator=torch.Generator().manual_seed(5))
    eager = reference_logits(model, tokens, 7, True)
    step = load(write(capture(model, length, 7), tmp_path, eager).path)
    assert step is not None
    require_agreement(compare(eager, step))
