"""The decoder that is exported: one module tree, built from a spec.

Modules and parameters carry their Hugging Face names. `forward` is the program that gets captured;
`logits` computes every position of a batch without a cache, for training, calibration and
measurement.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

import exporter.models.rotary_operator  # noqa: F401  (defines torch.ops.thimble.rotary_rows)
from exporter.errors import ExportError
from exporter.models.attention import Attention, SharedAttention
from exporter.models.context import CachedContext, Context
from exporter.models.convolution import ShortConvolution
from exporter.models.delta import GatedDeltaNet
from exporter.models.experts import Experts
from exporter.models.layer_input import LayerInput, LayerInputTable
from exporter.models.mlp import MLP
from exporter.models.norm import stream_norm
from exporter.models.rotary_tables import Rope, both_rope_tables, rope_table
from exporter.models.spec import (
    ConvolutionSpec,
    DecoderSpec,
    DeltaSpec,
    FeedForwardSpec,
    MlpSpec,
    Norms,
)
from exporter.models.text_attention import TextAttention
from quant.protocols import Block, WeightSource

MixerModule = Attention | SharedAttention | ShortConvolution | GatedDeltaNet

LAYER_INPUTS = "layer_inputs"  # the module's name in the decoder
_INPUT_NORMS = Norms(None, "post_per_layer_input_norm")
AnyContext = TypeVar("AnyContext", Context, CachedContext)


class DecoderLayer(nn.Module):
    """Blocks, each x = x + after(module(norm(x), context)): a mixer, a feed-forward part and, in
    some models, one that takes the layer's own input in. A learned number may multiply the last.
    Where the first two are parallel, both read the layer's input; a shared expert reads what the
    feed-forward part does."""

    def __init__(self, decoder: DecoderSpec, index: int) -> None:
        super().__init__()
        layer, size = decoder.layers[index], decoder.hidden_size
        name, mixer = _mixer(decoder, index)
        feed_forward = _feed_forward(layer.feed_forward, size)
        self._mixer = self._add(decoder, name, mixer, layer.mixer_norms)
        self._mlp = self._add(decoder, "mlp", feed_forward, layer.feed_forward_norms)
        self._shared: Block | None = None
        if layer.shared_expert is not None:
            shared = MLP(layer.shared_expert, size)
            self._shared = self._add(decoder, "shared_expert", shared, layer.feed_forward_norms)
            self._mlp = replace(self._mlp, branch="opens")
            self._shared = replace(self._shared, branch="closes")
        if layer.parallel:
            self._mixer = replace(self._mixer, branch="opens")
            self._mlp = replace(self._mlp, branch="closes")
        self._input: Block | None = None
        if decoder.layer_input is not None:
            taken = LayerInput(decoder.layer_input, index, size)
            self._input = self._add(decoder, "per_layer_input", taken, _INPUT_NORMS)
        self.scaled = layer.scaled
        if layer.scaled:
            self.layer_scalar = nn.Parameter(torch.ones(1))

    def _add(
        self,
        decoder: DecoderSpec,
        name: str,
        module: MixerModule | MLP | Experts | LayerInput,
        norms: Norms,
    ) -> Block:
        """Registers a block's module between its norms."""
        if norms.before is not None and norms.before not in self._modules:
            self.add_module(norms.before, stream_norm(decoder))
        self.add_module(name, module)
        if norms.after is not None:
            self.add_module(norms.after, stream_norm(decoder))
        return module.block(name, norms)

    def blocks(self) -> Sequence[Block]:
        """Returns the layer's blocks in the order of computation."""
        blocks = [self._mixer, self._mlp]
        if self._shared is not None:
            blocks.append(self._shared)
        if self._input is not None:
            blocks.append(self._input)
        if self.scaled:
            blocks[-1] = replace(blocks[-1], times="layer_scalar")
        return blocks

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        before = x
        x = x + self._run(self._mixer, x, context)
        before = before if self._mlp.branch == "closes" else x
        x = x + self._run(self._mlp, before, context)
        if self._shared is not None:
            x = x + self._run(self._shared, before, context)
        if self._input is not None:
            x = x + self._run(self._input, x, context)
        return x * self.layer_scalar if self.scaled else x

    def _run(self, block: Block, x: Tensor, context: Context | CachedContext) -> Tensor:
        """Returns what a block adds to the hidden states."""
        if block.norm is not None:
            x = self.get_submodule(block.norm)(x)
        x = self.get_submodule(block.module)(x, context)
        return x if block.after is None else self.get_submodule(block.after)(x)


