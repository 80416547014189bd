"""MLX, Apple's array framework for the GPUs of its own chips, through ExecuTorch's backend."""

from delegates.limits_of.mlx import LIMITS
from delegates.mlx.lower import load, lower
from delegates.mlx.module import module_part

__all__ = ["LIMITS", "load", "lower", "module_part"]
