"""Quantizations of one small random model, whatever device computes them."""

import torch
from support.decoder_specs import SMALL, varied
from support.quantization import content
from support.small_models import ModelWeights, random_model
from torch import Tensor

from exporter.models.decoder import CausalLM
from exporter.models.spec import DecoderSpec
from quant.machine.device import HOST
from quant.machine.resources import Resources
from quant.method import Method
from quant.quantize import quantize
from quant.report import QuantReport
from quant.scheme import Scheme

CONFIG = varied(
    SMALL,
    num_hidden_layers=2,
    hidden_size=32,
    num_attention_heads=2,
    num_key_value_heads=1,
    intermediate_size=48,
    attention_bias=True,
)
FLOAT = random_model(CONFIG)
SHORT = Method(descent=0)  # of the descent's many small steps one test is enough


def tokens(windows: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, CONFIG.vocab_size, (windows, 32), generator=generator)


class Run:
    """One quantization of a small random model."""

    def __init__(self, scheme: Scheme, resources: Resources, config: DecoderSpec = CONFIG) -> None:
        weights = ModelWeights(FLOAT if config == CONFIG else random_model(config))
        with torch.device("meta"):
            self.model = CausalLM(config)
        self.report: QuantReport = quantize(
            self.model, scheme, weights, tokens(6, 1), tokens(2, 9), resources=resources
        )

    @property
    def made(self) -> int:
        """Layers that were quantized and not found."""
        return CONFIG.num_hidden_layers - self.report.cached_layers


def assert_same(run: Run, wanted: Run) -> None:
    ours, theirs = content(run.model), content(wanted.model)
    assert ours.keys() == theirs.keys()
    assert all(tensor.device == HOST for tensor in ours.values())
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert run.report.quality == wanted.report.quality
    assert run.report.layer_errors == wanted.report.layer_errors
