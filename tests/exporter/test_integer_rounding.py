"""A file of integers is compared with its module by as much as rounding may move the numbers."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from exporter.errors import ExportError
from exporter.module.agreement import QUANTIZED, compare
from exporter.module.method import capture_method, expected_outputs
from exporter.module.rounding import without_rounding
from exporter.module.samples import Sample
from exporter.module.source import Inputs, Made
from quant.modules import set_weight
from quant.rounding.nearest import round_int8


class Deep(nn.Module):
    """Many layers in int8 over numbers of which one is much larger than the others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(12))
        for index, layer in enumerate(self.layers):
            set_weight(self.layers, str(index), round_int8(1.2 * layer.weight.detach(), str(index)))

    def forward(self, x: Tensor) -> Tensor:
        far = torch.zeros(32)
        far[0] = 15
        for layer in self.layers:
            x = torch.sin(x + layer(x + far))
        return x


def test_the_last_bit_of_a_sum_moves_the_integers_behind_it() -> None:
    module = Deep().requires_grad_(False)
    generator = torch.Generator().manual_seed(1)
    inputs = Inputs((torch.randn(1, 2000, 32, generator=generator),))
    noise = 1e-5 * torch.randn(1, 2000, 32, generator=generator)
    method = capture_method("forward", Made(module, inputs, None, ()))
    tried = [Sample("the example", (inputs,))]

    def compared(change: Callable[[Tensor], Tensor]) -> float:
        def run(leaves: Sequence[Tensor]) -> Sequence[Tensor]:
            return [change(module(leaves[0] + noise))]

        exact = partial(without_rounding, module, True)
        expected = expected_outputs(method, tried)
        return compare(lambda: run, tried, expected, method.signature, True, exact).error

    assert compared(lambda x: x) > QUANTIZED
    with pytest.raises(ExportError, match="differs from the module's by .* but rounding explains"):
        compared(lambda x: x.roll(1, -1))