def _mixer(decoder: DecoderSpec, index: int) -> tuple[str, MixerModule]:
    """Returns the name and the module of a layer's mixer."""
    mixer = decoder.layers[index].mixer
    size, eps, tables = decoder.hidden_size, decoder.rms_norm_eps, decoder.rotary_tables
    if isinstance(mixer, ConvolutionSpec):
        return "conv", ShortConvolution(mixer, size)
    if isinstance(mixer, DeltaSpec):
        return "linear_attn", GatedDeltaNet(mixer, size, eps)
    key_rope = None if mixer.rotary is None else tables.index(mixer.rotary)
    query_rope = key_rope if mixer.query_rotary is None else tables.index(mixer.query_rotary)
    if mixer.shares is not None:
        return "self_attn", SharedAttention(mixer, size, eps, query_rope)
    if mixer.text is not None:
        return "self_attn", TextAttention(mixer, size, eps, query_rope, key_rope)
    kept_as = index if index in decoder.shared_layers else None
    return "self_attn", Attention(mixer, size, eps, query_rope, key_rope, kept_as)


def _embedding(vocab_size: int, hidden_size: int) -> nn.Embedding:
    """Draws no weights on the meta device, which would import PyTorch's compilers: seconds."""
    weight = torch.empty(vocab_size, hidden_size)
    if weight.is_meta:
        return nn.Embedding.from_pretrained(weight, freeze=False)
    return nn.Embedding(vocab_size, hidden_size)


class Decoder(nn.Module):
    """Embedding, layers and final norm: what Hugging Face checkpoints store under `model.`."""

    def __init__(self, spec: DecoderSpec) -> None:
        super().__init__()
        self.embed_tokens = _embedding(spec.vocab_size, spec.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(spec, index) for index in range(len(spec.layers)))
        self.norm = stream_norm(spec)
        if spec.layer_input is not None:
            shape = len(spec.layers), spec.hidden_size, spec.rms_norm_eps
            self.layer_inputs = LayerInputTable(spec.layer_input, *shape)
        self._tables = len(spec.rotary_tables)
        self._original: int | None = None

    def setup_ropes(self, tables: Sequence[Rope], original: int | None = None) -> None:
        """Registers the rotary tables of all positions as rope_cos, rope_sin, rope_cos_1, ...

        Args:
            original: the longest text that uses the first part of each, as both_rope_tables()
                returns them; None: tables have one part.
        """
        self._original = original
        for index, (cos, sin) in enumerate(tables):
            self.register_buffer(_numbered("rope_cos", index), cos, persistent=False)
            self.register_buffer(_numbered("rope_sin", index), sin, persistent=False)

    def ropes(self, start_pos: int, seq_len: int) -> tuple[Rope, ...]:
        """Returns each table's rows for positions start_pos .. start_pos + seq_len - 1."""

        def rows(table: Tensor) -> Tensor:
            if self._original is None:
                return table.narrow(0, start_pos, seq_len)
            return torch.ops.thimble.rotary_rows(table, start_pos, seq_len, self._original)

        return tuple((rows(cos), rows(sin)) for cos, sin in self.tables())

    def tables(self) -> tuple[Rope, ...]:
        """Returns the rotary tables of all positions."""
        return tuple(
            (
                self.get_buffer(_numbered("rope_cos", index)),
                self.get_buffer(_numbered("rope_sin", index)),
            )
            for index in range(self._tables)
        )


