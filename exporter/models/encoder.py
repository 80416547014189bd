"""The encoder that is exported, with what makes one row of a text.

Modules carry the names of the decoder's where they do the same. `forward` is the program that gets
captured: of one text, which a runtime may repeat for several in a call.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from exporter.models.context import Context
from exporter.models.decoder import Decoder
from exporter.models.encoder_spec import (
    AnyEncoderSpec,
    DenseSpec,
    EmbeddingSpec,
    EncoderAttentionSpec,
    EncoderLayerSpec,
    EncoderSpec,
    StackSpec,
)
from exporter.models.mlp import ACTIVATIONS, MLP
from exporter.models.norm import stream_norm
from exporter.models.rotary_tables import rope_table
from exporter.models.spec import Norms
from quant.protocols import Block, Part

_LEAST_SQUARE = 1e-24  # as of the length 1e-12, by which torch divides at least


class EncoderAttention(nn.Module):
    """Attention within a text, with a bias everywhere."""

    def __init__(self, spec: EncoderAttentionSpec, hidden_size: int) -> None:
        super().__init__()
        self.head_dim, self.window = spec.head_dim, spec.window
        self.after = None if spec.window is None else spec.window - 1
        self.scale = spec.head_dim**-0.5
        size = spec.num_attention_heads * spec.head_dim
        self.q_proj = nn.Linear(hidden_size, size)
        self.k_proj = nn.Linear(hidden_size, size)
        self.v_proj = nn.Linear(hidden_size, size)
        self.o_proj = nn.Linear(size, hidden_size)

    def block(self, path: str, sum_norm: str) -> Block:
        """Returns the description that quantization uses."""
        q, k, v, o = (f"{path}.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj"))
        return Block(
            module=path,
            norm=None,
            readers=(Part(f"{path}.qkv_proj", (q, k, v), joins=True),),
            last=Part(o, (o,)),
            after=None,
            feeds_last=v,
            heads=(v, self.head_dim),
            sum_norm=sum_norm,
        )

    def forward(self, x: Tensor, context: Context) -> Tensor:
        heads = (*x.shape[:2], -1, self.head_dim)
        q, k, v = (proj(x).view(heads) for proj in (self.q_proj, self.k_proj, self.v_proj))
        out = torch.ops.thimble.segment_attention(q, k, v, self.scale, self.window, self.after)
        return self.o_proj(out.flatten(2))


class EncoderLayer(nn.Module):
    """Two blocks, each x = norm(x + block(x))."""

    def __init__(self, spec: EncoderLayerSpec, encoder: EncoderSpec) -> None:
        super().__init__()
        size, eps = encoder.hidden_size, encoder.layer_norm_eps
        self.self_attn = EncoderAttention(spec.attention, size)
        self.self_attn_layer_norm = nn.LayerNorm(size, eps)
        self.mlp = MLP(spec.feed_forward, size)
        self.mlp_layer_norm = nn.LayerNorm(size, eps)

    def blocks(self) -> Sequence[Block]:
        """Returns the layer's blocks in the order of computation."""
        mlp = self.mlp.block("mlp", Norms(None))
        attention = self.self_attn.block("self_attn", "self_attn_layer_norm")
        return attention, replace(mlp, sum_norm="mlp_layer_norm")

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = self.self_attn_layer_norm(x + self.self_attn(x, context))
        return self.mlp_layer_norm(x + self.mlp(x, context))


class Encoder(nn.Module):
    """From tokens to hidden states."""

    def __init__(self, spec: EncoderSpec) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(spec.vocab_size, spec.hidden_size)
        self.embed_positions = nn.Embedding(spec.max_position_embeddings, spec.hidden_size)
        self.embedding_layer_norm = nn.LayerNorm(spec.hidden_size, spec.layer_norm_eps)
        self.layers = nn.ModuleList(EncoderLayer(layer, spec) for layer in spec.layers)

    def setup_positions(self, max_seq_len: int) -> None:
        """It has learned all of its positions."""

    def context(self, seq_len: int) -> Context:
        """Returns the layers' context of texts of so many tokens."""
        return Context(())

    def embed(self, tokens: Tensor) -> Tensor:
        """Maps tokens (batch, seq_len) to what the first layer reads."""
        x = self.embed_tokens(tokens)  # (batch, seq_len, hidden_size)
        x = torch.ops.thimble.add_positions(x, self.embed_positions.weight)
        return self.embedding_layer_norm(x)

    def forward(self, tokens: Tensor) -> Tensor:
        x, context = self.embed(tokens), Context(())
        for layer in self.layers:
            x = layer(x, context)
        return x


class Stack(Decoder):
    """From tokens to hidden states, by a decoder's layers."""

    def __init__(self, spec: StackSpec) -> None:
        super().__init__(spec.decoder)
        self.spec = spec.decoder
        self.embedding_layer_norm = stream_norm(spec.decoder) if spec.embedding_norm else None

    def setup_positions(self, max_seq_len: int) -> None:
        """Makes the rotary tables of texts of up to so many tokens."""
        self.setup_ropes(self.context(max_seq_len).ropes)

    def context(self, seq_len: int) -> Context:
        """Returns the layers' context of texts of so many tokens."""
        return Context(tuple(rope_table(table, seq_len) for table in self.spec.rotary_tables))

    def embed(self, tokens: Tensor) -> Tensor:
        """Maps tokens (batch, seq_len) to what the first layer reads."""
        x = self.embed_tokens(tokens)  # (batch, seq_len, hidden_size)
        scale = self.spec.embedding_scale
        x = x if scale is None else x * scale
        return x if self.embedding_layer_norm is None else self.embedding_layer_norm(x)

    def forward(self, tokens: Tensor) -> Tensor:
        x, context = self.embed(tokens), Context(self.tables())
        for layer in self.layers:
            x = layer(x, context)
        return self.norm(x)


class Dense(nn.Module):
    """A linear of pooled rows, and its activation."""

    def __init__(self, spec: DenseSpec) -> None:
        super().__init__()
        self.linear = nn.Linear(spec.in_features, spec.out_features, spec.bias)
        self.activation = nn.Identity() if spec.activation is None else ACTIVATIONS[spec.activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.linear(x))


class EmbeddingModel(nn.Module):
    """An encoder and what makes one row of a text."""

    def __init__(self, encoder: AnyEncoderSpec, embedding: EmbeddingSpec) -> None:
        super().__init__()
        self.config, self.embedding = encoder, embedding
        self.model = Stack(encoder) if isinstance(encoder, StackSpec) else Encoder(encoder)
        self.dense = nn.ModuleList(map(Dense, embedding.dense))

    def setup_positions(self, max_seq_len: int) -> None:
        """Prepares the model, which may be on the meta device, for texts of up to so many
        tokens."""
        self.model.setup_positions(max_seq_len)

    def forward(self, tokens: Tensor) -> Tensor:
        """
        Args:
            tokens: int64 (batch, seq_len), of texts of one length; a program is captured of one.

        Returns:
            float32 (batch, width): the hidden size, or what the last linear makes.
        """
        row = torch.ops.thimble.pool(self.model(tokens), self.embedding.pooling)
        for dense in self.dense:
            row = dense(row)
        return normalized(row) if self.embedding.normalize else row


def normalized(x: Tensor) -> Tensor:
    """Divides rows (..., width) by their lengths: an RMSNorm, times a number."""
    width = x.shape[-1]
    normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + _LEAST_SQUARE / width)
    return normed * width**-0.5
