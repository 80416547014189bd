"""Our operators of attention in a captured program: one writes this call's keys and values, then
attends; the other attends to what an earlier one has written.

Every delegate's first pass replaces them with operators of that delegate, or with their
decompositions into ATen. Eager mode runs the decompositions.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from exporter.models.int8_heads import in_int8, rotated_in_int8

_library = torch.library.Library("thimble", "FRAGMENT")
_library.define(
    "cached_attention(Tensor query, Tensor key, Tensor value, Tensor(a!) key_cache, "
    "Tensor(b!) value_cache, SymInt start_pos, float scale, int? window=None, "
    "float? soft_cap=None, Tensor? sinks=None, bool int8=False) -> Tensor"
)
_library.define(
    "shared_attention(Tensor query, Tensor key_cache, Tensor value_cache, SymInt start_pos, "
    "float scale, int? window=None, float? soft_cap=None, bool int8=False) -> Tensor"
)


def cached_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    start_pos: int,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: Tensor | None = None,
    int8: bool = False,
) -> Tensor:
    """Writes keys and values to the cache, then computes causal grouped-query attention over it.

    Args:
        query: (1, seq_len, num_attention_heads, head_dim).
        key, value: (1, seq_len, num_key_value_heads, head_dim).
        key_cache, value_cache: (1, max_context_len, num_key_value_heads, head_dim), written at
            positions start_pos .. start_pos + seq_len - 1.
        start_pos: position of the first query.
        scale: factor on the dot products.
        window: how many positions a query sees, its own included; None: all up to its own.
        soft_cap, sinks: as in `attend`.
        int8: whether queries, keys and values are first rounded to int8.

    Returns:
        (1, seq_len, num_attention_heads, head_dim).
    """
    seq_len = query.shape[1]
    if int8:
        query, key, value = rotated_in_int8(query), rotated_in_int8(key), in_int8(value)
    key_cache.narrow(1, start_pos, seq_len).copy_(key)
    value_cache.narrow(1, start_pos, seq_len).copy_(value)
    mask = _seen(query, key_cache, start_pos, window)
    return attend(query, key_cache, value_cache, mask, scale, soft_cap, sinks)


def shared_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    start_pos: int,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    int8: bool = False,
) -> Tensor:
    """Computes causal grouped-query attention over a cache that already has this call's keys and
    values: as `cached_attention`, without its writes.

    Returns:
        (1, seq_len, num_attention_heads, head_dim).
    """
    if int8:
        query = rotated_in_int8(query)
    mask = _seen(query, key_cache, start_pos, window)
    return attend(query, key_cache, value_cache, mask, scale, soft_cap, None)


def _seen(query: Tensor, cache: Tensor, start_pos: int, window: int | None) -> Tensor:
    """Returns which positions of a cache each query sees: bool (seq_len, context)."""
    seq_len, context = query.shape[1], cache.shape[1]
    query_pos = start_pos + torch.arange(seq_len, device=query.device)
    mask = torch.arange(context, device=query.device) <= query_pos[:, None]
    if window is not None:
        oldest = query_pos[:, None] - window + 1
        mask = mask & (torch.arange(context, device=query.device) >= oldest)
    return mask


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    soft_cap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Grouped-query attention.

    Args:
        query: (batch, seq_len, num_attention_heads, head_dim).
        key, value: (batch, positions, num_key_value_heads, head_dim).
        mask: bool (seq_len, positions), whether a query sees a position; None: those up to its own.
        scale: factor on the dot products.
        soft_cap: scores become cap * tanh(score / cap) (Gemma 2, 2024, section 2); None: they stay.
        sinks: (num_attention_heads,), one more score of each head's softmax, without a value
            (gpt-oss, 2025); None: there is none.

    Returns:
        (batch, seq_len, num_attention_heads, head_dim).
    """
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    if soft_cap is None and sinks is None:
        out = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=True
        )
        return out.transpose(1, 2)
    group = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    scores = query @ key.transpose(2, 3) * scale  # (batch, num_attention_heads, seq_len, positions)
    if soft_cap is not None:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    if mask is None:
        mask = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).tril()
    scores = scores.masked_fill(~mask, -torch.inf)
    if sinks is None:
        weights = scores.softmax(-1)
    else:
        sink = sinks.view(1, -1, 1, 1)
        largest = torch.maximum(scores.amax(-1, keepdim=True), sink)
        weights = torch.exp(scores - largest)
        weights = weights / (weights.sum(-1, keepdim=True) + torch.exp(sink - largest))
    return (weights @ value).transpose(1, 2).contiguous()


_library.impl("cached_attention", cached_attention, "CompositeExplicitAutograd")
_library.impl("shared_attention", shared_attention, "CompositeExplicitAutograd")


@torch.library.register_fake("thimble::shared_attention", lib=_library)
def _shared_attention_fake(query: Tensor, *_: object, **__: object) -> Tensor:
    return torch.empty_like(query, memory_format=torch.contiguous_format)


@torch.library.register_fake("thimble::cached_attention", lib=_library)
def _cached_attention_fake(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    start_pos: int,
    *_: object,
    **__: object,
) -> Tensor:
    key_cache.narrow(1, start_pos, query.shape[1])  # the positions must be those of the cache
    return _shared_attention_fake(query)
