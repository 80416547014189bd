"""XNNPACK, through ExecuTorch's own partitioner, as a stock ExecuTorch LLM runtime runs it."""

from delegates.limits_of.xnnpack import LIMITS
from delegates.xnnpack.lower import load, lower, lower_methods, take, take_rest
from delegates.xnnpack.module import load_module, module_part
from delegates.xnnpack.source_map import add_source_map

__all__ = [
    "LIMITS",
    "add_source_map",
    "load",
    "load_module",
    "lower",
    "lower_methods",
    "module_part",
    "take",
    "take_rest",
]
