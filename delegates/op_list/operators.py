"""Operators in which a user's module is written anew, so that they stay whole on the way to the
edge dialect. The CPU delegate computes them; eager mode runs what stands here.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

_library = torch.library.Library("thimble", "FRAGMENT")
_library.define(
    "layer_norm(Tensor x, int[] shape, Tensor? weight, Tensor? bias, float eps) -> Tensor"
)
_library.define(
    "full_attention(Tensor query, Tensor key, Tensor value, float scale, bool causal, int parts=1, "
    "Tensor? bias=None, bool bias_heads=False, bool bias_parts=False) -> Tensor"
)
_library.define(
    "patches(Tensor x, bool planar, int[2] size, int[2] kernel, int[2] stride, int[4] padding, "
    "int[2] dilation) -> Tensor"
)
_library.define("gather(Tensor x, Tensor places, int piece, int width) -> Tensor")
_library.define("pool_rows(Tensor x, Tensor places, int count, bool largest) -> Tensor")
_library.define(
    "depthwise(Tensor x, Tensor weight, Tensor? bias, int[2] size, int[2] kernel, int[2] stride, "
    "int[4] padding, int[2] dilation) -> Tensor"
)
_library.define(
    "recurrent(Tensor gates, Tensor weight, Tensor? bias, Tensor? hidden, Tensor? memory, "
    "str cell, bool reverse) -> Tensor"
)
_library.define("pointwise(Tensor x, str function, float number) -> Tensor")
_library.define("constant(Tensor table, Tensor sample) -> Tensor")


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """As torch's, of any rows."""
    return F.layer_norm(x, list(shape), weight, bias, eps)


