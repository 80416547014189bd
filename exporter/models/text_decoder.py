"""A decoder in two parts, by the names of stock ExecuTorch's MultimodalRunner: between them, rows
of pictures or sound can stand beside those of tokens."""

from typing import cast

import torch
from torch import Tensor, nn

from exporter.models.context import CachedContext
from exporter.models.decoder import CausalLM

TOKEN_EMBEDDING, TEXT_DECODER = "token_embedding", "text_decoder"


class _Part(CausalLM):
    """A part of a model: the same modules, by the same names."""

    def __init__(self, whole: CausalLM) -> None:
        nn.Module.__init__(self)
        self.config = whole.config
        self.model, self.lm_head = whole.model, whole.lm_head
        self.max_context_len = whole.max_context_len


class TokenEmbedding(_Part):
    def forward(self, tokens: Tensor) -> Tensor:  # type: ignore[override]  # it has no position
        """Maps token ids int64 (1, seq_len) to hidden states (1, seq_len, hidden_size)."""
        return self.embed(tokens)


class TextDecoder(_Part):
    """The decoder behind the embedding, over the cache of the whole model."""

    def forward(self, hidden: Tensor, input_pos: Tensor) -> Tensor:
        """
        Args:
            hidden: float32 (1, seq_len, hidden_size), in front of the first layer.
            input_pos: int64 (1,), the position of the first row.

        Returns:
            float32 (1, vocab_size): the logits after the last row.
        """
        seq_len = hidden.shape[1]
        start_pos = cast(int, input_pos.item())
        torch._check(start_pos >= 0)
        torch._check(start_pos + seq_len <= self.max_context_len)
        context = CachedContext(self.model.ropes(start_pos, seq_len), start_pos, {})
        for layer in self.model.layers:
            hidden = layer(hidden, context)
        return self.head(hidden[:, -1])
