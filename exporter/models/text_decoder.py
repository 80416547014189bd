"""A decoder in two parts, by the names of stock ExecuTorch's MultimodalRunner: between them, rows
of pictures or sound can stand beside those of tokens."""

from typing import cast

import torch
from torch import Tensor, nn

from exporter.models.decoder import CausalLM
from exporter.models.layer_input import LayerInputTable
from exporter.models.spec import DecoderSpec

TOKEN_EMBEDDING, TEXT_DECODER = "token_embedding", "text_decoder"


def token_row_size(config: DecoderSpec) -> int:
    """Returns how many numbers TokenEmbedding makes of a token."""
    own = config.layer_input
    return config.hidden_size + (0 if own is None else len(config.layers) * own.size)


class _Part(CausalLM):
    """A part of a model: the same modules, by the same names."""

    def __init__(self, whole: CausalLM) -> None:
        nn.Module.__init__(self)
        self.config = whole.config
        self.model, self.lm_head = whole.model, whole.lm_head
        self.max_context_len = whole.max_context_len


class TokenEmbedding(_Part):
    def forward(self, tokens: Tensor) -> Tensor:  # type: ignore[override]  # it has no position
        """Maps token ids int64 (1, seq_len) to hidden states (1, seq_len, hidden_size), and behind
        them what layers with inputs of their own know of a token, (1, seq_len, token_row_size)."""
        hidden = self.embed(tokens)
        if self.config.layer_input is None:
            return hidden
        return torch.cat([hidden, self.model.layer_inputs.rows(tokens)], -1)


class TextDecoder(_Part):
    """The decoder behind the embedding, over the cache of the whole model: its first input is
    float32 (1, seq_len, row_size), the hidden states in front of the first layer, and then what is
    added to those behind the first layer, behind the second, and so on, as far as rows reach; at
    the end, what layers with inputs of their own know of a token."""

    def __init__(self, whole: CausalLM, row_size: int) -> None:
        super().__init__(whole)
        self.row_size = row_size - (token_row_size(whole.config) - whole.config.hidden_size)

    def embed(self, tokens: Tensor) -> Tensor:
        size = self.config.hidden_size
        return tokens if tokens.shape[-1] == size else tokens[..., :size]

    def behind(self, index: int, x: Tensor, tokens: Tensor) -> Tensor:
        first = (index + 1) * self.config.hidden_size
        if first >= self.row_size:
            return x
        return x + tokens[..., first : first + self.config.hidden_size]

    def own_inputs(self, tokens: Tensor, x: Tensor) -> Tensor:
        table = cast(LayerInputTable, self.model.layer_inputs)
        return table.joined(table.projected(x), tokens[..., self.row_size :])
