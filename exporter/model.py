"""The decoder that is exported: one module tree for the Llama family, driven by its config.

Modules and parameters carry their Hugging Face names, so a checkpoint's tensor names are this
module's state-dict names. `forward` is the program that gets captured; `logits` computes every
position of a batch without a cache, for training, calibration and measuring.
"""

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import exporter.attention  # noqa: F401  (defines torch.ops.thimble.cached_attention)
from exporter.config import ModelConfig, RopeScaling

Rope = tuple[Tensor, Tensor]  # cosines, signed sines: (seq_len, 1, head_dim)


class RMSNorm(nn.Module):
    """y = x / rms(x) * weight over the last dimension (Zhang and Sennrich, 2019)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return normed * self.weight


def rope_tables(config: ModelConfig, length: int) -> Rope:
    """Cosines and sines of rotary position embedding (Su et al., 2021), half-split as in
    Hugging Face checkpoints: two tensors (length, 1, head_dim), float32. The sines carry the
    rotation's sign, minus in the first half, so that applying them negates nothing."""
    pairs = torch.arange(0, config.head_dim, 2, dtype=torch.float32)
    freqs = 1.0 / config.rope_theta ** (pairs / config.head_dim)  # (head_dim / 2)
    if config.rope_scaling is not None:
        freqs = _scale_frequencies(freqs, config.rope_scaling)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), freqs).unsqueeze(1)
    cos, sin = angles.cos(), angles.sin()  # (length, 1, head_dim / 2)
    return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def _scale_frequencies(freqs: Tensor, scaling: RopeScaling) -> Tensor:
    """Llama 3.1's stretch: long wavelengths by `factor`, short ones not, smooth in between."""
    if scaling.rope_type == "linear":
        return freqs / scaling.factor
    turns = scaling.original_max_position_embeddings * freqs / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    keep = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return freqs * (keep + (1 - keep) / scaling.factor)


def apply_rope(x: Tensor, rope: Rope) -> Tensor:
    """Rotates x (batch, seq_len, heads, head_dim) by the angles of its positions."""
    cos, sin = rope
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((second, first), dim=-1) * sin


class Attention(nn.Module):
    """Grouped-query attention; with `setup_cache`, over positions of earlier calls too."""

    k_cache: Tensor
    v_cache: Tensor

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.num_key_value_heads = config.num_key_value_heads
        self.scale = config.head_dim**-0.5
        self.use_rope = layer not in config.no_rope_layers
        query_size = config.num_attention_heads * config.head_dim
        key_size = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, query_size, config.attention_bias)
        self.k_proj = nn.Linear(config.hidden_size, key_size, config.attention_bias)
        self.v_proj = nn.Linear(config.hidden_size, key_size, config.attention_bias)
        self.o_proj = nn.Linear(query_size, config.hidden_size, config.attention_out_bias)
        if config.qk_norm:
            self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
            self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.qk_norm = config.qk_norm

    def setup_cache(self, max_context_len: int) -> None:
        shape = (1, max_context_len, self.num_key_value_heads, self.head_dim)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)

    def forward(self, x: Tensor, rope: Rope, start_pos: int | None = None) -> Tensor:
        heads = (*x.shape[:2], -1, self.head_dim)
        q = self.q_proj(x).view(heads)  # (batch, seq_len, num_attention_heads, head_dim)
        k = self.k_proj(x).view(heads)  # (batch, seq_len, num_key_value_heads, head_dim)
        v = self.v_proj(x).view(heads)
        if self.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.use_rope:
            q, k = apply_rope(q, rope), apply_rope(k, rope)
        if start_pos is None:
            out = F.scaled_dot_product_attention(
                q.transpose(1, 2),
                k.transpose(1, 2),
                v.transpose(1, 2),
                is_causal=True,
                scale=self.scale,
                enable_gqa=True,
            ).transpose(1, 2)
        else:
            out = torch.ops.thimble.cached_attention(
                q, k, v, self.k_cache, self.v_cache, start_pos, self.scale
            )
        return self.o_proj(out.flatten(2))


class MLP(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x)) (Shazeer, 2020)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_proj = nn.Linear(hidden, inner, bias)
        self.up_proj = nn.Linear(hidden, inner, bias)
        self.down_proj = nn.Linear(inner, hidden, bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """One pre-norm transformer block."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, rope: Rope, start_pos: int | None = None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rope, start_pos)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Embedding, blocks, final norm: what Hugging Face checkpoints keep under `model.`."""

    rope_cos: Tensor
    rope_sin: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            DecoderLayer(config, layer) for layer in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class CausalLM(nn.Module):
    """A decoder with its head: tokens to logits."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        self.max_context_len = 0

    def setup_cache(self, max_context_len: int) -> None:
        """Gives every layer a KV cache of that many positions; `forward` needs it."""
        self.max_context_len = max_context_len
        cos, sin = rope_tables(self.config, max_context_len)
        self.model.register_buffer("rope_cos", cos, persistent=False)
        self.model.register_buffer("rope_sin", sin, persistent=False)
        for module in self.modules():
            if isinstance(module, Attention):
                module.setup_cache(max_context_len)

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        """Runs tokens at positions input_pos, input_pos + 1, ... over the cache.

        Args:
            tokens: int64 (1, seq_len).
            input_pos: int64 (1,), the position of the first token.

        Returns:
            float32 (1, vocab_size): the logits after the last token.
        """
        seq_len = tokens.shape[1]
        start_pos = cast(int, input_pos.item())
        torch._check(start_pos >= 0)
        torch._check(start_pos + seq_len <= self.max_context_len)
        rope = (
            self.model.rope_cos.narrow(0, start_pos, seq_len),
            self.model.rope_sin.narrow(0, start_pos, seq_len),
        )
        x = self.embed(tokens)  # (1, seq_len, hidden_size)
        for layer in self.model.layers:
            x = layer(x, rope, start_pos)
        return self.head(x[:, -1])

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids (batch, seq_len) to hidden states (batch, seq_len, hidden_size)."""
        return self.model.embed_tokens(tokens)

    def rope(self, seq_len: int) -> Rope:
        """The rotary tables of positions 0 .. seq_len - 1, as the layers take them."""
        return rope_tables(self.config, seq_len)

    def head(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., hidden_size) after the last layer to logits (..., vocab_size)."""
        return self.lm_head(self.model.norm(hidden))

    def logits(self, tokens: Tensor) -> Tensor:
        """Logits after every token of independent sequences, without the cache.

        Args:
            tokens: int64 (batch, seq_len).

        Returns:
            (batch, seq_len, vocab_size).
        """
        x, rope = self.embed(tokens), self.rope(tokens.shape[1])
        for layer in self.model.layers:
            x = layer(x, rope)
        return self.head(x)
