"""XNNPACK, through ExecuTorch's own partitioner, as a stock ExecuTorch LLM runtime runs it."""

from delegates.xnnpack.lower import LIMITS, load, lower, take, take_rest
from delegates.xnnpack.source_map import add_source_map

__all__ = ["LIMITS", "add_source_map", "load", "lower", "take", "take_rest"]