class CausalLM(nn.Module):
    """A decoder with its head: from tokens to logits."""

    def __init__(self, config: DecoderSpec) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, config.head_bias)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        self.max_context_len = 0
        self._is_long = False  # whether the caches were computed with the second rotary tables

    def setup_cache(self, max_context_len: int, batch: int = 1) -> None:
        """Gives every layer a KV cache of `max_context_len` positions of each of `batch` sequences,
        or the state of its kind; `forward` needs it."""
        self.max_context_len = max_context_len
        original, tables = self.config.original_context, self.config.rotary_tables
        if original is None or max_context_len <= original:
            self.model.setup_ropes(self.context(max_context_len).ropes)
        else:
            both = [both_rope_tables(table, original, max_context_len) for table in tables]
            self.model.setup_ropes(both, original)
        for module in self.modules():
            if isinstance(module, MixerModule):
                module.setup_cache(max_context_len, batch)

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        """Runs tokens at positions input_pos, input_pos + 1, ... over the cache. If layers keep a
        state, input_pos is 0, or the position after the last call. If texts of two lengths have
        rotary tables of their own, the call at position 0 chooses, and another table needs another
        call from there on.

        Args:
            tokens: int64 (batch, seq_len); a program is captured of one sequence.
            input_pos: int64 (1,), the position of the first token.

        Returns:
            float32 (batch, vocab_size): the logits after the last token.

        Raises:
            ExportError: the text passes the length at which its rotary table changes.
        """
        seq_len = tokens.shape[1]
        start_pos = cast(int, input_pos.item())
        torch._check(start_pos >= 0)
        torch._check(start_pos + seq_len <= self.max_context_len)
        if not torch.compiler.is_exporting():
            self._check_table(start_pos, seq_len)
        context = CachedContext(self.model.ropes(start_pos, seq_len), start_pos, {})
        x = self.embed(tokens)  # (1, seq_len, hidden_size)
        context = self._with_inputs(context, tokens, x)
        for index, layer in enumerate(self.model.layers):
            x = layer(x, context)
            x = self.behind(index, x, tokens)
        return self.head(x[:, -1])

    def _check_table(self, start_pos: int, seq_len: int) -> None:
        """Refuses a call whose rotary table is not that of the caches."""
        original = self.config.original_context
        if original is None:
            return
        is_long = start_pos + seq_len > original
        if start_pos == 0:
            self._is_long = is_long
        elif is_long != self._is_long:
            raise ExportError(
                f"A text of {start_pos + seq_len} tokens and the {start_pos} in the cache have "
                f"different rotary tables, which change at {original}: run the text again from 0."
            )

    def embed(self, tokens: Tensor) -> Tensor:
        """Maps token ids (batch, seq_len) to hidden states (batch, seq_len, hidden_size)."""
        return self.scale_embedding(self.model.embed_tokens(tokens))

    def behind(self, index: int, x: Tensor, tokens: Tensor) -> Tensor:
        """Maps the hidden states that a layer returns to those that the next one reads."""
        return x

    def scale_embedding(self, rows: Tensor) -> Tensor:
        """Maps rows of the embedding (..., hidden_size) to hidden states."""
        scale = self.config.embedding_scale
        return rows if scale is None else rows * scale

    def context(self, seq_len: int) -> Context:
        """Returns the layers' context for positions 0 .. seq_len - 1."""
        tables = self.config.rotary_tables
        return Context(tuple(rope_table(table, seq_len) for table in tables))

    @property
    def reads_text(self) -> bool:
        """Whether layers need more than `context` knows: see `text_context`."""
        return bool(self.config.shared_layers) or self.config.layer_input is not None

    def text_context(
        self, context: Context, tokens: Tensor, hidden: Tensor, weights: WeightSource | None = None
    ) -> Context:
        """Returns the layers' context of some sequences, which go through all layers in order.

        Args:
            context: of their positions.
            tokens: int64 (batch, seq_len), on the CPU.
            hidden: in front of the first layer, (batch, seq_len, hidden_size).
            weights: where what is outside the layers is read, as floats; None: the model's own.
        """
        context = context._replace(kept={})
        if self.config.layer_input is None:
            return context
        inputs = self.model.layer_inputs.layer_by_layer(
            f"model.{LAYER_INPUTS}.", tokens, hidden.clone(), weights
        )
        return context._replace(inputs=inputs)

    def _with_inputs(self, context: AnyContext, tokens: Tensor, x: Tensor) -> AnyContext:
        """Returns the context with the layers' own inputs, if the model has them."""
        if self.config.layer_input is None:
            return context
        return context._replace(inputs=self.own_inputs(tokens, x))

    def own_inputs(self, tokens: Tensor, x: Tensor) -> Tensor:
        """Returns the layers' own inputs, as LayerInputTable makes them."""
        return cast(Tensor, self.model.layer_inputs(tokens, x))

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
        x, context = self.embed(tokens), self.context(tokens.shape[1])._replace(kept={})
        context = self._with_inputs(context, tokens, x)
        for index, layer in enumerate(self.model.layers):
            x = layer(x, context)
            x = self.behind(index, x, tokens)
        return self.head(x)


def _feed_forward(spec: FeedForwardSpec, hidden_size: int) -> MLP | Experts:
    return MLP(spec, hidden_size) if isinstance(spec, MlpSpec) else Experts(spec, hidden_size)


def _numbered(name: str, index: int) -> str:
    return f"{name}_{index}" if index else name
