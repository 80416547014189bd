"""Core ML, through ExecuTorch's own backend: the complete decoder in one call, with its cache as
state."""

from delegates.coreml.lower import LIMITS, load, lower, take

__all__ = ["LIMITS", "load", "lower", "take"]
