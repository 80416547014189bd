"""The GPUs of Apple's systems by Metal: the CPU delegate's programs, run by kernels of our own."""

from delegates.mps.lower import LIMITS, load, lower

__all__ = ["LIMITS", "load", "lower"]
