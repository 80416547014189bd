"""Operators that ExecuTorch's kernels compute wrongly, as others that they compute right.

Each function is a decomposition for torch.export: it returns what the operator returns, or
NotImplemented where the kernel is right.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils._pytree import tree_map_only

from delegates.passes.weights import copy_graph

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)
_SUMS = (
    *(_aten.var.default, _aten.var.dim, _aten.var.correction),
    *(_aten.std.default, _aten.std.dim, _aten.std.correction),
    *(_aten.avg_pool1d.default, _aten.avg_pool2d.default, _aten.avg_pool3d.default),
    *(_aten.conv_transpose1d.default, _aten.conv_transpose2d.input, _aten.conv3d.default),
    _aten.scatter_add.default,
)
_MOST_PRODUCTS = 8  # of an integer with itself
_CONVOLUTIONS = (  # of float16 they are XNNPACK's, which adds in float32
    *(_aten.conv1d.default, _aten.conv1d.padding),
    *(_aten.conv2d.default, _aten.conv2d.padding),
)


def _layer_norm(
    x: Tensor,
    shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """The kernel takes the mean of squares: it cancels where the mean is large. Its rows of half
    types are wrong."""
    wide = x.float() if x.dtype in _HALVES else x
    dims = list(range(-len(shape), 0))
    centered = wide - wide.mean(dims, keepdim=True)
    weight, bias = (
        parameter if parameter is None else parameter.to(wide.dtype) for parameter in (weight, bias)
    )
    normed = torch.native_layer_norm(centered, shape, weight, bias, eps)[0]
    return normed.to(x.dtype)


def _group_norm(
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """As for _layer_norm()."""
    wide = x.float() if x.dtype in _HALVES else x
    rows = wide.reshape(x.shape[0], groups, -1)
    normed = _normalized(rows, -1, eps).reshape(x.shape)
    return _scaled(normed, weight, bias).to(x.dtype)


def _instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enable: bool,
) -> Tensor:
    """As for _layer_norm()."""
    if not use_input_stats:
        return NotImplemented
    wide = x.float() if x.dtype in _HALVES else x
    normed = _normalized(wide.flatten(2), -1, eps).reshape(x.shape)
    return _scaled(normed, weight, bias).to(x.dtype)


def _normalized(rows: Tensor, dim: int, eps: float) -> Tensor:
    centered = rows - rows.mean(dim, keepdim=True)
    variance = (centered * centered).mean(dim, keepdim=True)
    return centered * (variance + eps).rsqrt()


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Multiplies the channels, dimension 1, and adds to them."""
    shape = (1, -1) + (1,) * (x.dim() - 2)
    if weight is not None:
        x = x * weight.to(x.dtype).reshape(shape)
    return x if bias is None else x + bias.to(x.dtype).reshape(shape)


def _remainder(x: Any, y: Any) -> Tensor:
    """The kernel's remainder of integers has the sign of the dividend, as in C; torch's has that of
    the divisor."""
    type = torch.result_type(x, y)
    if type.is_floating_point or type.is_complex:
        return NotImplemented
    x, y = (operand.to(type) if isinstance(operand, Tensor) else operand for operand in (x, y))
    if not isinstance(x, Tensor):
        x = torch.full_like(y, x)
    if type is torch.int64 and not isinstance(y, Tensor) and abs(y) > 1:
        return x - x // y * y  # the kernel's remainder is of doubles: 53 bits
    rest = torch.fmod(x, y)
    below = y < 0
    return torch.where(rest.ne(0) & (rest < 0).ne(below), rest + y, rest)


def _fmod(x: Tensor, y: Any) -> Tensor:
    """As for _divide() of integers."""
    if x.dtype is not torch.int64 or not isinstance(y, int) or abs(y) < 2:
        return NotImplemented
    return x - _truncated(x, y) * y


def _truncated(x: Tensor, y: int) -> Tensor:
    floor = x // y
    return floor + ((floor < 0) & (floor * y).ne(x)).to(x.dtype)


