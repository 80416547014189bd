"""Our one operator in a captured program: writes this call's keys and values, then attends.

Every delegate's first pass replaces it with an operator of that delegate, or with its decomposition
into ATen. Eager mode runs the decomposition.
"""

import torch
from torch import Tensor
from torch._decomp import register_decomposition

_library = torch.library.Library("thimble", "FRAGMENT")
_library.define(
    "cached_attention(Tensor query, Tensor key, Tensor value, Tensor(a!) key_cache, "
    "Tensor(b!) value_cache, SymInt start_pos, float scale, int? window=None) -> Tensor"
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

    Returns:
        (1, seq_len, num_attention_heads, head_dim).
    """
    seq_len, context = query.shape[1], key_cache.shape[1]
    key_cache.narrow(1, start_pos, seq_len).copy_(key)
    value_cache.narrow(1, start_pos, seq_len).copy_(value)
    query_pos = start_pos + torch.arange(seq_len, device=query.device)
    mask = torch.arange(context, device=query.device) <= query_pos[:, None]  # (seq_len, context)
    if window is not None:
        oldest = query_pos[:, None] - window + 1
        mask = mask & (torch.arange(context, device=query.device) >= oldest)
    out = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(1, 2),
        key_cache.transpose(1, 2),
        value_cache.transpose(1, 2),
        attn_mask=mask,
        scale=scale,
        enable_gqa=True,
    )
    return out.transpose(1, 2)


_library.impl("cached_attention", cached_attention, "CompositeExplicitAutograd")
register_decomposition(torch.ops.thimble.cached_attention.default)(cached_attention)


@torch.library.register_fake("thimble::cached_attention", lib=_library)
def _cached_attention_fake(query: Tensor, *_: object, **__: object) -> Tensor:
    return torch.empty_like(query, memory_format=torch.contiguous_format)
