"""Specs and models with mixtures of experts, of a few thousand weights."""

from dataclasses import replace

import torch
from support.decoder_specs import SMALL
from support.small_models import random_model

from exporter.models.decoder import CausalLM
from exporter.models.spec import DecoderSpec, ExpertsSpec, MlpSpec

EXPERTS = ExpertsSpec(MlpSpec(48), num_experts=6, num_experts_per_tok=2)
CLAMPED = ExpertsSpec(  # gpt-oss's, with a limit that random models reach
    MlpSpec(40, "quick_gelu", bias=True, limit=0.3),
    num_experts=6,
    num_experts_per_tok=4,
    router_bias=True,
)


def with_experts(experts: ExpertsSpec = EXPERTS, layers: int = 2) -> DecoderSpec:
    """A decoder whose first layer is dense if it has three or more."""
    dense = SMALL.layers[0]
    sparse = replace(dense, feed_forward=experts)
    return replace(SMALL, layers=((dense,) * (layers > 2) + (sparse,) * layers)[:layers])


@torch.no_grad()
def expert_model(experts: ExpertsSpec = EXPERTS, layers: int = 2, seed: int = 0) -> CausalLM:
    """A random model whose scores are far apart."""
    model = random_model(with_experts(experts, layers), seed)
    for name, parameter in model.named_parameters():
        if "router" in name:
            parameter.mul_(6)
    return model
