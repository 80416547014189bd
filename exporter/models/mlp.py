"""The feed-forward block, gated or not."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.models.context import CachedContext, Context
from exporter.models.spec import Activation, MlpSpec, Norms
from quant.protocols import Block, Part

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),  # Hendrycks and Gimpel, 2016
    "relu2": lambda x: F.relu(x) * F.relu(x),  # So et al., 2021
    "tanh": torch.tanh,
}


class XIELU(nn.Module):
    """alpha_p * x^2 + beta * x; of x <= 0, alpha_n * (exp(x) - 1 - x) + beta * x (Huang and
    Schlag, 2024)."""

    def __init__(self) -> None:
        super().__init__()
        self.alpha_p, self.alpha_n = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
        self.beta = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        positive, size = F.relu(x), F.relu(x * -1.0)
        grown = torch.expm1(size * -1.0) + size
        curved = positive * positive * self.alpha_p + grown * self.alpha_n
        return curved + x * self.beta


def clamped(gate: Tensor, up: Tensor, limit: float | None) -> tuple[Tensor, Tensor]:
    """Returns gate and up, of any shape, as MlpSpec's `limit` changes them."""
    return (gate, up) if limit is None else (gate.clamp(max=limit), up.clamp(-limit, limit) + 1)


class MLP(nn.Module):
    """Gated: down(activation(gate(x)) * up(x)) (Shazeer, 2020); not gated:
    down(activation(up(x)))."""

    def __init__(self, spec: MlpSpec, hidden_size: int) -> None:
        super().__init__()
        inner, bias = spec.intermediate_size, spec.bias
        self.gated = spec.gated
        self.activation = XIELU() if spec.activation == "xielu" else ACTIVATIONS[spec.activation]
        self.limit = spec.limit
        if spec.gated:
            self.gate_proj = nn.Linear(hidden_size, inner, bias)
        self.up_proj = nn.Linear(hidden_size, inner, bias)
        self.down_proj = nn.Linear(inner, hidden_size, bias)
        if spec.row_gate:
            assert spec.gated and spec.limit is None
            self.row_gate = nn.Linear(hidden_size, 1, bias=False)
        self.has_row_gate = spec.row_gate

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        if not self.gated:
            return self.down_proj(self.activation(self.up_proj(x)))
        if self.has_row_gate:
            inner = self.activation(self.gate_proj(x)) * self.up_proj(x)
            return self.down_proj(inner * torch.sigmoid(self.row_gate(x)))
        if self.limit is None:
            return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))
        gate, up = clamped(self.gate_proj(x), self.up_proj(x), self.limit)
        return self.down_proj(self.activation(gate) * up)

    def block(self, path: str, norms: Norms) -> Block:
        """Returns the description that quantization uses; `path` is the block's place in its
        layer."""
        up = f"{path}.up_proj"
        readers = Part(f"{path}.gate_up_proj", (f"{path}.gate_proj", up), joins=True)
        down = Part(f"{path}.down_proj", (f"{path}.down_proj",))
        return Block(
            module=path,
            norm=norms.before,
            readers=(readers if self.gated else Part(up, (up,)),),
            last=down,
            after=norms.after,
            feeds_last=up if self.gated else None,
            heads=None,
        )
