"""The operators that a quantized model is captured with: one node for a linear, one for the table
of an embedding.

A delegate's first pass keeps them, or expands them into the form that it supports. The
arguments `bits`, `group_size` and `levels` are those of quant.weight_type.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from quant.rotation.inputs import rotate_blocks
from quant.rounding.activations import int8_round_trip

_TYPE = "int bits, int group_size, int levels"
_MOST_INT8 = 127
_SIDES = "int[] kernel, int[] stride, int[] padding, int[] dilation"

_library = torch.library.Library("thimble", "FRAGMENT")
_library.define(
    f"linear(Tensor input, Tensor values, Tensor scales, Tensor? bias, {_TYPE}, int rotated=0) "
    "-> Tensor"
)
_library.define(
    f"embedding(Tensor tokens, Tensor values, Tensor scales, int embedding_dim, {_TYPE}, "
    "int rotated=0) -> Tensor"
)
_library.define(
    f"convolution(Tensor input, Tensor values, Tensor scales, Tensor? bias, {_SIDES}) -> Tensor"
)


def linear(
    input: Tensor,
    values: Tensor,
    scales: Tensor,
    bias: Tensor | None,
    bits: int,
    group_size: int,
    levels: int,
    rotated: int = 0,
) -> Tensor:
    """A linear with integer weights and inputs rounded to int8, dynamic: per token (8da4w), or,
    where each group has a float scale, in the weight's groups, symmetric.

    Args:
        input: float32 (..., in_features).
        values: int8 (rows, columns), columns >= in_features; the input is padded with zeros.
        scales: float32 (rows, groups).
        bias: float32 (rows,) or None.
        rotated: size of the blocks in which the input is rotated first (quant.rotation.inputs), as
            the weight's columns are; 0: neither is.

    Returns:
        float32 (..., rows).
    """
    weight = dequantized(values, scales)
    return linear_of_floats(input, weight, bias, rotated, input_group(group_size, levels))


def input_group(group_size: int, levels: int) -> int:
    """The size of the groups in which a weight's inputs are rounded; 0: each token as a whole."""
    return group_size if levels == 1 else 0


def linear_of_floats(
    input: Tensor, weight: Tensor, bias: Tensor | None, rotated: int = 0, group_size: int = 0
) -> Tensor:
    """The same of a weight that is dequantized already, float32 (rows, columns), with inputs
    rounded in groups of `group_size`, or, if 0, per token."""
    return F.linear(rounded_input(input, weight.shape[1], rotated, group_size), weight, bias)


def rounded_input(input: Tensor, columns: int, rotated: int, group_size: int) -> Tensor:
    """An input (..., in_features) as a weight of so many columns sees it: rotated, padded and
    rounded, float32 (..., columns)."""
    input = rotate_blocks(input, rotated)
    padding = columns - input.shape[-1]
    padded = F.pad(input, (0, padding)) if padding else input
    return _rounded_groups(padded, group_size) if group_size else int8_round_trip(padded)


def embedding(
    tokens: Tensor,
    values: Tensor,
    scales: Tensor,
    embedding_dim: int,
    bits: int,
    group_size: int,
    levels: int,
    rotated: int = 0,
) -> Tensor:
    """Gathers rows of integers and their scales and multiplies them; the table stays as it is.

    Args:
        tokens: int64 (batch, seq_len).
        values: int8 (vocab_size, columns), columns >= embedding_dim.
        scales: float32 (vocab_size, groups).
        rotated: size of the blocks in which the table's rows are rotated (quant.rotation.inputs),
            and are rotated back; 0: they are not.

    Returns:
        float32 (batch, seq_len, embedding_dim).
    """
    rows = dequantized(F.embedding(tokens, values), F.embedding(tokens, scales))
    if rows.shape[-1] != embedding_dim:
        rows = rows[..., :embedding_dim].contiguous()
    return rotate_blocks(rows, rotated)


def convolution(
    input: Tensor,
    values: Tensor,
    scales: Tensor,
    bias: Tensor | None,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """A dense convolution as linear() of its windows, each rounded to int8 as a whole.

    Args:
        input: float32 (batch, channels, length), or (batch, channels, height, width).
        values: int8 (outputs, channels * numbers of the kernel).
        scales: float32 (outputs, 1).
        bias: float32 (outputs,) or None.
        kernel, stride, padding, dilation: a number for each dimension of places.

    Returns:
        float32 (batch, outputs, ...).
    """
    picture = input if input.dim() == 4 else input.unsqueeze(2)
    sides = [list(side) for side in (kernel, dilation, padding, stride)]
    if input.dim() == 3:  # a sound is a picture of one row
        sides = [[one, *side] for one, side in zip((1, 1, 0, 1), sides, strict=True)]
    wide, steps, zeros, apart = sides
    rows = F.unfold(picture, wide, steps, zeros, apart).transpose(1, 2)  # type: ignore[arg-type]
    products = linear_of_floats(rows, dequantized(values, scales), bias).transpose(1, 2)
    return products.reshape(_convolved(input, values, kernel, stride, padding, dilation))


def _convolved(
    input: Tensor,
    values: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """The shape of a convolution."""
    places = [
        (size + 2 * zeros - step * (width - 1) - 1) // apart + 1
        for size, width, apart, zeros, step in zip(
            input.shape[2:], kernel, stride, padding, dilation, strict=True
        )
    ]
    return [input.shape[0], values.shape[0], *places]


def dequantized(values: Tensor, scales: Tensor) -> Tensor:
    """(..., columns) in the type of scales, float32 or float16, of int8 (..., columns) and scales
    (..., groups)."""
    groups = values.to(scales.dtype).unflatten(-1, (scales.shape[-1], -1))
    return groups.mul_(scales.unsqueeze(-1)).flatten(-2)  # in place: half the time of a product


def _rounded_groups(x: Tensor, group_size: int) -> Tensor:
    """Each group rounded to int8 and back: scale = max |x| / 127, at least the smallest normal."""
    groups = x.unflatten(-1, (-1, group_size))
    scale = groups.abs().amax(dim=-1, keepdim=True).div(_MOST_INT8)
    scale = scale.clamp_min(torch.finfo(torch.float32).tiny)
    return (groups / scale).round().mul(scale).flatten(-2)


_library.impl("linear", linear, "CompositeExplicitAutograd")
_library.impl("embedding", embedding, "CompositeExplicitAutograd")
_library.impl("convolution", convolution, "CompositeExplicitAutograd")


@torch.library.register_fake("thimble::linear", lib=_library)
def _linear_fake(input: Tensor, values: Tensor, *_: object) -> Tensor:
    return input.new_empty((*input.shape[:-1], values.shape[0]))


@torch.library.register_fake("thimble::convolution", lib=_library)
def _convolution_fake(
    input: Tensor, values: Tensor, _scales: Tensor, _bias: Tensor | None, *sides: Sequence[int]
) -> Tensor:
    return input.new_empty(_convolved(input, values, *sides))


@torch.library.register_fake("thimble::embedding", lib=_library)
def _embedding_fake(
    tokens: Tensor, values: Tensor, scales: Tensor, embedding_dim: int, *_: object
) -> Tensor:
    return scales.new_empty((*tokens.shape, embedding_dim))
