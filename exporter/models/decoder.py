"""The decoder that is exported: one module tree, built from a spec.

Modules and parameters carry their Hugging Face names. `forward` is the program that gets captured;
`logits` computes every position of a batch without a cache, for training, calibration and
measurement.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from exporter.models.attention import Attention
from exporter.models.context import CachedContext, Context
from exporter.models.convolution import ShortConvolution
from exporter.models.delta import GatedDeltaNet
from exporter.models.experts import Experts
from exporter.models.mlp import MLP
from exporter.models.norm import RMSNorm
from exporter.models.rope import Rope, rope_table
from exporter.models.spec import (
    ConvolutionSpec,
    DecoderSpec,
    DeltaSpec,
    FeedForwardSpec,
    LayerSpec,
    Mixer,
    MlpSpec,
    Norms,
)
from quant.protocols import Block

MixerModule = Attention | ShortConvolution | GatedDeltaNet


class DecoderLayer(nn.Module):
    """Two blocks, each x = x + after(module(norm(x), context))."""

    def __init__(self, decoder: DecoderSpec, layer: LayerSpec) -> None:
        super().__init__()
        size = decoder.hidden_size
        self._norm_size, self._eps = size, decoder.rms_norm_eps
        name, mixer = _mixer(decoder, layer.mixer)
        self._mixer = self._add(name, mixer, layer.mixer_norms)
        feed_forward = _feed_forward(layer.feed_forward, size)
        self._mlp = self._add("mlp", feed_forward, layer.feed_forward_norms)

    def _add(self, name: str, module: MixerModule | MLP | Experts, norms: Norms) -> Block:
        """Registers a block's module between its norms."""
        if norms.before is not None:
            self.add_module(norms.before, RMSNorm(self._norm_size, self._eps))
        self.add_module(name, module)
        if norms.after is not None:
            self.add_module(norms.after, RMSNorm(self._norm_size, self._eps))
        return module.block(name, norms)

    def blocks(self) -> Sequence[Block]:
        """Returns the layer's blocks in the order of computation."""
        return self._mixer, self._mlp

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        x = x + self._run(self._mixer, x, context)
        return x + self._run(self._mlp, x, context)

    def _run(self, block: Block, x: Tensor, context: Context | CachedContext) -> Tensor:
        """Returns what a block adds to the hidden states."""
        if block.norm is not None:
            x = self.get_submodule(block.norm)(x)
        x = self.get_submodule(block.module)(x, context)
        return x if block.after is None else self.get_submodule(block.after)(x)


def _mixer(decoder: DecoderSpec, mixer: Mixer) -> tuple[str, MixerModule]:
    """Returns the name and the module of a layer's mixer."""
    size, eps, tables = decoder.hidden_size, decoder.rms_norm_eps, decoder.rotary_tables
    if isinstance(mixer, ConvolutionSpec):
        return "conv", ShortConvolution(mixer, size)
    if isinstance(mixer, DeltaSpec):
        return "linear_attn", GatedDeltaNet(mixer, size, eps)
    key_rope = None if mixer.rotary is None else tables.index(mixer.rotary)
    query_rope = key_rope if mixer.query_rotary is None else tables.index(mixer.query_rotary)
    return "self_attn", Attention(mixer, size, eps, query_rope, key_rope)


class Decoder(nn.Module):
    """Embedding, layers and final norm: what Hugging Face checkpoints store under `model.`."""

    def __init__(self, spec: DecoderSpec) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(spec.vocab_size, spec.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(spec, layer) for layer in spec.layers)
        self.norm = RMSNorm(spec.hidden_size, spec.rms_norm_eps)
        self._tables = len(spec.rotary_tables)

    def setup_ropes(self, tables: Sequence[Rope]) -> None:
        """Registers the rotary tables of all positions as rope_cos, rope_sin, rope_cos_1, ..."""
        for index, (cos, sin) in enumerate(tables):
            self.register_buffer(_numbered("rope_cos", index), cos, persistent=False)
            self.register_buffer(_numbered("rope_sin", index), sin, persistent=False)

    def ropes(self, start_pos: int, seq_len: int) -> tuple[Rope, ...]:
        """Returns each table's rows for positions start_pos .. start_pos + seq_len - 1."""
        return tuple(
            (
                self.get_buffer(_numbered("rope_cos", index)).narrow(0, start_pos, seq_len),
                self.get_buffer(_numbered("rope_sin", index)).narrow(0, start_pos, seq_len),
            )
            for index in range(self._tables)
        )


class CausalLM(nn.Module):
    """A decoder with its head: from tokens to logits."""

    def __init__(self, config: DecoderSpec) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        self.max_context_len = 0

    def setup_cache(self, max_context_len: int, batch: int = 1) -> None:
        """Gives every layer a KV cache of `max_context_len` positions of each of `batch` sequences,
        or the state of its kind; `forward` needs it."""
        self.max_context_len = max_context_len
        self.model.setup_ropes(self.context(max_context_len).ropes)
        for module in self.modules():
            if isinstance(module, MixerModule):
                module.setup_cache(max_context_len, batch)

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        """Runs tokens at positions input_pos, input_pos + 1, ... over the cache. If layers keep a
        state, input_pos is 0, or the position after the last call.

        Args:
            tokens: int64 (batch, seq_len); a program is captured of one sequence.
            input_pos: int64 (1,), the position of the first token.

        Returns:
            float32 (batch, vocab_size): the logits after the last token.
        """
        seq_len = tokens.shape[1]
        start_pos = cast(int, input_pos.item())
        torch._check(start_pos >= 0)
        torch._check(start_pos + seq_len <= self.max_context_len)
        context = CachedContext(self.model.ropes(start_pos, seq_len), start_pos)
        x = self.embed(tokens)  # (1, seq_len, hidden_size)
        for layer in self.model.layers:
            x = layer(x, context)
        return self.head(x[:, -1])

    def embed(self, tokens: Tensor) -> Tensor:
        """Maps token ids (batch, seq_len) to hidden states (batch, seq_len, hidden_size)."""
        return self.scale_embedding(self.model.embed_tokens(tokens))

    def scale_embedding(self, rows: Tensor) -> Tensor:
        """Maps rows of the embedding (..., hidden_size) to hidden states."""
        scale = self.config.embedding_scale
        return rows if scale is None else rows * scale

    def context(self, seq_len: int) -> Context:
        """Returns the layers' context for positions 0 .. seq_len - 1."""
        tables = self.config.rotary_tables
        return Context(tuple(rope_table(table, seq_len) for table in tables))

    def head(self, hidden: Tensor) -> Tensor:
        """Maps hidden states (..., hidden_size) after the last layer to logits (...,
        vocab_size)."""
        return self.finish_logits(self.lm_head(self.model.norm(hidden)))

    def finish_logits(self, logits: Tensor) -> Tensor:
        """Applies what follows `lm_head` to each logit: the soft cap, if the model has one."""
        cap = self.config.logit_soft_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def logits(self, tokens: Tensor) -> Tensor:
        """Logits after every token of independent sequences, without the cache.

        Args:
            tokens: int64 (batch, seq_len).

        Returns:
            (batch, seq_len, vocab_size).
        """
        x, context = self.embed(tokens), self.context(tokens.shape[1])
        for layer in self.model.layers:
            x = layer(x, context)
        return self.head(x)


def _feed_forward(spec: FeedForwardSpec, hidden_size: int) -> MLP | Experts:
    return MLP(spec, hidden_size) if isinstance(spec, MlpSpec) else Experts(spec, hidden_size)


def _numbered(name: str, index: int) -> str:
    return f"{name}_{index}" if index else name
