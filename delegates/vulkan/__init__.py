"""Vulkan, the GPU of most Android phones, through ExecuTorch's own backend."""

from delegates.vulkan.lower import LIMITS, load, lower
from delegates.vulkan.module import module_part

__all__ = ["LIMITS", "load", "lower", "module_part"]
