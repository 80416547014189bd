"""The compiled loops do what PyTorch's steps do, which a GPU takes."""

import pytest
import torch
from torch import Tensor

from quant.rounding import compiled, descent, gptq
from quant.rounding.compiled import descend_group, round_block
from quant.rounding.gptq import compile_loops, inverse_factor
from quant.rounding.scales import GRIDS, Grid

grids = pytest.mark.parametrize("grid", GRIDS.values(), ids=lambda grid: f"{grid.bits} bits")
# Fewer than a tile of rows, one more than a tile, and several.
rows = pytest.mark.parametrize("rows", [1, 65, 200])


def hessian_of_inputs(columns: int, generator: torch.Generator) -> Tensor:
    x = torch.randn(4 * columns, columns, generator=generator)
    return x.T @ x / len(x)


def random_values(grid: Grid, columns: int, rows: int, generator: torch.Generator) -> Tensor:
    return grid.values[torch.randint(len(grid.values), (columns, rows), generator=generator)]


@grids
@rows
def test_a_block_is_rounded_alike(rows: int, grid: Grid) -> None:
    generator = torch.Generator().manual_seed(rows)
    factor = inverse_factor(hessian_of_inputs(96, generator))
    free = torch.randn(96, rows, generator=generator) * grid.high
    steps = torch.randint(1, grid.most + 1, (96, rows), generator=generator).float()
    expected = torch.empty(96, rows)
    nothing = torch.zeros(96, 96)  # carried: leaves the block to PyTorch
    arguments = steps, grid, factor.upper
    errors = gptq._round_block(free.clone(), *arguments, expected, nothing, None)
    values = torch.empty(96, rows)
    ours = round_block(free.clone(), *arguments, values)
    # Sums of float32 in another order may break a tie otherwise, and all behind it.
    same = (values == expected).all(dim=0)
    assert same.float().mean() > 0.98 or rows == 1
    torch.testing.assert_close(ours[:, same], errors[:, same], rtol=1e-3, atol=1e-3)
    assert torch.isin(values, grid.values).all()


@grids
@rows
@pytest.mark.parametrize("group_size", [32, 128])
def test_a_group_descends_alike(rows: int, group_size: int, grid: Grid) -> None:
    generator = torch.Generator().manual_seed(rows + group_size)
    hessian = hessian_of_inputs(group_size, generator)
    values = random_values(grid, group_size, rows, generator)
    multiple = torch.randint(1, grid.most + 1, (1, rows), generator=generator, dtype=torch.uint8)
    target = values * multiple + torch.randn(group_size, rows, generator=generator) * grid.most
    problem = descent._Rows(target.T, values.T.to(torch.int8), multiple.T, grid, hessian)
    found, scales = values.clone(), multiple[0].clone()
    gradient = hessian @ problem._residual
    changes = descend_group(found, scales, gradient, hessian, grid)
    expected = problem._descend_by_steps(slice(0, group_size), gradient)
    same = (found == problem._values).all(dim=0) & (scales == problem.multiple[0])
    assert same.float().mean() > 0.98 or rows == 1
    assert torch.equal(changes[:, same], expected[:, same])
    assert torch.equal(changes, found * scales - values * multiple)


def test_compiling_ahead_is_for_every_call() -> None:
    """What a real weight calls is what was compiled."""
    compile_loops()
    loops = compiled._round_block, compiled._descend_group
    before = [len(loop.signatures) for loop in loops]
    generator = torch.Generator().manual_seed(0)
    test_a_block_is_rounded_alike(65, GRIDS[4])
    hessian = hessian_of_inputs(32, generator)
    values = random_values(GRIDS[4], 64, 65, generator)[:32]
    multiple = torch.ones(2, 65, dtype=torch.uint8)[0]
    descend_group(values, multiple, torch.randn(32, 65), hessian, GRIDS[4])
    assert [len(loop.signatures) for loop in loops] == before == [1, 1]
