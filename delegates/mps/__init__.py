"""Apple's GPUs: runs the CPU delegate's programs with our own Metal kernels.

The delegate's name is `mps`, as ExecuTorch's users know it; `metal` is the API that its C++ uses.
"""

from delegates.limits_of.mps import LIMITS
from delegates.mps.lower import load, lower

__all__ = ["LIMITS", "load", "lower"]