def _divide(x: Tensor, y: Any, rounding_mode: str | None) -> Tensor:
    """The kernel truncates ratios of integers as doubles, which have 53 bits. For floats see
    _floor_divide()."""
    if rounding_mode == "floor":
        return _floor_divide(x, y)
    whole = x.dtype is torch.int64 and isinstance(y, int) and abs(y) > 1
    return _truncated(x, y) if rounding_mode == "trunc" and whole else NotImplemented


def _floor_divide(x: Tensor, y: Any) -> Tensor:
    """The kernel divides floats by zero wrongly: 0 / 0 is infinite, and the sign is x's alone."""
    type = torch.result_type(x, y)
    if not type.is_floating_point or not isinstance(y, Tensor) and y != 0:
        return NotImplemented
    if not isinstance(y, Tensor):
        return x / y
    x, y = x.to(type), y.to(type)
    rest = torch.fmod(x, y)
    ratio = (x - rest) / y
    ratio = torch.where(rest.ne(0) & (rest < 0).ne(y < 0), ratio - 1, ratio)
    whole = torch.floor(ratio)
    whole = torch.where(ratio - whole > 0.5, whole + 1, whole)
    return torch.where(y == 0, x / y, whole)


def _pow(x: Tensor, exponent: Any) -> Tensor:
    """The kernel takes powers of integers in doubles, and those of 1/2 and -1/2 otherwise than
    torch, which takes roots."""
    type = torch.result_type(x, exponent)
    if type.is_floating_point:
        roots = {0.5: torch.sqrt, -0.5: torch.rsqrt}
        is_root = exponent in roots and x.dtype is type and type not in _HALVES
        return roots[exponent](x) if is_root else NotImplemented
    if not 1 < exponent <= _MOST_PRODUCTS:
        return NotImplemented
    wide = power = x.to(type)
    for _ in range(exponent - 1):
        power = power * wide
    return power


def _square(x: Tensor) -> Tensor:
    """As for _pow()."""
    return _pow(x, 2)


def _sign(x: Tensor) -> Tensor:
    """The kernel's of a NaN is NaN; torch's is 0."""
    if not x.is_floating_point():
        return NotImplemented
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


def _whole(x: Tensor) -> Tensor:
    """The kernel rounds integers as floats, which have fewer bits."""
    return NotImplemented if x.is_floating_point() else x.clone()


