"""Our own CPU delegate: one call runs the complete decoder, with the weights used in place."""

from delegates.cpu.lower import load, lower, lower_methods, take, take_rest
from delegates.cpu.module import module_part, runs_modules
from delegates.limits_of.cpu import LIMITS
from delegates.op_list.lower import file_layout
from delegates.op_list.unfused import why_unfused

DYNAMIC_CONVOLUTIONS = True  # of int8, windows are rounded as they are read

__all__ = [
    "DYNAMIC_CONVOLUTIONS",
    "LIMITS",
    "file_layout",
    "load",
    "lower",
    "lower_methods",
    "module_part",
    "runs_modules",
    "take",
    "take_rest",
    "why_unfused",
]
