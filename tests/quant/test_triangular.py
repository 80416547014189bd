"""Products and inverses of triangular matrices in blocks, against those of whole matrices."""

import pytest
import torch

from quant.rounding.triangular import invert_lower, times_lower, times_upper

SIZES = [1, 64, 256, 257, 600, 1024]


@pytest.mark.parametrize("size", SIZES)
def test_products_are_those_of_whole_matrices(size: int) -> None:
    matrix, left = torch.randn(size, size, dtype=torch.float64), torch.randn(33, size).double()
    assert torch.allclose(times_upper(left, matrix.triu()), left @ matrix.triu())
    assert torch.allclose(times_lower(left, matrix.tril()), left @ matrix.tril())
    assert torch.allclose(
        times_lower(left.T.contiguous().T, matrix.triu().T), left @ matrix.triu().T
    )


@pytest.mark.parametrize("size", SIZES)
def test_the_inverse_times_the_matrix_is_one(size: int) -> None:
    lower = torch.randn(size, size, dtype=torch.float64).tril() / size**0.5
    lower.diagonal().abs_().add_(1)
    inverse = lower.clone()
    invert_lower(inverse)
    assert torch.equal(inverse, inverse.tril())
    assert torch.allclose(inverse @ lower, torch.eye(size).double(), atol=1e-12)
