"""XNNPACK, through ExecuTorch's own partitioner, as a stock ExecuTorch LLM runtime runs it."""

from delegates.limits_of.xnnpack import LIMITS
from delegates.xnnpack.lower import load, lower, lower_methods, take, take_rest
from delegates.xnnpack.module import module_part, runs_modules
from delegates.xnnpack.source_map import add_source_map

__all__ = [
    "LIMITS",
    "add_source_map",
    "load",
    "lower",
    "lower_methods",
    "module_part",
    "runs_modules",
    "take",
    "take_rest",
]
