"""Core ML, through ExecuTorch's own backend: the complete decoder in one call, with its cache as
state."""

from delegates.coreml.lower import load, lower, take
from delegates.coreml.module import module_part
from delegates.limits_of.coreml import LIMITS

__all__ = ["LIMITS", "load", "lower", "module_part", "take"]
