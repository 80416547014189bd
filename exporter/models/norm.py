"""The norms of these decoders: RMSNorm, and LayerNorm in older ones."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.models.spec import AttentionSpec, DecoderSpec


class RMSNorm(nn.Module):
    """y = x / rms(x) * weight over the last dimension (Zhang and Sennrich, 2019)."""

    def __init__(self, size: int, eps: float, weighted: bool = True) -> None:
        """weighted: otherwise all weights are 1, and none is stored."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size)) if weighted else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return normed if self.weight is None else normed * self.weight


class HeadsLayerNorm(nn.Module):
    """LayerNorm of each head of (batch, seq_len, heads, head_dim), each with its own weight."""

    def __init__(self, heads: int, head_dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(heads * head_dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        normed = F.layer_norm(x, x.shape[-1:], eps=self.eps).flatten(2)
        return (normed * self.weight).view(x.shape)


def query_or_key_norm(spec: AttentionSpec, heads: int, eps: float) -> nn.Module:
    """Returns the norm of as many heads, of the kind that `spec.qk_norm` names."""
    match spec.qk_norm:
        case "layer":
            return nn.LayerNorm(spec.head_dim, eps)
        case "layer_by_head":
            return HeadsLayerNorm(heads, spec.head_dim, eps)
        case "rows":
            return RMSNorm(heads * spec.head_dim, eps)
    return RMSNorm(spec.head_dim, eps)


def stream_norm(spec: DecoderSpec) -> nn.Module:
    """Returns a norm of hidden states, of the decoder's kind."""
    if spec.norm == "rms":
        return RMSNorm(spec.hidden_size, spec.rms_norm_eps)
    has_bias = spec.norm == "layer_with_bias"
    return nn.LayerNorm(spec.hidden_size, spec.rms_norm_eps, bias=has_bias)
