"""Vulkan, the GPU of most Android phones, through ExecuTorch's own backend."""

from delegates.vulkan.lower import LIMITS, load, lower

__all__ = ["LIMITS", "load", "lower"]
