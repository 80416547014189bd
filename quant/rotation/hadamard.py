"""Orthogonal matrices whose entries are all equally large, of any size that has a simple one.

Sylvester: H_2n = [[H_n, H_n], [H_n, -H_n]]. Paley (1933), for a prime q with the quadratic
character chi and Q_ij = chi(i - j): with q = 3 mod 4 a matrix of q + 1, with q = 1 mod 4 one of
2 (q + 1). Kronecker products of all of them: 576 = 36 x 16, 896 = 28 x 32, 960 =
60 x 16, 1536 = 12 x 128, 2560 = 20 x 128, 3072 = 12 x 256.
"""

import math
from functools import reduce

import torch
from torch import Tensor


def orthogonal_matrix(size: int, seed: int = 0) -> Tensor:
    """A randomized Hadamard matrix over sqrt(size), or a random orthogonal one where none is known.

    Columns are Hadamard's, signs of rows are random (QuaRot, Ashkboos et al., 2024): it spreads
    every single coordinate evenly over all.

    Returns:
        float64 (size, size), orthogonal.
    """
    generator = torch.Generator().manual_seed(seed)
    factors = hadamard_factors(size)
    if factors is None:
        gauss = torch.randn(size, size, generator=generator, dtype=torch.float64)
        return torch.linalg.qr(gauss).Q
    matrix = reduce(torch.kron, (_hadamard(factor) for factor in factors))
    signs = torch.randint(0, 2, (size, 1), generator=generator) * 2 - 1
    return matrix * signs / math.sqrt(size)


def hadamard_factors(size: int) -> list[int] | None:
    """Sizes of Hadamard matrices whose product is `size`, the odd part in one; None: unknown."""
    twos = 0
    while size % 2 == 0:
        size, twos = size // 2, twos + 1
    if size == 1:
        return [2] * twos or [1]
    for taken in range(2, twos + 1):
        if _has_paley(size << taken):
            return [size << taken] + [2] * (twos - taken)
    return None


def _has_paley(size: int) -> bool:
    return _is_prime(size - 1) or (_is_prime(size // 2 - 1) and (size // 2 - 1) % 4 == 1)


def _hadamard(size: int) -> Tensor:
    """A matrix of 1 and -1, float64 (size, size), with orthogonal columns."""
    if size == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    if size == 2:
        return torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    if _is_prime(size - 1):  # size is a multiple of 4
        matrix = _bordered(size - 1, -1.0)
        return matrix + torch.eye(size, dtype=torch.float64)
    conference = _bordered(size // 2 - 1, 1.0)
    one = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    other = torch.tensor([[1.0, -1.0], [-1.0, -1.0]], dtype=torch.float64)
    return torch.kron(conference, one) + torch.kron(torch.eye(size // 2), other)


def _bordered(prime: int, left: float) -> Tensor:
    """Paley's matrix Q of chi(i - j), with a row of ones above and a column `left` beside it."""
    squares = {i * i % prime for i in range(1, prime)}
    chi = torch.tensor([0.0] + [1.0 if i in squares else -1.0 for i in range(1, prime)])
    index = torch.arange(prime)
    matrix = torch.zeros(prime + 1, prime + 1, dtype=torch.float64)
    matrix[0, 1:], matrix[1:, 0] = 1.0, left
    matrix[1:, 1:] = chi[(index[:, None] - index[None, :]) % prime]
    return matrix


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % d for d in range(2, math.isqrt(number) + 1))
