"""Qualcomm's NPU, through ExecuTorch's own backend and Qualcomm's SDK."""

from delegates.limits_of.qnn import LIMITS
from delegates.qnn.lower import load, lower

__all__ = ["LIMITS", "load", "lower"]