def full_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    causal: bool,
    parts: int = 1,
    bias: Tensor | None = None,
    bias_heads: bool = False,
    bias_parts: bool = False,
) -> Tensor:
    """Attention within each sample, or within each part of it.

    Args:
        query: (batch, seq_len, num_attention_heads, head_dim).
        key, value: (batch, other_len, num_key_value_heads, head_dim).
        causal: whether a query sees no key behind its own place.
        parts: of equal length, each by itself.
        bias: added to the scores; (batch, rows, other_len / parts), a row for each query of a part,
            of each head in turn where bias_heads, and these for each part in turn where bias_parts.
            A query whose biases are all -inf gets zeros.

    Returns:
        as the query.
    """
    q, k, v = (
        x.reshape(-1, x.shape[1] // parts, *x.shape[2:]).transpose(1, 2)
        for x in (query, key, value)
    )
    if bias is not None:
        sizes = parts if bias_parts else 1, query.shape[2] if bias_heads else 1
        bias = bias.reshape(bias.shape[0], *sizes, query.shape[1] // parts, bias.shape[2])
        bias = bias.expand(-1, parts, -1, -1, -1).flatten(0, 1)
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, is_causal=causal, scale=scale, enable_gqa=True
    )
    return out.transpose(1, 2).reshape(query.shape).contiguous()


def gather(x: Tensor, places: Tensor, piece: int, width: int) -> Tensor:
    """A sample's numbers in another order.

    Args:
        x: (batch, height, columns).
        places: int32, of the pieces of x, for each of the result's; -1: zeros.
        piece: numbers that stay together.

    Returns:
        (batch, rows, width).
    """
    pieces = x.reshape(x.shape[0], -1, piece)
    taken = pieces[:, places.clamp(min=0).long()] * (places >= 0)[:, None]
    return taken.reshape(x.shape[0], -1, width).contiguous()


def pool_rows(x: Tensor, places: Tensor, count: int, largest: bool) -> Tensor:
    """The mean of some rows, or the largest number of each column.

    Args:
        x: (batch, height, width).
        places: int32, `count` rows of x for each of the result's.

    Returns:
        (batch, len(places) / count, width).
    """
    rows = x[:, places.long()].unflatten(1, (-1, count))
    return rows.amax(2) if largest else rows.mean(2)


def patches(
    x: Tensor,
    planar: bool,
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """What a convolution multiplies by its weight.

    Args:
        x: planar (batch, channels, ...), else (batch, height * width, channels).
        size: height and width.
        padding: zeros above, below, left and right.

    Returns:
        (batch, windows, columns). Columns: planar channels of kernel numbers; else kernel numbers
        of channels.
    """
    pictures = (x if planar else x.transpose(1, 2)).reshape(x.shape[0], -1, *size)
    columns = F.unfold(_padded(pictures, padding), tuple(kernel), tuple(dilation), 0, tuple(stride))
    if planar:
        return columns.transpose(1, 2).contiguous()
    by_channel = columns.unflatten(1, (pictures.shape[1], -1))
    return by_channel.permute(0, 3, 2, 1).flatten(2).contiguous()


def depthwise(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """A convolution of each channel by itself.

    Args:
        x: (batch, height * width, channels).
        weight: (kernel numbers * channels,), channels side by side.
        size: height and width.
        padding: zeros above, below, left and right.

    Returns:
        (batch, windows, channels).
    """
    channels = x.shape[2]
    pictures = x.transpose(1, 2).reshape(x.shape[0], channels, *size)
    taps = weight.view(-1, channels).t().reshape(channels, 1, *kernel)
    pictures = _padded(pictures, padding)
    y = F.conv2d(pictures, taps, bias, tuple(stride), 0, tuple(dilation), channels)
    return y.flatten(2).transpose(1, 2).contiguous()


def pointwise(x: Tensor, function: str, number: float) -> Tensor:
    """A function of each number: relu6, hard_sigmoid, hard_swish or gelu_tanh; least and most,
    bounds of it; or leaky_relu."""
    if function == "least":
        return x.clamp(min=number)
    if function == "most":
        return x.clamp(max=number)
    if function == "leaky_relu":
        return F.leaky_relu(x, number)
    if function == "gelu_tanh":
        return F.gelu(x, approximate="tanh")
    named = {"relu6": F.relu6, "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish}
    result: Tensor = named[function](x)
    return result


def recurrent(
    gates: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    hidden: Tensor | None,
    memory: Tensor | None,
    cell: str,
    reverse: bool,
) -> Tensor:
    """The steps of a recurrent layer.

    Args:
        gates: (batch, steps, gates), what the input adds to them. Of each 16 units, padded with
            zeros, an LSTM has 16 in, 16 forget, 16 out, 16 candidate; a GRU 16 reset, 16 update,
            16 candidate; else there are 16.
        weight: (gates, units).
        bias: (gates,), added to the products of hidden numbers; None: zeros.
        hidden, memory: (batch, 1, units), the first; None: zeros. Only an LSTM has a memory.
        cell: lstm, gru, rnn_tanh or rnn_relu.

    Returns:
        (batch, steps, units), hidden numbers; of an LSTM those of its memory behind them.
    """
    batch, steps, _ = gates.shape
    units = weight.shape[1]
    h, c = (gates.new_zeros(batch, units) if x is None else x[:, 0] for x in (hidden, memory))
    rows = []
    for step in reversed(range(steps)) if reverse else range(steps):
        kept = h @ weight.t() if bias is None else h @ weight.t() + bias
        if cell == "lstm":
            into, forget, out, candidate = _by_gate(gates[:, step] + kept, units)
            c = forget.sigmoid() * c + into.sigmoid() * candidate.tanh()
            h = out.sigmoid() * c.tanh()
        elif cell == "gru":
            given, own = _by_gate(gates[:, step], units), _by_gate(kept, units)
            reset, update = (torch.sigmoid(given[i] + own[i]) for i in range(2))
            candidate = torch.tanh(given[2] + reset * own[2])
            h = candidate + update * (h - candidate)
        else:
            (h,) = _by_gate(gates[:, step] + kept, units)
            h = h.tanh() if cell == "rnn_tanh" else h.relu()
        rows.append(torch.cat([h, c], -1) if cell == "lstm" else h)
    return torch.stack(rows[::-1] if reverse else rows, 1)


def _by_gate(gates: Tensor, units: int) -> Sequence[Tensor]:
    """Each gate of all units, (batch, units), of blocks of 16 units."""
    blocks = gates.unflatten(1, (-(-units // 16), -1, 16)).transpose(1, 2)
    return blocks.flatten(2)[..., :units].unbind(1)


def constant(table: Tensor, sample: Tensor) -> Tensor:
    """A table (rows, width) for each sample of a batch: (batch, rows, width)."""
    return table.expand(sample.shape[0], -1, -1).clone()


def _padded(pictures: Tensor, padding: Sequence[int]) -> Tensor:
    above, below, left, right = padding
    return F.pad(pictures, (left, right, above, below))


def windows(size: int, kernel: int, stride: int, padding: Sequence[int], dilation: int) -> int:
    """How many windows a side of a picture has.

    Args:
        padding: zeros before and behind it.
    """
    return (size + sum(padding) - dilation * (kernel - 1) - 1) // stride + 1


def sides(
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[tuple[int, int, int, Sequence[int], int]]:
    """What windows() takes, vertical and horizontal.

    Args:
        padding: zeros above, below, left and right.
    """
    return list(zip(size, kernel, stride, (padding[:2], padding[2:]), dilation, strict=True))


for _function in (
    *(layer_norm, full_attention, patches, gather, pool_rows, constant),
    *(depthwise, pointwise, recurrent),
):
    _library.impl(_function.__name__, _function, "CompositeExplicitAutograd")


@torch.library.register_fake("thimble::layer_norm", lib=_library)
@torch.library.register_fake("thimble::full_attention", lib=_library)
@torch.library.register_fake("thimble::pointwise", lib=_library)
def _like_the_first(first: Tensor, *_: object) -> Tensor:
    return torch.empty_like(first, memory_format=torch.contiguous_format)


@torch.library.register_fake("thimble::patches", lib=_library)
def _fake_patches(
    x: Tensor,
    planar: bool,
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    down, across = (windows(*side) for side in sides(size, kernel, stride, padding, dilation))
    channels = x.shape[1] if planar else x.shape[2]
    return x.new_empty(x.shape[0], down * across, channels * kernel[0] * kernel[1])


@torch.library.register_fake("thimble::depthwise", lib=_library)
def _fake_depthwise(
    x: Tensor, weight: Tensor, bias: Tensor | None, *numbers: Sequence[int]
) -> Tensor:
    down, across = (windows(*side) for side in sides(*numbers))
    return x.new_empty(x.shape[0], down * across, x.shape[2])


@torch.library.register_fake("thimble::recurrent", lib=_library)
def _fake_recurrent(
    gates: Tensor,
    weight: Tensor,
    _bias: object,
    _hidden: object,
    _memory: object,
    cell: str,
    *_: bool,
) -> Tensor:
    numbers = 2 if cell == "lstm" else 1
    return gates.new_empty(gates.shape[0], gates.shape[1], numbers * weight.shape[1])


@torch.library.register_fake("thimble::constant", lib=_library)
def _fake_constant(table: Tensor, sample: Tensor) -> Tensor:
    return table.new_empty(sample.shape[0], *table.shape)


@torch.library.register_fake("thimble::gather", lib=_library)
def _fake_gather(x: Tensor, places: Tensor, piece: int, width: int) -> Tensor:
    return x.new_empty(x.shape[0], places.shape[0] * piece // width, width)


@torch.library.register_fake("thimble::pool_rows", lib=_library)
def _fake_pool(x: Tensor, places: Tensor, count: int, largest: bool) -> Tensor:
    return x.new_empty(x.shape[0], places.shape[0] // count, x.shape[2])
