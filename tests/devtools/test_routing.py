"""Which tokens a program gives to other experts."""

import pytest
import torch

from devtools.commands.compare_models import routing_of
from exporter.models.experts import Experts
from exporter.models.spec import ExpertsSpec, MlpSpec

SPEC = ExpertsSpec(MlpSpec(8), num_experts=4, num_experts_per_tok=2)


def test_a_token_that_goes_elsewhere_is_named() -> None:
    ours = torch.tensor([[3.0, 1.0, 2.0, 0.0], [0.5, 0.49, 2.0, -1.0], [4.0, 3.0, 2.0, 1.0]])
    theirs = torch.tensor([[0.48, 0.5, 2.0, -1.0], [4.0, 3.0, 2.5, 1.0]])
    found = routing_of(Experts(SPEC, 8), "mlp", ours, (torch.tensor([1, 2]), theirs))
    assert (found.module_path, found.tokens) == ("mlp", 2)
    (flip,) = found.flips  # the last token's scores change, but not their order
    assert (flip.position, flip.left, flip.taken) == (1, (0,), (1,))
    assert flip.margin == pytest.approx(0.01, abs=1e-6)
    assert flip.moved == pytest.approx(0.02, abs=1e-6)
    assert found.deviation == pytest.approx(ours[1:].std(-1, correction=0).mean().item())


def test_sigmoids_are_compared_with_the_bias_that_chooses() -> None:
    mixture = Experts(ExpertsSpec(MlpSpec(8), 3, 1, sigmoid=True, choice_bias=True), 8)
    assert mixture.choice_bias is not None
    mixture.choice_bias.data = torch.tensor([0.0, 0.2, 0.0])
    ours, theirs = torch.tensor([[0.0, -0.8, -5.0]]), torch.tensor([[0.0, -0.9, -5.0]])
    (flip,) = routing_of(mixture, "mlp", ours, (torch.tensor([0]), theirs)).flips
    assert (flip.left, flip.taken) == ((1,), (0,))
    expected = torch.tensor(-0.8).sigmoid() + 0.2 - 0.5
    assert flip.margin == pytest.approx(expected.item(), abs=1e-6)
