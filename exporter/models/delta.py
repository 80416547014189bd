"""The gated delta rule: a mixer whose memory is a matrix for each head."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.models.cached_delta import delta_rule
from exporter.models.context import CachedContext, Context
from exporter.models.norm import RMSNorm
from exporter.models.spec import DeltaSpec, Norms
from quant.protocols import Block, Part

_AT_ONCE = 64  # positions


class GatedDeltaNet(nn.Module):
    """out(norm(delta_rule(conv(qkv(x)))) * silu(z(x))) (Yang, Kautz and Hatamizadeh, 2024)."""

    inputs: Tensor
    state: Tensor

    def __init__(self, spec: DeltaSpec, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.heads = spec.num_value_heads, spec.value_head_dim
        self.state_shape = spec.num_value_heads, spec.key_head_dim, spec.value_head_dim
        mixed, values = spec.mixed_size, spec.num_value_heads * spec.value_head_dim
        self.in_proj_qkv = nn.Linear(hidden_size, mixed, bias=False)
        self.in_proj_z = nn.Linear(hidden_size, values, bias=False)
        self.in_proj_b = nn.Linear(hidden_size, spec.num_value_heads, bias=False)
        self.in_proj_a = nn.Linear(hidden_size, spec.num_value_heads, bias=False)
        self.conv1d = nn.Conv1d(mixed, mixed, spec.kernel_size, groups=mixed, bias=False)
        self.dt_bias = nn.Parameter(torch.ones(spec.num_value_heads))
        self.A_log = nn.Parameter(torch.zeros(spec.num_value_heads))
        self.norm = RMSNorm(spec.value_head_dim, eps)
        self.out_proj = nn.Linear(values, hidden_size, bias=False)

    def setup_cache(self, max_context_len: int, batch: int = 1) -> None:
        mixed, _, kernel = self.conv1d.weight.shape
        self.register_buffer("inputs", torch.zeros(batch, kernel - 1, mixed), persistent=False)
        self.register_buffer("state", torch.zeros(batch, *self.state_shape), persistent=False)

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        qkv = self.in_proj_qkv(x)
        z = self.in_proj_z(x)
        b = self.in_proj_b(x)
        a = self.in_proj_a(x)
        rule = self.conv1d.weight, self.A_log, self.dt_bias
        if isinstance(context, CachedContext):
            out = torch.ops.thimble.gated_delta_rule(
                qkv, a, b, *rule, self.inputs, self.state, context.start_pos
            )
        else:
            out = self._mix(qkv, a, b)
        out = self.norm(out.view(*x.shape[:2], *self.heads)).flatten(2)
        return self.out_proj(out * F.silu(z))

    def _mix(self, qkv: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Computes the rule within complete sequences, some positions at a time: its work grows
        with the square of these."""
        rule = self.conv1d.weight, self.A_log, self.dt_bias
        inputs = qkv.new_zeros(len(qkv), self.conv1d.weight.shape[2] - 1, qkv.shape[2])
        state = qkv.new_zeros(len(qkv), *self.state_shape)
        outputs = []
        for start in range(0, qkv.shape[1], _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            out, rows, state = delta_rule(
                qkv[:, here], a[:, here], b[:, here], *rule, inputs, state
            )
            inputs = rows[:, -inputs.shape[1] :]
            outputs.append(out)
        return torch.cat(outputs, dim=1)

    def block(self, path: str, norms: Norms) -> Block:
        """Returns the description that quantization uses; `path` is the block's place in its
        layer."""
        readers = tuple(f"{path}.in_proj_{part}" for part in ("qkv", "z", "b", "a"))
        out = f"{path}.out_proj"
        return Block(
            module=path,
            norm=norms.before,
            readers=(Part(f"{path}.in_proj", readers),),
            last=Part(out, (out,)),
            after=norms.after,
            feeds_last=None,
            heads=None,
        )
