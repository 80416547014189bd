"""What models share whose decoder attends to what an encoder made of a sound."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from quant.modules import QuantizedEmbedding, QuantizedLinear


class CrossProjections(nn.Module):
    """An encoder, and what makes the keys and values of each layer of a decoder of its states.

    Args:
        layers: the decoder's.
    """

    def __init__(self, encoder: nn.Module, layers: Iterable[Any]) -> None:
        super().__init__()
        attentions = [layer.encoder_attn for layer in layers]
        self.encoder = encoder
        self.k_proj = nn.ModuleList(attention.k_proj for attention in attentions)
        self.v_proj = nn.ModuleList(attention.v_proj for attention in attentions)

    def project(self, states: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        return [proj(states) for proj in self.k_proj], [proj(states) for proj in self.v_proj]


def later_tokens(x: Tensor) -> Tensor:
    """What hides later tokens from each of x (1, tokens, size): (1, 1, tokens, tokens)."""
    return x.new_full((x.shape[1], x.shape[1]), -torch.inf).triu(1)[None, None]


def tied_head(table: nn.Embedding | QuantizedEmbedding) -> nn.Module:
    """The linear whose weight is a table's."""
    if isinstance(table, QuantizedEmbedding):
        return QuantizedLinear(table.quantized_weight, table.embedding_dim)
    head = nn.Linear(table.embedding_dim, table.num_embeddings, bias=False, device="meta")
    head.weight = table.weight
    return head
