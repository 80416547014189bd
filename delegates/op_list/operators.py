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
    "full_attention(Tensor query, Tensor key, Tensor value, float scale, bool causal) -> Tensor"
)
_library.define(
    "patches(Tensor x, bool planar, int[2] size, int[2] kernel, int[2] stride, int[2] padding, "
    "int[2] dilation) -> Tensor"
)
_library.define("constant(Tensor table, Tensor sample) -> Tensor")


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """As torch's, of any rows."""
    return F.layer_norm(x, list(shape), weight, bias, eps)


def full_attention(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Tensor:
    """Attention within each sample.

    Args:
        query: (batch, seq_len, num_attention_heads, head_dim).
        key, value: (batch, other_len, num_key_value_heads, head_dim).
        causal: whether a query sees no key behind its own place.

    Returns:
        as the query.
    """
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    out = F.scaled_dot_product_attention(
        query, key, value, is_causal=causal, scale=scale, enable_gqa=True
    )
    return out.transpose(1, 2).contiguous()


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

    Returns:
        (batch, windows, columns). Columns: planar channels of kernel numbers; else kernel numbers
        of channels.
    """
    pictures = (x if planar else x.transpose(1, 2)).reshape(x.shape[0], -1, *size)
    columns = F.unfold(pictures, tuple(kernel), tuple(dilation), tuple(padding), tuple(stride))
    if planar:
        return columns.transpose(1, 2).contiguous()
    by_channel = columns.unflatten(1, (pictures.shape[1], -1))
    return by_channel.permute(0, 3, 2, 1).flatten(2).contiguous()


def constant(table: Tensor, sample: Tensor) -> Tensor:
    """A table (rows, width) for each sample of a batch: (batch, rows, width)."""
    return table.expand(sample.shape[0], -1, -1).clone()


def windows(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How many windows a side of a picture has."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


for _function in (layer_norm, full_attention, patches, constant):
    _library.impl(_function.__name__, _function, "CompositeExplicitAutograd")


@torch.library.register_fake("thimble::layer_norm", lib=_library)
@torch.library.register_fake("thimble::full_attention", lib=_library)
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
    down, across = map(windows, size, kernel, stride, padding, dilation)
    channels = x.shape[1] if planar else x.shape[2]
    return x.new_empty(x.shape[0], down * across, channels * kernel[0] * kernel[1])


@torch.library.register_fake("thimble::constant", lib=_library)
def _fake_constant(table: Tensor, sample: Tensor) -> Tensor:
    return table.new_empty(sample.shape[0], *table.shape)
