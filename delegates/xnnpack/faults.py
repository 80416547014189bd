"""Operators of any module that XNNPACK computes wrongly: they are left to other kernels.

Seen with ExecuTorch 1.5.1: exp, maximum, minimum and pools lose a NaN; sqrt, rsqrt, log and ceil
are wrong at the ends of their range, such as sqrt(inf) = NaN and rsqrt(0) = NaN; sin and cos beyond
1e38; a bilinear resize steps by the ratio of the sizes where torch steps by 1 / scale_factor; a
mean of int8 whose batch varies has other numbers in each run.
Lowering drops copies, and then fails where a call gives back one value twice.
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
_COPIES = ("clone", "_clone_dim_order")


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
    if name == "mean" and _is_integer(node.args[0]) and not _is_fixed(node):
        return "XNNPACK's mean of integers is wrong where a size varies"
    if name in _COPIES and _is_returned(node) and _is_returned_elsewhere(node):
        return "XNNPACK gives back no value twice"
    if name == _BILINEAR and not _steps_by_sizes(node):
        return "XNNPACK steps by the ratio of the sizes, not by 1 / scale_factor"
    return None


def is_empty(node: Node) -> bool:
    """Whether a node or one of its inputs has no numbers."""
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    return any(isinstance(one, torch.Tensor) and 0 in one.shape for one in values)


def _is_integer(value: Any) -> bool:
    """Whether the numbers are integers that are read as floats."""
    return "dequantize" in str(value.target)


def _is_fixed(node: Node) -> bool:
    return all(isinstance(size, int) for size in node.meta["val"].shape)


def _is_returned(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)


def _is_returned_elsewhere(copy: Node) -> bool:
    """Whether what is copied, or another copy of it, is returned as well."""
    source: Any = copy
    while _is_copy(source):
        source = source.args[0]
    same = [source]
    for one in same:
        same += filter(_is_copy, one.users)
    return any(one is not copy and _is_returned(one) for one in same)


def _is_copy(node: Node) -> bool:
    return node.op == "call_function" and operator_name(node) in _COPIES


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
