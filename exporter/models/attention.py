"""The attention block: grouped queries; cache, window and rotary embedding are optional."""

import torch
from torch import Tensor, nn

from exporter.models.cached_attention import attend
from exporter.models.context import CachedContext, Context
from exporter.models.norm import RMSNorm
from exporter.models.rope import apply_rope
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
    ) -> None:
        """
        Args:
            eps: epsilon of the norms of queries and keys.
            query_rope, key_rope: the indices of the context's rotary tables; None: no rotation.
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
        query_size = spec.num_attention_heads * spec.head_dim
        key_size = spec.num_key_value_heads * spec.head_dim
        self.q_proj = nn.Linear(hidden_size, query_size, spec.bias)
        self.k_proj = nn.Linear(hidden_size, key_size, spec.bias)
        self.v_proj = nn.Linear(hidden_size, key_size, spec.bias)
        if spec.gated:
            self.gate_proj = nn.Linear(hidden_size, query_size, spec.bias)
        self.gated = spec.gated
        self.o_proj = nn.Linear(query_size, hidden_size, spec.out_bias)
        if spec.qk_norm is not None:
            over_heads = spec.qk_norm == "heads"
            self.q_norm = RMSNorm(spec.head_dim if over_heads else query_size, eps)
            self.k_norm = RMSNorm(spec.head_dim if over_heads else key_size, eps)
        self.qk_norm = spec.qk_norm

    def setup_cache(self, max_context_len: int, batch: int = 1) -> None:
        shape = (batch, max_context_len, self.num_key_value_heads, self.head_dim)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        heads = (*x.shape[:2], -1, self.head_dim)
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        gate = self.gate_proj(x) if self.gated else None
        if self.qk_norm == "rows":
            q, k = self.q_norm(q), self.k_norm(k)
        q = q.view(heads)  # (batch, seq_len, num_attention_heads, head_dim)
        k = k.view(heads)  # (batch, seq_len, num_key_value_heads, head_dim)
        v = v.view(heads)
        if self.qk_norm == "heads":
            q, k = self.q_norm(q), self.k_norm(k)
        if self.query_rope is not None and self.key_rope is not None:
            queries, keys = context.ropes[self.query_rope], context.ropes[self.key_rope]
            q, k = apply_rope(q, queries), apply_rope(k, keys)
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
            )
        else:
            out = self._attend(q, k, v)
        out = out.flatten(2)
        return self.o_proj(out if gate is None else torch.sigmoid(gate) * out)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attends within complete sequences: each query to its own and earlier positions."""
        mask = None
        if self.window is not None:
            pos = torch.arange(q.shape[1], device=q.device)
            behind = pos[:, None] - pos  # (seq_len, seq_len)
            mask = (behind >= 0) & (behind < self.window)
        return attend(q, k, v, mask, self.scale, self.soft_cap, self.sinks)

    def block(self, path: str, norms: Norms) -> Block:
        """Returns the description that quantization uses; `path` is the block's place in its
        layer."""
        q, k, v, o = (f"{path}.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj"))
        readers: tuple[Part, ...] = (Part(f"{path}.qkv_proj", (q, k, v)),)
        if self.gated:
            gate = f"{path}.gate_proj"
            readers += (Part(gate, (gate,)),)
        return Block(
            module=path,
            norm=norms.before,
            readers=readers,
            last=Part(o, (o,)),
            after=norms.after,
            feeds_last=v if self.own_values else None,
            heads=None if self.gated else (v, self.head_dim),
        )
