"""Qualcomm's NPU, through ExecuTorch's own backend and Qualcomm's SDK."""

from delegates.qnn.lower import LIMITS, load, lower

__all__ = ["LIMITS", "load", "lower"]
