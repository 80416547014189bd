"""XNNPACK, through ExecuTorch's own partitioner, as a stock ExecuTorch LLM runtime runs it."""

from delegates.xnnpack.lower import LIMITS, load, lower

__all__ = ["LIMITS", "load", "lower"]
