"""A decoder in two parts, by the names of stock ExecuTorch's MultimodalRunner: between them, rows
of pictures or sound can stand beside those of tokens."""

from torch import Tensor, nn

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
    """The decoder behind the embedding, over the cache of the whole model: its first input is
    float32 (1, seq_len, row_size), the hidden states in front of the first layer, and then what is
    added to those behind the first layer, behind the second, and so on, as far as rows reach."""

    def __init__(self, whole: CausalLM, row_size: int) -> None:
        super().__init__(whole)
        self.row_size = row_size

    def embed(self, tokens: Tensor) -> Tensor:
        size = self.config.hidden_size
        return tokens if self.row_size == size else tokens[..., :size]

    def behind(self, index: int, x: Tensor, tokens: Tensor) -> Tensor:
        first = (index + 1) * self.config.hidden_size
        if first >= self.row_size:
            return x
        return x + tokens[..., first : first + self.config.hidden_size]
