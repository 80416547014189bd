"""XNNPACK, through ExecuTorch's own partitioner, as a stock ExecuTorch LLM runtime runs it."""

from delegates.xnnpack.lower import LIMITS, load, lower, take, take_rest

__all__ = ["LIMITS", "load", "lower", "take", "take_rest"]
