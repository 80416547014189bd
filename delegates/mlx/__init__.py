"""MLX, Apple's array framework for the GPUs of its own chips, through ExecuTorch's backend."""

from delegates.mlx.lower import LIMITS, load, lower

__all__ = ["LIMITS", "load", "lower"]
