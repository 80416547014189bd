"""Core ML, through ExecuTorch's own backend: the whole decoder in one call, its cache as state."""

from delegates.coreml.lower import load, lower

__all__ = ["load", "lower"]
