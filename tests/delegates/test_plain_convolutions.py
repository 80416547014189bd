"""Short convolutions in plain operators, as XNNPACK and Core ML take them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from support.core_ml_evaluator import CoreMLEvaluator
from support.core_ml_program import read_core_ml
from support.exported import feed
from support.family_models import LENGTH, case_of, our_model, reference_model, tokens_of
from support.small_models import float_twin, round_rope
from support.tiers import soaked_rows
from torch import Tensor

from delegates import coreml, xnnpack
from delegates.passes.convolutions import SHORT_CONVOLUTION, expand_convolutions
from exporter.capture.program import capture
from exporter.models.decoder import CausalLM

LENGTHS = [20, 3, 1, 1, 15]


@pytest.mark.check
@torch.no_grad()
def test_states_follow_calls_and_a_new_text_begins_without(tmp_path: Path) -> None:
    """In eager mode, and on XNNPACK; the second text is read behind the first one's states."""
    model, tokens, wanted = model_and_logits("lfm2", "biases")
    program = capture(model, LENGTH, LENGTH)
    assert expand_convolutions(program) == 2
    assert not any(str(node.target) == SHORT_CONVOLUTION for node in program.graph.nodes)
    lowered = xnnpack.lower(capture(model, LENGTH, LENGTH), {}, {}, with_etrecord=False)
    assert lowered.report.linears_delegated == lowered.report.linears
    with open(tmp_path / "model.pte", "wb") as file:
        lowered.program.write_to_file(file)
    for step in (program.module(), xnnpack.load(tmp_path / "model.pte")):
        for _ in range(2):
            found = feed(step, tokens, LENGTHS)
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("model_type", "label"),
    soaked_rows([("lfm2", "biases"), ("lfm2_moe", "biased")]),
)
@torch.no_grad()
def test_core_ml_takes_them_in_one_call(tmp_path: Path, model_type: str, label: str) -> None:
    """Its evaluator, in float32, computes what the model does with weights of float16."""
    model, tokens, _ = model_and_logits(model_type, label)
    lowered = coreml.lower(capture(model, LENGTH, LENGTH), {}, {}, with_etrecord=False)
    with open(tmp_path / "model.pte", "wb") as file:
        lowered.program.write_to_file(file)
    evaluator = CoreMLEvaluator(read_core_ml(tmp_path / "model.pte", tmp_path / "read"), wide=True)

    def step(tokens: Tensor, input_pos: Tensor) -> Tensor:
        inputs = {"tokens": tokens, "input_pos": input_pos}
        (logits,) = evaluator(**{name: x.numpy().astype(np.int32) for name, x in inputs.items()})
        return torch.from_numpy(logits)

    exact = float_twin(model, torch.float16)
    exact.setup_cache(LENGTH)
    round_rope(exact, torch.float16)
    wanted = feed(exact, tokens, LENGTHS)
    for _ in range(2):
        torch.testing.assert_close(feed(step, tokens, LENGTHS), wanted, rtol=0, atol=1e-4)


def model_and_logits(model_type: str, label: str) -> tuple[CausalLM, Tensor, Tensor]:
    """A model, tokens, and what transformers computes after each of LENGTHS."""
    reference = reference_model(case_of(model_type, label))
    tokens = tokens_of(reference)[0]
    wanted = reference(tokens[None]).logits[0, torch.tensor(LENGTHS).cumsum(0) - 1]
    ours = our_model(reference)
    model = CausalLM(ours.config.for_context(LENGTH)).requires_grad_(False).eval()
    model.load_state_dict(ours.state_dict())
    return model, tokens, wanted
