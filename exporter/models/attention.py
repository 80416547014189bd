"""The attention block: grouped queries; cache, window and rotary embedding are optional."""

import torch
from torch import Tensor, nn

from exporter.models.cached_attention import attend
from exporter.models.context import CachedContext, Context
from exporter.models.int8_heads import in_int8, rotated_in_int8, turned
from exporter.models.norm import RMSNorm, query_or_key_norm
from exporter.models.rotary_tables import Rope, apply_rope
from exporter.models.spec import AttentionSpec, Norms
from quant.protocols import Block, Part


class Attention(nn.Module):
    """Grouped-query attention; after `setup_cache`, also over the positions of earlier calls."""

    k_cache: Tensor
    v_cache: Tensor

    def __init__(
        self,
        spec: AttentionSpec,
        hidden_size: int,
        eps: float,
        query_rope: int | None = None,
        key_rope: int | None = None,
        kept_as: int | None = None,
    ) -> None:
        """
        Args:
            eps: epsilon of the norms of queries and keys.
            query_rope, key_rope: the indices of the context's rotary tables; None: no rotation.
            kept_as: the layer's index, if others attend to its keys and values; else None.
        """
        super().__init__()
        self.head_dim = spec.head_dim
        self.num_key_value_heads = spec.num_key_value_heads
        self.own_values = (
            spec.num_key_value_heads == spec.num_attention_heads
        )  # a key/value head for each query head
        self.scale = spec.head_dim**-0.5 if spec.scale is None else spec.scale
        self.window = spec.window
        self.query_rope, self.key_rope = query_rope, key_rope
        self.soft_cap = spec.soft_cap
        self.sinks = nn.Parameter(torch.zeros(spec.num_attention_heads)) if spec.sinks else None
        self.int8 = spec.int8
        query_size = spec.num_attention_heads * spec.head_dim
        key_size = spec.num_key_value_heads * spec.head_dim
        self.q_proj = nn.Linear(hidden_size, query_size, spec.bias)
        self.k_proj = nn.Linear(hidden_size, key_size, spec.bias)
        self.v_proj = None if spec.values_are_keys else nn.Linear(hidden_size, key_size, spec.bias)
        if spec.gate is not None:
            by_number = spec.gate == "numbers"
            gates = query_size if by_number else spec.num_attention_heads
            self.gate_proj = nn.Linear(hidden_size, gates, spec.bias and by_number)
        self.gate = spec.gate
        self.o_proj = nn.Linear(query_size, hidden_size, spec.out_bias)
        if spec.qk_norm is not None:
            self.q_norm = query_or_key_norm(spec, spec.num_attention_heads, eps)
            self.k_norm = query_or_key_norm(spec, spec.num_key_value_heads, eps)
        self.qk_norm = spec.qk_norm
        self.v_norm = RMSNorm(spec.head_dim, eps, weighted=False) if spec.value_norm else None
        self.kept_as = kept_as

    def setup_cache(self, max_context_len: int, batch: int = 1) -> None:
        shape = (batch, max_context_len, self.num_key_value_heads, self.head_dim)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        heads = (*x.shape[:2], -1, self.head_dim)
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = k if self.v_proj is None else self.v_proj(x)
        gate = None if self.gate is None else self.gate_proj(x)
        if self.qk_norm == "rows":
            q, k = self.q_norm(q), self.k_norm(k)
        q = q.view(heads)  # (batch, seq_len, num_attention_heads, head_dim)
        k = k.view(heads)  # (batch, seq_len, num_key_value_heads, head_dim)
        v = v.view(heads)
        if self.qk_norm in ("heads", "layer", "layer_by_head"):
            q, k = self.q_norm(q), self.k_norm(k)
        if self.v_norm is not None:
            v = self.v_norm(v)
        if self.query_rope is not None and self.key_rope is not None:
            queries, keys = context.ropes[self.query_rope], context.ropes[self.key_rope]
            q, k = self._rotate(q, queries), self._rotate(k, keys)
        if self.qk_norm == "rotated_heads":
            q, k = self.q_norm(q), self.k_norm(k)
        if isinstance(context, CachedContext):
            out = torch.ops.thimble.cached_attention(
                q,
                k,
                v,
                self.k_cache,
                self.v_cache,
                context.start_pos,
                self.scale,
                self.window,
                self.soft_cap,
                self.sinks,
                _in_int8(self),
            )
            self._keep(self.k_cache, self.v_cache, context)
        else:
            int8 = _in_int8(self)
            if int8:  # rotated queries and keys have the same products
                q, k, v = in_int8(turned(q)), in_int8(turned(k)), in_int8(v)
            out = self._attend(q, k, v)
            if self.kept_as is not None:
                self._keep(turned(k) if int8 else k, v, context)
        if gate is not None and self.gate == "heads":
            out = out * torch.sigmoid(gate).view(*gate.shape, 1)
            gate = None
        out = out.flatten(2)
        return self.o_proj(out if gate is None else torch.sigmoid(gate) * out)

    def _rotate(self, x: Tensor, rope: Rope) -> Tensor:
        return apply_rope(x, rope)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attends within complete sequences."""
        mask = window_mask(q, self.window)
        return attend(q, k, v, mask, self.scale, self.soft_cap, self.sinks)

    def _keep(self, keys: Tensor, values: Tensor, context: Context | CachedContext) -> None:
        """Gives keys and values to later layers that attend to them."""
        if self.kept_as is not None and context.kept is not None:
            context.kept[self.kept_as] = keys, values

    def block(self, path: str, norms: Norms) -> Block:
        """Returns the description that quantization uses; `path` is the block's place in its
        layer."""
        q, k, v, o = (f"{path}.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj"))
        own = (q, k) if self.v_proj is None else (q, k, v)
        alone = self.v_proj is not None and self.v_norm is None and self.kept_as is None
        joins = alone and self.qk_norm != "rows"
        readers: tuple[Part, ...] = (Part(f"{path}.qkv_proj", own, joins=joins),)
        if self.gate is not None:
            gate = f"{path}.gate_proj"
            readers += (Part(gate, (gate,)),)
        return Block(
            module=path,
            norm=norms.before,
            readers=readers,
            last=Part(o, (o,)),
            after=norms.after,
            feeds_last=v if self.own_values and self.v_norm is None else None,
            heads=None if self.gate is not None or self.v_norm is not None else (v, self.head_dim),
            leaves=0 if self.kept_as is None else 2 * self.num_key_value_heads * self.head_dim,
        )


class SharedAttention(nn.Module):
    """Attention to the keys and values of an earlier layer: it makes queries alone."""

    def __init__(
        self, spec: AttentionSpec, hidden_size: int, eps: float, query_rope: int | None
    ) -> None:
        """As those of `Attention`."""
        super().__init__()
        assert spec.shares is not None and spec.qk_norm == "heads" and spec.gate is None
        self.shares = spec.shares
        self.head_dim = spec.head_dim
        self.scale = spec.head_dim**-0.5 if spec.scale is None else spec.scale
        self.window = spec.window
        self.query_rope = query_rope
        self.soft_cap = spec.soft_cap
        self.int8 = spec.int8
        query_size = spec.num_attention_heads * spec.head_dim
        self.q_proj = nn.Linear(hidden_size, query_size, spec.bias)
        self.o_proj = nn.Linear(query_size, hidden_size, spec.out_bias)
        self.q_norm = RMSNorm(spec.head_dim, eps)

    def setup_cache(self, max_context_len: int, batch: int = 1) -> None:
        """It has none of its own."""

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        assert context.kept is not None
        keys, values = context.kept[self.shares]
        q = self.q_proj(x)
        q = q.view(*x.shape[:2], -1, self.head_dim)  # (batch, seq_len, heads, head_dim)
        q = self.q_norm(q)
        if self.query_rope is not None:
            q = apply_rope(q, context.ropes[self.query_rope])
        if isinstance(context, CachedContext):
            out = torch.ops.thimble.shared_attention(
                q,
                keys,
                values,
                context.start_pos,
                self.scale,
                self.window,
                self.soft_cap,
                _in_int8(self),
            )
        else:
            if _in_int8(self):
                q = rotated_in_int8(q)
            mask = window_mask(q, self.window)
            out = attend(q, keys, values, mask, self.scale, self.soft_cap, None)
        return self.o_proj(out.flatten(2))

    def block(self, path: str, norms: Norms) -> Block:
        """As that of `Attention`."""
        q, o = f"{path}.q_proj", f"{path}.o_proj"
        return Block(
            module=path,
            norm=norms.before,
            readers=(Part(q, (q,)),),
            last=Part(o, (o,)),
            after=norms.after,
            feeds_last=None,
            heads=None,
        )


def _in_int8(attention: Attention | SharedAttention) -> bool:
    """Whether heads are rounded to int8: not while the linears that make them are floats."""
    return attention.int8 and not isinstance(attention.q_proj, nn.Linear)


def window_mask(q: Tensor, window: int | None) -> Tensor | None:
    """Returns which positions of its own sequence each query of q (batch, seq_len, heads, head_dim)
    sees: bool (seq_len, seq_len); None: its own and all earlier ones."""
    if window is None:
        return None
    pos = torch.arange(q.shape[1], device=q.device)
    behind = pos[:, None] - pos  # (seq_len, seq_len)
    return (behind >= 0) & (behind < window)
