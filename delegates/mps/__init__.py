"""Apple's GPUs: runs the CPU delegate's programs with our own Metal kernels.

The delegate's name is `mps`, as ExecuTorch's users know it; `metal` is the API that its C++ uses.
"""

from delegates.mps.lower import LIMITS, load, lower

__all__ = ["LIMITS", "load", "lower"]
