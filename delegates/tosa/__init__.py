"""TOSA, what Arm's NPUs compile from, through ExecuTorch's own backend."""

from delegates.limits_of.tosa import LIMITS
from delegates.tosa.lower import lower
from delegates.tosa.module import module_part
from delegates.tosa.reference import load

__all__ = ["LIMITS", "load", "lower", "module_part"]
