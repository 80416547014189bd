"""Our operators in the captured program of an encoder, which reads whole texts: learned and rotary
positions, attention without a cache, pooling.

The CPU delegate runs them over several texts of a call, each by itself. Eager mode runs the
decompositions, of one text.
"""

from typing import Literal

import torch
from torch import Tensor
from torch._decomp import register_decomposition
from torch.nn import functional as F

from exporter.models.rotary_tables import apply_rope

Pooling = Literal["first", "last", "mean"]

_library = torch.library.Library("thimble", "FRAGMENT")
_library.define("add_positions(Tensor x, Tensor table) -> Tensor")
_library.define("rotate(Tensor x, Tensor cosines, Tensor sines) -> Tensor")
_library.define(
    "segment_attention(Tensor query, Tensor key, Tensor value, float scale, int? window, "
    "int? after) -> Tensor"
)
_library.define("sample_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor")
_library.define("relative_scores(Tensor query, Tensor table) -> Tensor")
_library.define("pool(Tensor x, str pooling) -> Tensor")


def add_positions(x: Tensor, table: Tensor) -> Tensor:
    """Adds the first rows of a table (positions, width) to x (batch, seq_len, width)."""
    return x + table.narrow(0, 0, x.shape[1])


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotates x (batch, seq_len, heads, head_dim) by the first rows of tables (positions, 1,
    head_dim), as `apply_rope` does."""
    return apply_rope(x, (cosines.narrow(0, 0, x.shape[1]), sines.narrow(0, 0, x.shape[1])))


def segment_attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None, after: int | None
) -> Tensor:
    """Grouped-query attention within complete texts.

    Args:
        query: (batch, seq_len, num_attention_heads, head_dim).
        key, value: (batch, seq_len, num_key_value_heads, head_dim).
        scale: factor on the dot products.
        window: how many positions up to its own a query sees; None: all.
        after: how many behind its own; None: all.

    Returns:
        (batch, seq_len, num_attention_heads, head_dim).
    """
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    at = torch.arange(query.shape[2], device=query.device)
    ages = at[:, None] - at
    seen = torch.ones_like(ages, dtype=torch.bool) if after is None else ages >= -after
    if window is not None:
        seen = seen & (ages < window)
    out = F.scaled_dot_product_attention(
        query, key, value, attn_mask=seen, scale=scale, enable_gqa=True
    )
    return out.transpose(1, 2)


def sample_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Norms all rows of x (batch, rows, width) of a sample together, as GroupNorm of one group
    does."""
    return F.group_norm(x.transpose(1, 2), 1, weight, bias, eps).transpose(1, 2)


def relative_scores(query: Tensor, table: Tensor) -> Tensor:
    """Products of queries with what a table has for their distance to each row.

    Args:
        query: (batch, rows, heads, head_dim).
        table: (heads * 2 * room, head_dim): of each head, for rows from room - 1 before the query
            to room behind it. Room is a multiple of 8, and at least rows.

    Returns:
        (batch, heads * rows, rows): of each head, query by query.
    """
    rows, heads, dim = query.shape[1:]
    keys = table.view(heads, -1, dim)
    at = torch.arange(rows, device=query.device)
    places = keys.shape[1] // 2 - 1 + at - at[:, None]
    return torch.einsum("bihd,hijd->bhij", query, keys[:, places]).flatten(1, 2)


def pool(x: Tensor, pooling: Pooling) -> Tensor:
    """Makes one row of each text: x (batch, seq_len, width) to (batch, width)."""
    if pooling == "mean":
        return x.mean(dim=1)
    return x[:, 0 if pooling == "first" else -1]


for _name, _function in (
    ("add_positions", add_positions),
    ("rotate", rotate),
    ("segment_attention", segment_attention),
    ("sample_norm", sample_norm),
    ("relative_scores", relative_scores),
    ("pool", pool),
):
    _library.impl(_name, _function, "CompositeExplicitAutograd")
    register_decomposition(getattr(torch.ops.thimble, _name).default)(_function)


@torch.library.register_fake("thimble::add_positions", lib=_library)
@torch.library.register_fake("thimble::rotate", lib=_library)
@torch.library.register_fake("thimble::segment_attention", lib=_library)
@torch.library.register_fake("thimble::sample_norm", lib=_library)
def _like_the_first(first: Tensor, *_: object) -> Tensor:
    return torch.empty_like(first, memory_format=torch.contiguous_format)


@torch.library.register_fake("thimble::relative_scores", lib=_library)
def _scored(query: Tensor, table: Tensor) -> Tensor:
    batch, rows, heads, _ = query.shape
    return query.new_empty(batch, heads * rows, rows)


@torch.library.register_fake("thimble::pool", lib=_library)
def _pooled(x: Tensor, pooling: str) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[2])