def _cumsum(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """The kernel adds in the half type itself: ones stop at 256 in bfloat16."""
    type = dtype or x.dtype
    if type not in _HALVES:
        return NotImplemented
    return x.to(type).float().cumsum(dim).to(type)


def _in_float32(operator: Any, types: Collection[torch.dtype] = _HALVES) -> Callable[..., Any]:
    """The kernel adds, or multiplies, in the half type itself."""

    def decomposed(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if x.dtype not in types:
            return NotImplemented
        wide = tree_map_only(Tensor, _widened, (args, kwargs))
        return operator(x.float(), *wide[0], **wide[1]).to(x.dtype)

    return decomposed


def _widened(x: Tensor) -> Tensor:
    return x.float() if x.dtype in _HALVES else x


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The kernel takes rows, not one alone; with a bias it adds in the half type itself."""
    if x.dtype in _HALVES and bias is not None:
        return torch.nn.functional.linear(x, weight) + bias
    if x.dim() > 1:
        return NotImplemented
    return torch.nn.functional.linear(x[None], weight, bias)[0]


def _addmm(x: Tensor, first: Tensor, second: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """As for _linear() with a bias."""
    if x.dtype not in _HALVES:
        return NotImplemented
    return beta * x + alpha * torch.mm(first, second)


def _add(x: Tensor, y: Tensor, alpha: float = 1) -> Tensor:
    """The kernel multiplies the other part where the first has one number; that of differences is
    right."""
    return NotImplemented if alpha == 1 else torch.sub(x, y, alpha=-alpha)


def _max_pool1d(
    x: Tensor,
    size: list[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Tensor:
    """Of planes with one row, which XNNPACK takes; the kernel loses a NaN."""
    steps = [1, *(stride or size)]
    sides, spread = [0, *padding], [1, *dilation]
    planes = torch.nn.functional.max_pool2d(
        x.unsqueeze(-2), [1, *size], steps, sides, spread, ceil_mode
    )
    return planes.squeeze(-2)


def _pad(x: Tensor, sides: list[int], *mode_and_value: Any) -> Tensor:
    """The kernel does not take away, as sides below zero ask for."""
    if min(sides, default=0) >= 0 or mode_and_value[:1] not in ((), ("constant",)):
        return NotImplemented
    for index, (before, after) in enumerate(zip(sides[::2], sides[1::2], strict=True)):
        dim = x.dim() - 1 - index
        first = max(-before, 0)
        x = x.narrow(dim, first, x.shape[dim] - first - max(-after, 0))
    added = [max(side, 0) for side in sides]
    return torch.nn.functional.pad(x, added, "constant", *mode_and_value[1:])


EXACT: Mapping[Any, Callable[..., Any]] = {
    _aten.add.Tensor: _add,
    _aten.linear.default: _linear,
    _aten.layer_norm.default: _layer_norm,
    _aten.group_norm.default: _group_norm,
    _aten.instance_norm.default: _instance_norm,
    _aten.remainder.Tensor: _remainder,
    _aten.remainder.Scalar: _remainder,
    _aten.remainder.Scalar_Tensor: _remainder,
    _aten.fmod.Scalar: _fmod,
    _aten.floor_divide.default: _floor_divide,
    _aten.floor_divide.Scalar: _floor_divide,
    _aten.pow.Tensor_Scalar: _pow,
    _aten.square.default: _square,
    _aten.sign.default: _sign,
    _aten.sgn.default: _sign,
    _aten.div.Tensor_mode: _divide,
    _aten.div.Scalar_mode: _divide,
    **{getattr(_aten, name).default: _whole for name in ("ceil", "floor", "round", "trunc")},
    _aten.cumsum.default: _cumsum,
    _aten.addmm.default: _addmm,
    _aten.pad.default: _pad,
    _aten.max_pool1d.default: _max_pool1d,
    **{operator: _in_float32(operator) for operator in _SUMS},
    **{operator: _in_float32(operator, (torch.bfloat16,)) for operator in _CONVOLUTIONS},
}


class Functional(ExportedProgram):
    """A program without writes in place: the trace with which ExecuTorch begins, which takes them
    out and decomposes nothing, would return the same."""

    def run_decompositions(
        self, decomp_table: dict[Any, Callable[..., Any]] | None = None, **options: Any
    ) -> ExportedProgram:
        empty = decomp_table is not None and len(decomp_table) == 0
        return self if empty else super().run_decompositions(decomp_table, **options)


def compute_exactly(program: ExportedProgram) -> Functional:
    """Returns a captured program with the operators of EXACT decomposed, and all tensors row by
    row."""
    copied = copy_graph(program)
    _make_row_by_row(copied)
    exact = copied.run_decompositions(dict(EXACT))
    exact.__class__ = Functional
    return cast(Functional, exact)


def _make_row_by_row(program: ExportedProgram) -> None:
    """Drops the strides that a module gives its tensors, which ExecuTorch does not have: they
    change no numbers, only which of them a view can keep in place. Operators that are written in
    others leave other strides than they had, too."""
    strided = (torch.channels_last, torch.channels_last_3d)
    nodes = [
        node
        for node in program.graph.nodes
        if any(value in strided for value in (*node.args, *node.kwargs.values()))
    ]
    for node in nodes:
        node.args = tuple(_row_by_row(value) for value in node.args)
        node.kwargs = {name: _row_by_row(value) for name, value in node.kwargs.items()}
    for node in program.graph.nodes:
        if node.target in (_aten.view.default, _aten._unsafe_view.default):
            node.target = _aten.reshape.default
    program.graph_module.recompile()


def _row_by_row(value: Any) -> Any:
    strided = value in (torch.channels_last, torch.channels_last_3d)
    return torch.contiguous_format if strided else value
