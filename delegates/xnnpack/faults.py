"""Operators of any module that XNNPACK computes wrongly: they are left to other kernels.

Seen with ExecuTorch 1.5.1: exp, maximum, minimum and pools lose a NaN; sqrt, rsqrt, log and ceil
are wrong at the ends of their range, such as sqrt(inf) = NaN and rsqrt(0) = NaN; sin and cos beyond
1e38; a bilinear resize steps by the ratio of the sizes where torch steps by 1 / scale_factor. Zeros
around a value of int8 become int8 too, and lowering fails on what reads them in float.
"""

from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.passes.nan import may_be_nan
from delegates.report import operator_name

_ENDS = "XNNPACK's is wrong at the ends of the range"
_NAN = "XNNPACK's loses a NaN"
_FAILS = "XNNPACK's lowering fails on it"
_ALWAYS = {
    "max": _FAILS,
    "min": _FAILS,
    "exp": _NAN,
    "maximum": _NAN,
    "minimum": _NAN,
    "ceil": _ENDS,
    "cos": _ENDS,
    "log": _ENDS,
    "rsqrt": _ENDS,
    "sin": _ENDS,
    "sqrt": _ENDS,
}
_POOLS = ("avg_pool2d", "max_pool2d", "max_pool2d_with_indices")
_BILINEAR = "upsample_bilinear2d"
_PAD = "constant_pad_nd"


def fault(node: Node, program: ExportedProgram, odd: Collection[str]) -> str | None:
    """Returns why XNNPACK must not take a node; None: it may.

    Args:
        odd: constants that are not finite.
    """
    if not hasattr(node.target, "_schema") and not hasattr(node.target, "_op"):
        return None
    name = operator_name(node)
    if name in _ALWAYS:
        return _ALWAYS[name]
    if name == "gelu" and (node.kwargs.get("approximate") or (*node.args, "none")[1]) != "none":
        return "XNNPACK computes the exact GELU, whatever `approximate` is"
    if name in ("prelu", *_POOLS) and _dimensions(node.args[0]) != 4:
        return _FAILS
    if name in _POOLS and may_be_nan(node.args[0], program, odd):
        return _NAN
    if name == _PAD and _dequantized(node.args[0]) and not all(map(_reads_integers, node.users)):
        return "XNNPACK would round to int8 what an operator in float reads"
    if name == _BILINEAR and not _steps_by_sizes(node):
        return "XNNPACK steps by the ratio of the sizes, not by 1 / scale_factor"
    return None


def _dequantized(value: Any) -> bool:
    return hasattr(value.target, "_op") and "::dequantize" in operator_name(value)


def _reads_integers(user: Node) -> bool:
    """Whether it is a convolution of integers, or rounds to them itself."""
    name = operator_name(user) if hasattr(user.target, "_op") else ""
    return "::quantize" in name or name == "convolution" and _dequantized(user.args[1])


def is_empty(node: Node) -> bool:
    """Whether a node or one of its inputs has no numbers."""
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    return any(isinstance(one, torch.Tensor) and 0 in one.shape for one in values)


def _steps_by_sizes(node: Node) -> bool:
    """Whether each size times its factor is whole, so that both steps are one."""
    factors: Any = node.args[3] if len(node.args) > 3 else node.kwargs.get("scale_factors")
    if factors is None:
        return True
    source, target = (_sizes(side) for side in (node.args[0], node))
    return all(
        isinstance(size, int) and size * factor == made
        for size, made, factor in zip(source, target, factors, strict=True)
    )


def _sizes(value: Any) -> Iterable[Any]:
    known: Any = value.meta["val"]
    return (known if isinstance(known, torch.Tensor) else known[0]).shape[-2:]


def _dimensions(value: Any) -> int:
    return len(value.meta["val"].shape)
