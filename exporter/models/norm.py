"""The norms of these decoders: RMSNorm, and LayerNorm in older ones."""

import torch
from torch import Tensor, nn

from exporter.models.spec import DecoderSpec


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


def stream_norm(spec: DecoderSpec) -> nn.Module:
    """Returns a norm of hidden states, of the decoder's kind."""
    if spec.norm == "rms":
        return RMSNorm(spec.hidden_size, spec.rms_norm_eps)
    has_bias = spec.norm == "layer_with_bias"
    return nn.LayerNorm(spec.hidden_size, spec.rms_norm_eps, bias=has_bias)
