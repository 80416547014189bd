"""The gated short convolution: a mixer whose memory is its last few inputs."""

import torch
from torch import Tensor, nn

from exporter.models.cached_convolution import gated_convolution
from exporter.models.context import CachedContext, Context
from exporter.models.spec import ConvolutionSpec, Norms
from quant.protocols import Block, Part


class ShortConvolution(nn.Module):
    """out(C * conv(B * x)), with B, C and x parts of one projection (LFM2, Liquid AI, 2025)."""

    state: Tensor

    def __init__(self, spec: ConvolutionSpec, hidden_size: int) -> None:
        super().__init__()
        size, kernel, bias = hidden_size, spec.kernel_size, spec.bias
        self.in_proj = nn.Linear(size, 3 * size, bias)
        self.conv = nn.Conv1d(size, size, kernel, groups=size, bias=bias)  # (size, 1, kernel_size)
        self.out_proj = nn.Linear(size, size, bias)

    def setup_cache(self, max_context_len: int, batch: int = 1) -> None:
        size, _, kernel = self.conv.weight.shape
        self.register_buffer("state", torch.zeros(batch, kernel - 1, size), persistent=False)

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        parts = self.in_proj(x)  # (batch, seq_len, 3 * hidden_size)
        if isinstance(context, CachedContext):
            out = torch.ops.thimble.short_convolution(
                parts, self.conv.weight, self.conv.bias, self.state, context.start_pos
            )
        else:
            out, _ = gated_convolution(parts, self.conv.weight, self.conv.bias)
        return self.out_proj(out)

    def block(self, path: str, norms: Norms) -> Block:
        """Returns the description that quantization uses; `path` is the block's place in its
        layer."""
        parts, out = f"{path}.in_proj", f"{path}.out_proj"
        return Block(
            module=path,
            norm=norms.before,
            readers=(Part(parts, (parts,)),),
            last=Part(out, (out,)),
            after=norms.after,
            feeds_last=None,
            heads=None,
        )
