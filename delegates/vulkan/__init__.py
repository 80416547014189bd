"""Vulkan, the GPU of most Android phones, through ExecuTorch's own backend."""

from delegates.limits_of.vulkan import LIMITS
from delegates.vulkan.lower import load, lower
from delegates.vulkan.module import module_part

__all__ = ["LIMITS", "load", "lower", "module_part"]
