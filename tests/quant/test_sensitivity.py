"""What is estimated of a part's cost from some of its rows."""

import pytest
import torch

from quant.budget.candidates import Candidates
from quant.rounding.nearest import round_weight
from quant.scheme import METHODS
from quant.weight_type import INT8, int4


@pytest.mark.parametrize("rows", [100, 3000])
def test_some_rows_stand_for_all(rows: int) -> None:
    """Of 3000 rows, 128 draws: their relative errors vary by a third or less, so that the mean is
    off by a third / sqrt(128), 3%, in one of three cases; four times as much is allowed."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(rows, 128, generator=generator)
    important = torch.randn(rows, 1, generator=generator).mul_(2).exp_()  # a few rows are most
    information = important * torch.rand(rows, 128, generator=generator)
    types = (int4(32), INT8)
    candidates = Candidates(METHODS["rtn4"], types)
    found = candidates.squares(weight, "w", information)
    for type, square in zip(types, found, strict=True):
        change = round_weight(weight, type, "w", METHODS["rtn4"]).dequantize() - weight
        wanted = (change.square() * information).sum().item()
        assert square.item() == pytest.approx(wanted, rel=0.12)
