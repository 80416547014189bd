"""Short convolutions in plain operators, as XNNPACK takes them."""

from pathlib import Path

import torch
from support.exported import feed
from support.family_models import LENGTH, case_of, our_model, reference_model, tokens_of

from delegates import xnnpack
from delegates.passes.convolutions import SHORT_CONVOLUTION, expand_convolutions
from exporter.capture.program import capture
from exporter.models.decoder import CausalLM

LENGTHS = [20, 3, 1, 1, 15]


@torch.no_grad()
def test_states_follow_calls_and_a_new_text_begins_without(tmp_path: Path) -> None:
    """In eager mode, and on XNNPACK; the second text is read behind the first one's states."""
    reference = reference_model(case_of("lfm2", "biases"))
    tokens = tokens_of(reference)[0]
    wanted = reference(tokens[None]).logits[0, torch.tensor(LENGTHS).cumsum(0) - 1]
    ours = our_model(reference)
    model = CausalLM(ours.config.for_context(LENGTH)).requires_grad_(False).eval()
    model.load_state_dict(ours.state_dict())
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
